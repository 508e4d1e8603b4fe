"""What Triton itself says of its caches, in each of its releases."""

from __future__ import annotations

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
        return knobs.cache.dir
    # Before Triton 3.4.
    named = os.environ.get("TRITON_CACHE_DIR", "").strip()
    if named:
        return named
    from triton.runtime.cache import default_cache_dir

    return default_cache_dir()


def version() -> str:
    """Return the release of Triton."""
    return str(getattr(sys.modules.get("triton"), "__version__", ""))


def knob(group: str, name: str) -> Any:
    """Return one of Triton's settings, or None if this release does not have it."""
    knobs = sys.modules.get("triton.knobs")
    return getattr(getattr(knobs, group, None), name, None)
