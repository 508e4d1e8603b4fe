"""The store, which the command `opkeep` uses as well."""

from __future__ import annotations

import atexit
import os

from .. import _native
from .._root import default_root

_LIMITS = ("ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO", "OPKEEP_MAX_CACHE_ENTRIES")

_open: dict[tuple[str, str], _native.TritonFiles] = {}


def files_for(target: str) -> _native.TritonFiles:
    """Return the files for a target, in the store that the environment names."""
    key = (default_root(), target)
    files = _open.get(key)
    if files is None:
        limits = tuple(os.environ.get(name) or None for name in _LIMITS)
        files = _open[key] = _native.TritonFiles(*key, limits)
    return files


@atexit.register
def _flush() -> None:
    # Another thread may open one meanwhile.
    for files in list(_open.values()):
        files.flush()
