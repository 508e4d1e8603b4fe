"""Runs the cases of one framework for each column, and writes the results as JSON."""

import argparse
import importlib.util
import json
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import crossing
import damage
import disks
import jax_cases
import killed
import race
import upgrade
import writers
from outcome import Result
from processes import Framework, Setting

CASES = {
    "triton": [
        race.all_at_once,
        race.times,
        killed.stopped,
        crossing.crossed,
        damage.cases,
        writers.cases,
        killed.killed,
        killed.killed_with_waiters,
        killed.failing,
        disks.cases,
    ],
    "triton-hip": [race.all_at_once, damage.cases],
    "triton-ascend": [race.all_at_once, damage.cases, upgrade.upgrade, upgrade.marker],
    "jax": [jax_cases.race_of_all, jax_cases.damaged],
}


#: Cases that wait for half a minute: the others run meanwhile.
WAITING = {killed.stopped, crossing.crossed}
#: Cases that only measure, which a part of the cases leaves out.
MEASURING = {race.times}


@dataclass
class Done:
    """Results that are there, as a future has them."""

    results: list[dict]

    def result(self) -> list[dict]:
        return self.results


def name(cases: Callable) -> str:
    """Module and function."""
    return f"{cases.__module__}.{cases.__name__}"


def run(cases: Callable, column: str, setting: Setting) -> list[dict]:
    """The results of one function, with those before an exception. A case of ours that breaks is wrong."""
    started = time.monotonic()
    results: list[dict] = []
    try:
        results.extend(result.as_json() for result in cases(setting, column))
    except Exception as error:
        if column == "stock":
            raise
        traceback.print_exc()
        broken = f"{type(error).__name__}: {error}"
        results.append(Result(name(cases), "", column, "the case broke", [broken]).as_json())
    print(f"{name(cases)} {column}: {time.monotonic() - started:.1f} s", file=sys.stderr)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", choices=CASES)
    parser.add_argument("--version", required=True)
    parser.add_argument("--packages", type=Path, help="directory with the framework, if the environment has it not")
    parser.add_argument("--columns", default="stock,opkeep")
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="a part of a name such as killed.stopped")
    given = parser.parse_args()
    framework = Framework(given.framework, given.version, given.packages)
    setting = Setting(framework, given.scratch, given.seed, given.quick)
    chosen = [cases for cases in CASES[given.framework] if not given.only or given.only in name(cases)]
    chosen = [cases for cases in chosen if not given.quick or cases not in MEASURING]
    columns = given.columns.split(",")
    if given.framework == "jax" and importlib.util.find_spec("opkeep.jax") is None:
        columns.remove("opkeep")
    turns = [(cases, column) for cases in chosen for column in columns]
    with ThreadPoolExecutor(len(WAITING) * len(columns)) as background:
        running = [
            background.submit(run, *turn, setting) if turn[0] in WAITING else Done(run(*turn, setting)) for turn in turns
        ]
    results = [result for done in running for result in done.result()]
    found = {"framework": framework.name, "version": framework.version, "cases": results}
    given.results.write_text(json.dumps(found, indent=1))


main()
