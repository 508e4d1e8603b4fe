"""Code that this process has loaded: its file may be replaced, and the process goes on with the old one.

Triton's key, and opkeep's, have the content of the files. So nothing is kept, or looked up, after a file has changed.
"""

from __future__ import annotations

import logging
import marshal
import mmap
import os
import sys
import time
from collections.abc import Iterator
from importlib.util import cache_from_source
from typing import NamedTuple

from .. import _native

_contents: dict[str, object] = {}
_packages: dict[str, _Package] = {}
_replaced: dict[str, str] = {}


class _Package(NamedTuple):
    """A package as it was when this process first looked at it."""

    code: _native.PackageCode
    begin: int
    """A time before which nothing of it was loaded."""


class ReplacedError(Exception):
    """The file of loaded code has changed."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} has changed since this process began, which may have loaded another one; begin a new process")


class UnknownStartError(Exception):
    """Nothing says when this process loaded its code."""

    def __init__(self) -> None:
        super().__init__(
            "Triton may have been loaded by a parent process that has ended, and its files may have changed since; "
            "load Triton, or `logging` before it, in a process whose parent goes on"
        )


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
    if directory in _replaced:
        raise ReplacedError(_replaced[directory])
    if directory in _packages:
        return
    package = _Package(_native.PackageCode(directory), _load_time())
    path = package.code.link_made_after(package.begin)
    changed = package.code.changed_after(package.begin)
    path = path or next((path for path in changed if _is_replaced(path, package.begin)), None)
    _fail_if_replaced(directory, path or _another_library(directory))
    _packages[directory] = package


def check_package_again(directory: str) -> None:
    """Fail if it has changed since the first look: what was loaded meanwhile may be of another release."""
    check_package(directory)
    package, code = _packages[directory], _native.PackageCode(directory)
    changed, path = package.code.compared_with(code, package.begin)
    path = path or next((path for path in changed if _is_replaced(path, package.begin)), None)
    _fail_if_replaced(directory, path)
    _packages[directory] = _Package(code, package.begin)


def files_of_package(directory: str) -> list[str]:
    """Return the modules and libraries below a directory, as they were at the last look."""
    check_package(directory)
    return _packages[directory].code.files()


def _fail_if_replaced(directory: str, path: str | None) -> None:
    if path is not None:
        _replaced[directory] = path
        raise ReplacedError(path)


def _another_library(directory: str) -> str | None:
    """Return a library of Python's, such as `libtriton.so`, that was loaded from another file than the one at its path.

    A directory that gets the name of another one, with all that is in it, changes no time of the files. The libraries are mapped
    here for a moment, since some file systems state other numbers for what is mapped than for what is open. Libraries of other
    packages may have the same names.
    """
    inside = (path for path in _files_of_modules() if path.startswith(directory + os.sep))
    libraries = {os.path.basename(os.path.realpath(path)): path for path in inside if not path.endswith(".py")}
    before = {(name, *numbers) for name, numbers in _mapped_files() if name in libraries}
    for name, path in libraries.items():
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 1, access=mmap.ACCESS_READ):
            here = {(found, *numbers) for found, numbers in _mapped_files() if found == name}
        # The file at the path is mapped twice if it is the one that was loaded.
        if here - before and any(found == name for found, *_ in before):
            return path
    return None


def _mapped_files() -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each file that is mapped, and the numbers of its device and itself."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6:
                yield os.path.basename(fields[5].removesuffix(" (deleted)")), fields[3:5]


def _is_replaced(path: str, begin: int) -> bool:
    """Whether a file was replaced after a time at which this process had not loaded it.

    Installers give a file more names, or fewer, when they create or delete another environment. That changes the time of its
    state, as does a replacement by an older file: so the file is compared with what is loaded then.
    """
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
    for mapped, (device, number) in _mapped_files():
        if name in mapped:
            major, minor = (int(part, 16) for part in device.split(":"))
            loaded.add((os.makedev(major, minor), int(number)))
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
    return os.path.realpath(path) not in {os.path.realpath(file) for file in _files_of_modules()}


def _files_of_modules() -> Iterator[str]:
    """Yield the files of Python's modules. An attribute of a module may load another one, and fail: so none is asked for."""
    for module in list(sys.modules.values()):
        try:
            file = object.__getattribute__(module, "__dict__").get("__file__")
        except AttributeError:  # It is no module.
            continue
        if isinstance(file, str):
            yield file


def _load_time() -> int:
    """Return a time before which nothing of Triton was loaded, in nanoseconds since 1970.

    It is when Python loaded `logging`, which Triton loads before its compiler. Unlike the begin of the process, it is inherited
    by a forked child, and later than an installation by a script that becomes the interpreter.
    """
    begin = _logging_time()
    if begin is not None and (begin <= _process_start(os.getpid()) or not _is_forked(os.getpid())):
        return begin
    # A child that loads `logging` anew may have Triton from its parent.
    start = _program_start()
    if start is None:
        # The order of the modules says that it has not.
        start = begin
    if start is None:
        raise UnknownStartError
    return start


def _logging_time() -> int | None:
    """Return when Python loaded `logging`, if that was before Triton. A module that is loaded again is the last one."""
    names = list(sys.modules)
    begin = getattr(logging, "_startTime", None)
    if begin is None or "triton.compiler" in names and names.index("triton.compiler") < names.index("logging"):
        return None
    # In seconds before Python 3.13.
    return begin if isinstance(begin, int) else int(begin * 1_000_000_000)


def _program_start() -> int | None:
    """Return when this process began, or the parent that it was forked from, and so on. None: the parent has ended."""
    process = os.getpid()
    while _is_forked(process):
        try:
            parent = int(_fields_of(process)[1])
            if os.readlink(f"/proc/{parent}/exe") != os.readlink("/proc/self/exe"):
                return None
        except OSError:
            return None
        process = parent
    return _process_start(process)


def _is_forked(process: int) -> bool:
    """Whether a process is a forked child that runs no program of its own."""
    return bool(int(_fields_of(process)[6]) & 0x40)


def _process_start(process: int) -> int:
    """Return when a process began, in nanoseconds since 1970, and up to two ticks of the kernel earlier."""
    ticks = int(_fields_of(process)[19]) - 1
    since_boot = ticks * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME) + since_boot


def _fields_of(process: int) -> list[str]:
    """Return the fields of a process's state, from the third on."""
    with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()
