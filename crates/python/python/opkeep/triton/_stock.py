"""Triton's own caches and settings, in each of its releases."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any


def manager(key: str, override: bool = False, dump: bool = False) -> Any:
    """Create Triton's own manager of files."""
    from triton.runtime.cache import FileCacheManager

    return FileCacheManager(key, override=override, dump=dump)


def base_dir() -> str:
    """Return the directory of the kernels: `TRITON_CACHE_DIR`, or Triton's default."""
    import triton  # noqa: F401

    knobs = sys.modules.get("triton.knobs")
    if knobs is not None:
        return str(knobs.cache.dir)
    # Before Triton 3.4.
    named = os.environ.get("TRITON_CACHE_DIR", "").strip()
    if named:
        return named
    from triton.runtime.cache import default_cache_dir

    return str(default_cache_dir())


def version() -> str:
    """Return the release of Triton."""
    return str(getattr(sys.modules.get("triton"), "__version__", ""))


@functools.lru_cache(maxsize=None)
def directory() -> str:
    """Return the directory of Triton's modules."""
    import triton

    return os.path.dirname(str(triton.__file__))


def knob(group: str, name: str) -> Any:
    """Return one of Triton's settings, or None if this release does not have it."""
    knobs = sys.modules.get("triton.knobs")
    return getattr(getattr(knobs, group, None), name, None)


def c_compiler() -> str | None:
    """Return the C compiler that Triton runs, which it remembers; None if this release does not."""
    find = getattr(sys.modules.get("triton.runtime.build"), "_find_compiler", None)
    try:
        return str(find("c")) if find is not None else None
    except RuntimeError:  # There is none.
        return None
