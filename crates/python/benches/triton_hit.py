"""Times of Triton with its own cache manager, with ours, and with one that does no I/O at all.

    PYTHONPATH=crates/python/tests python crates/python/benches/triton_hit.py

In one run, on one CPU: a hit, by turns with each manager. Then, on all CPUs: one kernel in 1 and in 8 processes, from a common
start after each has computed Triton's own key, with the number of compiles. The store has another kernel already, since the first
one of all creates some hundred directories.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from typing import Any

from figures import note

ROUNDS, HITS, PROCESSES = 40, 25, 8
# The stock manager's races have no limit.
RACES = {"stock": 1, "opkeep": 5}
MOST_HIT, MOST_RACE = 1.2, 1.3
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


class CacheManager:
    """A manager that remembers the paths of the stock manager: no I/O."""

    groups: dict[str, dict[str, str]] = {}

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self.key = key

    def get_group(self, filename: str) -> dict[str, str] | None:
        if self.key not in self.groups:
            from triton.runtime.cache import FileCacheManager

            self.groups[self.key] = FileCacheManager(self.key).get_group(filename)
        return self.groups[self.key]


NAMES = {
    "stock": "triton.runtime.cache:FileCacheManager",
    "no I/O": f"{__name__ if __name__ != '__main__' else 'triton_hit'}:CacheManager",
    "opkeep": "opkeep.triton:CacheManager",
}


def use(name: str, root: str) -> None:
    """Use a manager, in a directory of its own."""
    directory = "stock" if name == "no I/O" else name
    os.environ["TRITON_CACHE_DIR"] = f"{root}/{directory}"
    os.environ["OPKEEP_CACHE_DIR"] = f"{root}/store"
    os.environ["TRITON_CACHE_MANAGER"] = NAMES[name]


def hits() -> bool:
    """Print the time of a hit with each manager. Return whether ours keeps its limit."""
    import triton_kernels as kernels

    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    times: dict[str, list[float]] = {name: [] for name in NAMES}
    with tempfile.TemporaryDirectory() as root:
        for turn in range(ROUNDS + 1):
            for name in NAMES:
                use(name, root)
                kernels.compile()
                # The time of this thread's CPU: other programs on the machine are no part of it.
                begin = time.thread_time()
                for _ in range(HITS):
                    kernels.compile()
                if turn:
                    times[name].append((time.thread_time() - begin) / HITS)
    assert kernels.compiles.count == 2, kernels.compiles.count
    print(f"a hit, CPU time, median and least of {ROUNDS} rounds of {HITS}, in ms")
    for name, found in times.items():
        print(f"  {name:8} {statistics.median(found) * 1e3:.3f}  {min(found) * 1e3:.3f}")
    return note("triton_hit", "a hit with opkeep, beside stock", times["opkeep"], times["stock"], MOST_HIT)


def other_kernel(name: str, root: str) -> None:
    """Compile a kernel that the race does not want."""
    use(name, root)
    import triton_kernels as kernels

    kernels.compile(512)


def one_process(name: str, root: str, barrier: Any, results: Any) -> None:
    """Compile one kernel at the common start."""
    use(name, root)
    import triton_kernels as kernels
    kernels.triton_key()
    barrier.wait()
    begin = time.monotonic()
    kernels.compile()
    results.put((begin, time.monotonic(), kernels.compiles.count))


def races() -> bool:
    """Print the time of one kernel in several processes. Return whether ours keeps its limit."""
    is_kept = True
    context = multiprocessing.get_context("spawn")
    for name, races in RACES.items():
        walls: dict[int, list[float]] = {1: [], PROCESSES: []}
        compiles: dict[int, list[int]] = {1: [], PROCESSES: []}
        for _ in range(races):
            for count in walls:
                with tempfile.TemporaryDirectory() as root:
                    before = context.Process(target=other_kernel, args=(name, root))
                    before.start()
                    before.join()
                    barrier, results = context.Barrier(count), context.Queue()
                    arguments = (name, root, barrier, results)
                    processes = [context.Process(target=one_process, args=arguments) for _ in range(count)]
                    for process in processes:
                        process.start()
                    found = [results.get() for _ in processes]
                    for process in processes:
                        process.join()
                begins, ends, counts = zip(*found, strict=True)
                walls[count].append(max(ends) - min(begins))
                compiles[count].append(sum(counts))
        print(f"one kernel with {name}, {PROCESSES} processes: {statistics.mean(compiles[PROCESSES]):.1f} compiles")
        row = f"{PROCESSES} processes with {name}, beside one"
        if name == "opkeep":
            is_kept = note("triton_hit", row, walls[PROCESSES], walls[1], MOST_RACE)
        else:
            print(f"{row}: {statistics.median(walls[PROCESSES]):.2f} s beside {statistics.median(walls[1]):.2f}")
    return is_kept


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    kinds = [kind for kind in (hits, races) if kind.__name__ in sys.argv[1:] or not sys.argv[1:]]
    sys.exit(not all([kind() for kind in kinds]))
