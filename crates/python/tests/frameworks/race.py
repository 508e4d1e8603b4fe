"""Many processes that want the same kernel at once."""

import time
from collections.abc import Iterator

from outcome import Result, check, count
from processes import Setting, Start, Worker, workers

PROCESSES = 8
COLD, WARM, ALONE = 100, 101, 200


def all_at_once(setting: Setting, column: str) -> Iterator[Result]:
    """The compiles that the shim counts."""
    rounds = 2 if setting.quick else 4
    setting.reference([COLD + turn for turn in range(rounds)])
    with workers(setting.site(column), PROCESSES) as racers:
        results = [race(racers, COLD + turn) for turn in range(rounds)]
    starts = [start for result in results for start in result[1]]
    wrong = [
        f"kernel {COLD + turn}: {text}"
        for turn, (_, found) in enumerate(results)
        for text in check(found, setting.references[COLD + turn], compiles=1)
    ]
    compiles = sum(start.compiles for start in starts) / rounds
    yield Result(f"{PROCESSES} processes, one kernel", "", column, count(compiles), wrong, {"compiles": compiles})


def times(setting: Setting, column: str) -> Iterator[Result]:
    """Wall times from the common barrier, with the real compiler: the first compile of a process, and later ones."""
    rounds = 3 if setting.quick else 6
    site = setting.site(column, real_ptxas=True)
    with workers(site) as alone:
        one = [race(alone, ALONE + turn)[0] for turn in range(rounds)]
    with workers(setting.site(column, real_ptxas=True), PROCESSES) as racers:
        many = [race(racers, ALONE + turn)[0] for turn in range(rounds)]
    facts = {
        "first": {"alone": one[0], "race": many[0]},
        "later": {"alone": middle(one[1:]), "race": middle(many[1:])},
    }
    parts = [
        f"{name} {value['race']:.3f} s ({value['alone']:.3f} s alone, {value['race'] / value['alone']:.1f} times)"
        for name, value in facts.items()
    ]
    yield Result(f"wall time of {PROCESSES} processes", "", column, "; ".join(parts), facts=facts, is_judged=False)


def race(racers: list[Worker], kernel: int) -> tuple[float, list[Start]]:
    """All ask for the kernel at the same moment; the time until the last one has it."""
    moment = time.monotonic() + 0.1
    for racer in racers:
        racer.send(kernel, at=moment)
    starts = [racer.receive() for racer in racers]
    return max(start.end for start in starts) - moment, starts


def middle(values: list[float]) -> float:
    """The median, of an even number the upper one."""
    return sorted(values)[len(values) // 2]
