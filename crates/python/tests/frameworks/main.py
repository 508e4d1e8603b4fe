"""Runs the cases of one framework for each column, and writes the results as JSON."""

import argparse
import json
import sys
import time
from pathlib import Path

import damage
import disks
import jax_cases
import killed
import race
import upgrade
import writers
from processes import Framework, Setting

CASES = {
    "triton": [race.cases, damage.cases, writers.cases, killed.cases, disks.cases],
    "triton-ascend": [upgrade.cases],
    "jax": [jax_cases.cases],
}


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
    parser.add_argument("--only", help="a part of the name of a module of cases")
    given = parser.parse_args()
    framework = Framework(given.framework, given.version, given.packages)
    setting = Setting(framework, given.scratch, given.seed, given.quick)
    results = []
    for cases in CASES[given.framework]:
        if given.only and given.only not in cases.__module__:
            continue
        for column in given.columns.split(","):
            started = time.monotonic()
            results += [result.as_json() for result in cases(setting, column)]
            print(f"{cases.__module__} {column}: {time.monotonic() - started:.1f} s", file=sys.stderr)
    found = {"framework": framework.name, "version": framework.version, "cases": results}
    given.results.write_text(json.dumps(found, indent=1))


main()
