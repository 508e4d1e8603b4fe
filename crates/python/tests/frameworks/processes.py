"""The processes of a case, their directories, and the shims that count compiles."""

import contextlib
import itertools
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).parent
#: After this time a process that does not answer has failed.
PATIENCE = 90.0

# What the shim does, apart from counting, is set for one command of one worker.
PTXAS_SHIM = """#!/bin/sh
case "$*" in *--version*) exec {ptxas} "$@";; esac
echo "$PPID" >> "$HARNESS_COMPILES"
if [ -n "$HARNESS_GATE" ]; then
  turns=0
  while [ ! -e "$HARNESS_GATE" ] && [ $turns -lt 9000 ]; do sleep 0.01; turns=$((turns+1)); done
  if [ "$(cat "$HARNESS_GATE")" = fail ]; then echo "this compile has to fail" >&2; exit 1; fi
fi
if [ "$HARNESS_KILL" = before ]; then kill -9 "$PPID"; exit 1; fi
{ptxas} "$@" $HARNESS_PTXAS_FLAGS
status=$?
if [ -n "$HARNESS_KILL" ]; then (sleep "$HARNESS_KILL"; kill -9 "$PPID") >/dev/null 2>&1 & fi
exit $status
"""

BISHENG_SHIM = """#!/bin/sh
for word; do case "$before" in -o) out=$word;; esac; before=$word; done
[ -n "$out" ] || {{ echo "bishengir-compile {release}"; exit 0; }}
echo "$PPID" >> "$HARNESS_COMPILES"
if [ "$HARNESS_KILL" = before ]; then kill -9 "$PPID"; exit 1; fi
{{ echo "object of CANN {release}"; cat "$1"; }} > "$out.o"
cp "$out.o" "${{out}}_reloc.o"
"""


class NoAnswer(Exception):
    """A process ended, or did not answer in time."""


@dataclass
class Framework:
    """A framework, as installed for this run."""

    name: str  # triton, triton-hip, triton-ascend, jax
    version: str
    packages: Path | None  # before the environment's own packages
    key: str = ""  # Triton's, once a process has computed it

    @property
    def kernels(self) -> str:
        return "jax_kernels" if self.name == "jax" else "kernels"

    @property
    def backend(self) -> str:
        return {"triton-ascend": "npu", "triton-hip": "hip"}.get(self.name, "cuda")

    def assemblers(self) -> list[Path]:
        """NVIDIA's assemblers in the package: later versions of Triton have one for each range of chips."""
        return sorted(self.packages.glob("triton/backends/nvidia/bin/ptxas*")) if self.name == "triton" else []


@dataclass
class Site:
    """Directories of one case, and the environment of its processes."""

    framework: Framework
    column: str  # stock, opkeep
    root: Path
    real_ptxas: bool = False
    release: str = "8.2"
    extra: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for directory in (self.cache, self.store, self.root / "bin"):
            directory.mkdir(parents=True, exist_ok=True)
        self.log.touch()

    @property
    def cache(self) -> Path:
        """The framework's own cache directory."""
        return self.root / "cache"

    @property
    def store(self) -> Path:
        """opkeep's cache directory."""
        return self.root / "store"

    @property
    def log(self) -> Path:
        """A line with the process id for each compile."""
        return self.root / "compiles"

    def compiles(self, process: int | None = None) -> int:
        """How often the compiler ran, for one process or all."""
        lines = self.log.read_text().split()
        return len(lines) if process is None else lines.count(str(process))

    def environment(self) -> dict[str, str]:
        """The environment of the processes, with the shims in place."""
        named = {"HARNESS_COMPILES": self.log, "HARNESS_COLUMN": self.column, "OPKEEP_CACHE_DIR": self.store}
        if self.framework.name == "jax":
            named["HARNESS_JAX_DIR"] = self.cache
        else:
            named["TRITON_CACHE_DIR"] = self.cache
            named["TRITON_DEFAULT_FP_FUSION"] = "1"
            named["HARNESS_KEY"] = self.framework.key
            if self.column == "opkeep":
                named["TRITON_CACHE_MANAGER"] = "opkeep.triton:CacheManager"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRITON_", "OPKEEP_", "HARNESS_"))}
        path = kept.get("PATH", "")
        for real in [] if self.real_ptxas else self.framework.assemblers():
            variable = f"TRITON_{real.name.upper().replace('-', '_')}_PATH"
            named[variable] = self.shim(real.name, PTXAS_SHIM.format(ptxas=real))
        if self.framework.backend == "npu":
            path = f"{self.shim('bishengir-compile', BISHENG_SHIM.format(release=self.release)).parent}:{path}"
        packages = f"{self.framework.packages}:{PROGRAMS}" if self.framework.packages else str(PROGRAMS)
        own = {name: str(value) for name, value in named.items()}
        return {**kept, "PATH": path, "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1", **own, **self.extra}

    def shim(self, name: str, text: str) -> Path:
        """A compiler's shim, written anew only if it differs."""
        path = self.root / "bin" / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def files(self) -> set[Path]:
        """All files of opkeep's store."""
        return {path for path in self.store.rglob("*") if path.is_file()}


