"""The digests of compilers, which are computed once a process while the files stay as they are."""

from __future__ import annotations

import os
import time

from .. import _native

_UNSETTLED_NS = 2_000_000_000
"""A file that changed more recently may change again without a change of its times."""

_digests: dict[str, tuple[tuple[int, ...], bytes]] = {}


def digest_of(path: str) -> bytes:
    """Return the digest of the file at `path`. Links are followed."""
    state = _state(path)
    known = _digests.get(path)
    if known is not None and known[0] == state:
        return known[1]
    digest = bytes(_native.digest_of_file(path))
    if _state(path) == state and time.time_ns() - max(state[3:]) > _UNSETTLED_NS:
        _digests[path] = (state, digest)
    return digest


def _state(path: str) -> tuple[int, ...]:
    stat = os.stat(path)
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
