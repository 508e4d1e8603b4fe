"""JAX's persistent cache: one file a computation."""

from collections.abc import Iterator
from pathlib import Path

import damage
from outcome import Result, check, count, describe
from processes import Setting, Site, workers
from race import PROCESSES, race

RACE, DAMAGED = 10, 100


def race_of_all(setting: Setting, column: str) -> Iterator[Result]:
    """The compiles that the count in the processes has."""
    rounds = 2 if setting.quick else 4
    setting.reference([RACE + turn for turn in range(rounds)])
    site = setting.site(column)
    with workers(site, PROCESSES) as racers:
        found = [race(racers, RACE + turn) for turn in range(rounds)]
    wrong = [
        text for turn, (_, starts) in enumerate(found) for text in check(starts, setting.references[RACE + turn], 1)
    ]
    compiles = site.compiles() / rounds
    yield Result(f"{PROCESSES} processes, one computation", "", column, count(compiles), wrong, {"compiles": compiles})


def damaged(setting: Setting, column: str) -> Iterator[Result]:
    """An entry is damaged between two starts."""
    site = setting.site(column)
    faults = list(damage.FAULTS)
    kernels = [DAMAGED + turn for turn in range(len(faults))]
    setting.reference(kernels)
    with workers(site, 3) as (writer, *readers):
        for fault, kernel in zip(faults, kernels, strict=True):
            before = entries(site)
            writer.compile(kernel)
            entry = damage.largest(entries(site) - before)
            damage.FAULTS[fault](entry)
        found = [[reader.compile(kernel) for kernel in kernels] for reader in readers]
    for fault, kernel, *starts in zip(faults, kernels, *found, strict=True):
        reference = setting.references[kernel]
        wrong = check(starts, reference, compiles=1)
        yield Result(f"an entry is {fault}", "", column, describe(starts, reference), wrong)


def entries(site: Site) -> set[Path]:
    """The entries of the cache that is used. The counters of a store can be larger than a small entry."""
    if site.column == "opkeep":
        return {path for path in site.files() if path.suffix == ".kern"}
    return {path for path in site.cache.rglob("*") if path.is_file()}
