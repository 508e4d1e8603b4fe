"""Code that this process has loaded: its file may be replaced, and the process goes on with the old one.

Triton's key, and opkeep's, have the content of the files. So nothing is kept, or looked up, after a file has changed.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Iterator
from hashlib import sha256


_states: dict[str, tuple[int, ...]] = {}
_replaced: dict[str, str | None] = {}


class ReplacedError(Exception):
    """The file of loaded code has changed."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} has changed since this process loaded it; begin a new process")


def check_library(path: str) -> None:
    """Fail if the file of a library differs from its state at the first call."""
    state = state_of(path)
    if _states.setdefault(path, state) != state:
        raise ReplacedError(path)


def state_of(path: str) -> tuple[int, ...]:
    """Return the identity, size and times of a file."""
    stat = os.stat(path)
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def check_package(directory: str) -> None:
    """Fail if a module or library below a directory has changed after this process loaded it. It looks once."""
    if directory not in _replaced:
        begin = _load_time()
        _replaced[directory] = next((entry.path for entry in _code(directory) if _changed(entry) > begin), None)
    path = _replaced[directory]
    if path is not None:
        raise ReplacedError(path)


@functools.lru_cache(maxsize=None)
def digest_of_package(directory: str) -> str:
    """Return a digest of the modules and libraries below a directory. It is computed once."""
    digest = sha256()
    for path in sorted(entry.path for entry in _code(directory)):
        with open(path, "rb") as file:
            content = sha256(file.read()).hexdigest()
        digest.update(f"{os.path.relpath(path, directory)}\0{content}\0".encode())
    return digest.hexdigest()


def _code(directory: str) -> Iterator[os.DirEntry[str]]:
    """Yield the modules and libraries below a directory. Links are followed: an editable installation has them."""
    seen, directories = set(), [directory]
    while directories:
        place = directories.pop()
        real = os.path.realpath(place)
        if real in seen:
            continue
        seen.add(real)
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.is_dir():
                    directories.append(entry.path)
                elif (entry.name.endswith(".py") or ".so" in entry.name) and entry.is_file():
                    yield entry


def _changed(entry: os.DirEntry[str]) -> int:
    """Return when a file, or the link to it, last changed."""
    own = entry.stat(follow_symlinks=False).st_ctime_ns
    return max(own, entry.stat().st_ctime_ns) if entry.is_symlink() else own


def _load_time() -> int:
    """Return a time before which nothing of Triton was loaded, in nanoseconds since 1970.

    It is when Python loaded `logging`, which Triton loads before its compiler. Unlike the begin of the process, it is inherited
    by a forked child, and later than an installation by a script that becomes the interpreter.
    """
    names = list(sys.modules)
    begin = getattr(logging, "_startTime", None)
    if begin is None or "triton.compiler" in names and names.index("triton.compiler") < names.index("logging"):
        return _process_start()
    # In seconds before Python 3.13.
    return begin if isinstance(begin, int) else int(begin * 1_000_000_000)


@functools.lru_cache(maxsize=1)
def _start_of(process: int) -> int:
    """Return when a process began, in nanoseconds since 1970, less a second: the kernel counts in hundredths."""
    with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    with open("/proc/stat", encoding="ascii") as file:
        boot = next(int(line.split()[1]) for line in file if line.startswith("btime"))
    return (boot - 1) * 1_000_000_000 + ticks * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def _process_start() -> int:
    return _start_of(os.getpid())
