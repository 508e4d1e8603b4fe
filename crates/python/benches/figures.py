"""Figures for `cargo xtask bench-report`: lines of JSON, as the other benchmarks write them."""

from __future__ import annotations

import json
import os
import statistics


def note(bench: str, row: str, ours: list[float], beside: list[float], limit: float) -> bool:
    """Print a figure, and write it to the directory that `OPKEEP_FIGURES` names. Return whether the limit is kept.

    `ours` and `beside` are the seconds of each turn. The budget is a limit of their ratio; it is missed if three quarters of the
    turns miss it.
    """
    low, ratio, high = statistics.quantiles([one / other for one, other in zip(ours, beside, strict=True)], n=4)
    verdict = "kept" if ratio <= limit else "just about" if low <= limit else "BROKEN"
    middles = statistics.median(ours), statistics.median(beside)
    print(f"{row}: {middles[0] * 1e3:.3f} ms beside {middles[1] * 1e3:.3f}, {ratio:.2f} times ({low:.2f} to {high:.2f}): {verdict}")
    figure = {"bench": bench, "row": row, "unit": "s", "ours": middles[0], "floor": middles[1]}
    figure |= {"low": low, "ratio": ratio, "high": high}
    figure |= {"budget": f"{limit} times", "verdict": verdict, "of_budget": ratio / limit}
    directory = os.environ.get("OPKEEP_FIGURES")
    if directory:
        with open(os.path.join(directory, f"{bench}.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(figure) + "\n")
    return verdict != "BROKEN"
