"""`Cache.get` of a 15 KiB entry beside the same in Rust, and the time of `import opkeep`, in one run.

    cargo build --release --package opkeep-embed --example time_get
    pip install ./crates/python
    python crates/python/benches/cache_get.py target/release/examples/time_get

Both read and check the entry and take the bytes of its file, which Python copies. The rounds alternate, so that both meet
the same load; the medians are compared.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

import opkeep

from figures import note

KEY = bytes(32)
TURNS = 11
ROUNDS = 400
MOST = 2.0
IMPORT_MS = 5.0


def python_rounds(root: str) -> list[float]:
    """Return the microseconds of each round in Python."""
    cache = opkeep.Cache(root, "cuda-sm_90")
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        hit = cache.get(KEY)
        assert hit is not None
        content = hit["kernel"]
        times.append((time.perf_counter_ns() - begin) / 1000)
        assert len(content) == 15 << 10
    return times


def rust_rounds(program: str, root: str) -> list[float]:
    """Return the microseconds of each round in Rust."""
    command = [program, root, "cuda-sm_90", "python", str(ROUNDS)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [int(line) / 1000 for line in output.split()]


def import_ms() -> float:
    """Return the milliseconds of an import in a new interpreter."""
    program = "import time; begin = time.perf_counter(); import opkeep; print((time.perf_counter() - begin) * 1e3)"
    return float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)


def main() -> int:
    (program,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as root:
        opkeep.Cache(root, "cuda-sm_90").publish(KEY, {"kernel": os.urandom(15 << 10)})
        ours, theirs = [], []
        for _ in range(TURNS):
            ours.append(statistics.median(python_rounds(root)) / 1e6)
            theirs.append(statistics.median(rust_rounds(program, root)) / 1e6)
    is_kept = note("cache_get", "get of 15 KiB, Python beside Rust", ours, theirs, MOST)
    imports = statistics.median(import_ms() for _ in range(TURNS))
    print(f"import opkeep: {imports:.2f} ms (at most {IMPORT_MS})")
    return int(not is_kept or imports > IMPORT_MS)


if __name__ == "__main__":
    sys.exit(main())
