"""The end of the process: counts are written, and what was published is sent, within one limit for all caches."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Protocol

from ._remote import UPLOAD_SECONDS


class _Native(Protocol):
    def flush(self) -> None: ...
    def finish_uploads(self, limit: float) -> int: ...


_providers: list[Callable[[], Iterable[_Native]]] = []


def close_at_exit(opened: Callable[[], Iterable[_Native]]) -> None:
    """Close what `opened` returns when the process ends."""
    _providers.append(opened)


@atexit.register
def _close_all() -> None:
    caches = [native for opened in _providers for native in opened()]
    # All counts are written first, each whatever happens at another one: Ctrl-C ends the rest.
    with ExitStack() as flushes:
        for native in reversed(caches):
            flushes.callback(native.flush)
    end = time.monotonic() + UPLOAD_SECONDS
    # A later process sends what is left.
    for native in caches:
        native.finish_uploads(max(0.0, end - time.monotonic()))
