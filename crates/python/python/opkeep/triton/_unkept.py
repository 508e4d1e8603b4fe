"""Files of compiles that are not kept.

They lie in a directory of their own, since other processes write the files of the same key in `<key>/`, and Triton reads what it
was given a moment later. A manager has one in each process: a forked child has the managers of its parent. The directory is
removed when the interpreter ends, and what a process without such an end leaves is removed a day later.
"""

from __future__ import annotations

import atexit
import os
import shutil

from .. import _native

_directories: list[str] = []

_MARK = ".opkeep-unkept-"
_DIGITS = 16
"""The length of the random number after it."""
_LEFT_AFTER = 24 * 3600.0
"""The age in seconds from which on a directory is one that a killed process left."""


class UnkeptFiles:
    """The files of one manager."""

    def __init__(self, base: str, key: str) -> None:
        self._base = base
        self._key = key
        self._path = ""
        self._directory: _native.Directory | None = None

    def write(self, name: str, content: bytes) -> str:
        """Write a file, and return its path."""
        directory = self._directory
        if directory is not None and self._path in _directories:
            directory.write(name, content)
        else:
            self._begin().write(name, content)
            _prune(self._base, os.stat(self._path).st_mtime)
        return os.path.join(self._path, name)

    def _begin(self) -> _native.Directory:
        name = f"{self._key}{_MARK}{os.urandom(_DIGITS // 2).hex()}"
        self._path = os.path.join(self._base, name)
        self._directory = _native.Directory(self._base, name)
        _directories.append(self._path)
        return self._directory


def _prune(base: str, now: float) -> None:
    """Remove what killed processes left, by the clock of the file system. Best effort: others may remove the same."""
    try:
        with os.scandir(base) as entries:
            for entry in entries:
                random = entry.name.rpartition(_MARK)[2]
                is_unkept = len(random) == _DIGITS < len(entry.name) and not random.strip("0123456789abcdef")
                if is_unkept and now - entry.stat(follow_symlinks=False).st_mtime > _LEFT_AFTER:
                    shutil.rmtree(entry.path, ignore_errors=True)
    except OSError:
        pass


@atexit.register
def _remove() -> None:
    for path in _directories:
        shutil.rmtree(path, ignore_errors=True)


# They are those of the parent.
os.register_at_fork(after_in_child=_directories.clear)
