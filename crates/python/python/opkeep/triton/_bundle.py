"""Groups that Inductor restored.

PyTorch's Inductor carries kernels in its own cache, and its bundler writes them into the directory of their key, with Triton's
list of them, before Triton asks for them. They are taken over if this process restored them. Files that lie there for longer
may be damaged, or stale, and nothing says which bytes they should have.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import sys
from collections.abc import Callable

from .. import _native
from ..errors import StoreError

_BUNDLER = "torch._inductor.triton_bundler"


def restored_group(
    directory: _native.Directory, path_of: Callable[[str], str], filename: str, key: str
) -> list[tuple[str, bytes]] | None:
    """Return the files of a group that this process restored, or None."""
    if _BUNDLER not in sys.modules:
        return None
    begin = _process_start()
    try:
        listed, changed = directory.read(f"__grp__{filename}")
        paths = json.loads(listed)["child_paths"]
        if changed < begin or any(os.path.realpath(path) != os.path.realpath(path_of(name)) for name, path in paths.items()):
            return None
        files = []
        for name in paths:
            content, changed = directory.read(name)
            if changed < begin:
                return None
            files.append((name, content))
        metadata = json.loads(dict(files)[filename])
    except (StoreError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return files if _is_key(metadata.get("hash"), key) else None


def _is_key(digest: object, key: str) -> bool:
    """Whether a key is this digest, which Triton writes in base 32 or, in older releases, 64."""
    try:
        digest = bytes.fromhex(str(digest))
    except ValueError:
        return False
    encoded = (base64.b32encode(digest), base64.urlsafe_b64encode(digest))
    return key in [text.decode().rstrip("=") for text in encoded]


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
