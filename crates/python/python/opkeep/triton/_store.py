"""The store, which the command `opkeep` uses as well."""

from __future__ import annotations

import atexit
import os

from .. import _native
from ..errors import StoreError

_LIMITS = ("ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO", "OPKEEP_MAX_CACHE_ENTRIES")

_open: dict[tuple[str, str], _native.TritonFiles] = {}


def files_for(target: str) -> _native.TritonFiles:
    """Return the files for a target, in the store that the environment names."""
    key = (_root(), target)
    files = _open.get(key)
    if files is None:
        limits = tuple(os.environ.get(name) or None for name in _LIMITS)
        files = _open[key] = _native.TritonFiles(*key, limits)
    return files


def _root() -> str:
    """Return the store's directory, by the rules of the command."""
    named = os.environ.get("OPKEEP_CACHE_DIR")
    if named:
        return named
    cann = os.environ.get("ASCEND_CACHE_PATH")
    if cann:
        return os.path.join(cann, "opkeep")
    cache = os.environ.get("XDG_CACHE_HOME")
    if cache and os.path.isabs(cache):
        return os.path.join(cache, "opkeep")
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise StoreError("there is no home directory for the store: set OPKEEP_CACHE_DIR")
    return os.path.join(home, ".cache", "opkeep")


@atexit.register
def _flush() -> None:
    for files in _open.values():
        files.flush()
