"""Code that this process has loaded: its file may be replaced, and the process goes on with the old one.

Triton's key, and opkeep's, have the content of the files. So nothing is kept, or looked up, after a file has changed.
"""

from __future__ import annotations

import functools
import logging
import marshal
import os
import sys
from hashlib import sha256
from importlib.util import cache_from_source

from .. import _native

_contents: dict[str, object] = {}
_replaced: dict[str, str | None] = {}


class ReplacedError(Exception):
    """The file of loaded code has changed."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} has changed since this process began, which may have loaded another one; begin a new process")


def check_library(path: str, content: object) -> None:
    """Fail if the content of a library, or its digest, differs from that at the first call."""
    if _contents.setdefault(path, content) != content:
        raise ReplacedError(path)


def state_of(path: str) -> tuple[int, ...]:
    """Return the identity, size and times of a file."""
    stat = os.stat(path)
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def check_package(directory: str) -> None:
    """Fail if a module or library below a directory has changed after this process loaded it. It looks once."""
    if directory not in _replaced:
        begin = _load_time()
        changed = _native.code_below(directory, begin)
        _replaced[directory] = next((path for path in changed if _is_replaced(path, begin)), None)
    path = _replaced[directory]
    if path is not None:
        raise ReplacedError(path)


@functools.lru_cache(maxsize=None)
def digest_of_package(directory: str) -> str:
    """Return a digest of the modules and libraries below a directory. It is computed once."""
    digest = sha256()
    for path in _native.code_below(directory):
        with open(path, "rb") as file:
            content = sha256(file.read()).hexdigest()
        digest.update(f"{os.path.relpath(path, directory)}\0{content}\0".encode())
    return digest.hexdigest()


def _is_replaced(path: str, begin: int) -> bool:
    """Whether a file, or the link to it, was replaced after a time at which this process had not loaded it.

    Installers give a file more names, or fewer, when they create or delete another environment. That changes the time of its
    state, as does a replacement by an older file: so the file is compared with what is loaded then.
    """
    if os.path.islink(path) and os.lstat(path).st_ctime_ns > begin:
        return True
    stat = os.stat(path)
    if stat.st_ctime_ns <= begin:
        return False
    if stat.st_mtime_ns > begin:
        return True
    try:
        if path.endswith(".py"):
            return not _is_loaded_module(path, begin)
        return not _is_loaded_library(os.path.realpath(path), stat)
    except (OSError, SyntaxError, ValueError, EOFError, TypeError):
        return True


def _is_loaded_library(path: str, stat: os.stat_result) -> bool:
    """Whether this process has loaded the library at a path, or none of its name."""
    loaded = set()
    # A directory that is replaced is renamed before it is deleted, so the whole path does not count.
    name = os.path.basename(path)
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6 and name in os.path.basename(fields[5]):
                major, minor = (int(number, 16) for number in fields[3].split(":"))
                loaded.add((os.makedev(major, minor), int(fields[4])))
    # With one name, its content may have been written in place, and its time been set.
    return not loaded or stat.st_nlink > 1 and (stat.st_dev, stat.st_ino) in loaded


def _is_loaded_module(path: str, begin: int) -> bool:
    """Whether a module has the code that Python had compiled when this process began, or is not loaded."""
    compiled = cache_from_source(path)
    if os.path.exists(compiled) and os.stat(compiled).st_ctime_ns <= begin:
        with open(path, "rb") as source, open(compiled, "rb") as code:
            # The code follows a head of 16 bytes.
            return bool(compile(source.read(), path, "exec", dont_inherit=True) == marshal.loads(code.read()[16:]))
    # Before Triton 3.3, the modules of backends are loaded, but not among those of Python.
    if os.path.basename(path) in ("compiler.py", "driver.py"):
        return False
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return os.path.realpath(path) not in {os.path.realpath(file) for file in files if isinstance(file, str)}


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
