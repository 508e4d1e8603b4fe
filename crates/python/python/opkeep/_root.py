"""The directory of the store, by the rules of the command."""

from __future__ import annotations

import os

from .errors import StoreError


def default_root() -> str:
    """Return the directory of the store that the environment names."""
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
        raise StoreError("there is no home directory for the store", help=["set OPKEEP_CACHE_DIR"])
    return os.path.join(home, ".cache", "opkeep")