@dataclass
class Start:
    """What one process got for one kernel."""

    error: str | None
    text: str
    digests: dict[str, str]
    seconds: float
    end: float
    compiles: int
    directory: str | None
    writer: str | None = None

    def state(self, reference: dict[str, str]) -> str:
        """`right`, `damaged`, or the name of the exception."""
        if self.error is not None:
            return self.error
        return "right" if self.digests == reference else "damaged"


class Worker:
    """An interpreter of its own that compiles on request."""

    def __init__(self, site: Site, wrap: tuple[str, ...] = ()) -> None:
        self.site = site
        self.errors = open(site.root / "errors.txt", "ab")  # noqa: SIM115
        command = [*wrap, sys.executable, str(PROGRAMS / "worker.py"), site.framework.kernels, site.framework.backend]
        self.process = subprocess.Popen(
            command, env=site.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            cwd=site.root,
        )
        self.buffer = b""
        self.pid = 0
        self.before = 0

    def ready(self) -> "Worker":
        """Wait until the framework is loaded."""
        answer = self.line(PATIENCE)
        self.pid, self.site.framework.key = answer["ready"], answer["key"]
        return self

    def send(self, kernel: int, **more: object) -> None:
        """Ask for a kernel."""
        self.before = self.site.compiles(self.pid)
        self.process.stdin.write(json.dumps({"kernel": kernel, **more}).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self, patience: float = PATIENCE) -> Start:
        """The answer to the last question."""
        answer = self.line(patience)
        return Start(
            answer["error"], answer.get("text", ""), answer.get("digests", {}), answer["seconds"], answer["end"],
            self.site.compiles(self.pid) - self.before, answer.get("directory"), answer.get("writer"),
        )

    def compile(self, kernel: int, **more: object) -> Start:
        """Ask for a kernel and wait for the answer."""
        self.send(kernel, **more)
        return self.receive()

    def line(self, patience: float) -> dict:
        until = time.monotonic() + patience
        while b"\n" not in self.buffer:
            left = max(0.0, until - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                raise NoAnswer(f"no answer for {patience:.0f} s")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise NoAnswer(f"the process ended with {self.process.wait()}; see {self.errors.name}")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def signal(self, number: int) -> None:
        """Send a signal, if the process still is there."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid or self.process.pid, number)

    def close(self) -> None:
        """End the process."""
        self.signal(signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


@contextlib.contextmanager
def workers(site: Site, count: int = 1, wrap: tuple[str, ...] = ()) -> Iterator[list[Worker]]:
    """Interpreters that have loaded the framework; they end with the block."""
    started = [Worker(site, wrap) for _ in range(count)]
    try:
        yield [worker.ready() for worker in started]
    finally:
        for worker in started:
            worker.close()


@dataclass
class Setting:
    """What all cases of a framework share."""

    framework: Framework
    scratch: Path
    seed: int
    quick: bool
    references: dict[int, dict[str, str]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def site(self, column: str, **more: object) -> Site:
        """New directories of a case."""
        root = self.scratch / f"{next(self.numbers)}-{column}"
        shutil.rmtree(root, ignore_errors=True)
        return Site(self.framework, column, root, **more)

    def reference(self, kernels: list[int]) -> None:
        """Find out what each kernel has to be, by the stock manager in a directory that nobody damages."""
        missing = [kernel for kernel in kernels if kernel not in self.references]
        if not missing:
            return
        site = self.site("stock")
        with workers(site) as (worker,):
            for kernel in missing:
                self.references[kernel] = worker.compile(kernel).digests
        if site.compiles() != len(missing):
            raise RuntimeError(f"{site.compiles()} compiles were counted, but {len(missing)} done: is the shim in place?")
        shutil.rmtree(site.root)

    def some(self, items: list, parts: int) -> list:
        """All items, or with `--quick` a part that changes with the seed."""
        return items[self.seed % parts :: parts] if self.quick else items
