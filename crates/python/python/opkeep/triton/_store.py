"""The store, which the command `opkeep` uses as well."""

from __future__ import annotations

import os

from .. import _native
from .._exit import close_at_exit
from .._remote import settings
from .._root import default_root

_LIMITS = ("ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO", "OPKEEP_MAX_CACHE_ENTRIES")

_open: dict[tuple[str, str, bool], _native.TritonFiles] = {}


def files_for(target: str, *, is_local: bool = False) -> _native.TritonFiles:
    """Return the files for a target, in the store and the remote cache that the environment names. If they are for this machine,
    they stay here."""
    root = default_root()
    key = (root, target, is_local)
    files = _open.get(key)
    if files is None:
        limits = tuple(os.environ.get(name) or None for name in _LIMITS)
        files = _open[key] = _native.TritonFiles(root, target, limits, settings(), is_local)
    return files


# Another thread may open one meanwhile.
close_at_exit(lambda: list(_open.values()))
