"""Files of compiles that are not kept.

They lie in a directory of their own, since other processes write the files of the same key in `<key>/`, and Triton reads what it
was given a moment later. The directory is removed when the process ends.
"""

from __future__ import annotations

import atexit
import os
import shutil

from .. import _native

_directories: list[str] = []


class UnkeptFiles:
    """The files of one manager."""

    def __init__(self, base: str, key: str) -> None:
        name = f"{key}.opkeep-unkept-{os.urandom(8).hex()}"
        self._path = os.path.join(base, name)
        self._directory = _native.Directory(base, name)

    def write(self, name: str, content: bytes) -> str:
        """Write a file, and return its path."""
        if self._path not in _directories:
            _directories.append(self._path)
        self._directory.write(name, content)
        return os.path.join(self._path, name)


@atexit.register
def _remove() -> None:
    for path in _directories:
        shutil.rmtree(path, ignore_errors=True)


# They are those of the parent.
os.register_at_fork(after_in_child=_directories.clear)
