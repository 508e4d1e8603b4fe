"""The cache that JAX calls."""

from __future__ import annotations

import hashlib
import sys
import threading
from typing import TYPE_CHECKING

from .._log import logger
from ..cache import Cache, Hit, Ticket
from ..errors import Error, WaitTimeoutError
from ._toolchain import Part, is_known, toolchain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any

_FILE = "executable"
"""The name of the file in an entry."""


class _Current(threading.local):
    compile: Compile | None = None


_current = _Current()


class Compile:
    """A call of JAX that gets an executable from the cache, or compiles it. At its end, its tickets end."""

    toolchain: tuple[Part, ...] | None = None
    """The toolchain when JAX asked for the executable."""

    def __init__(self, platform: str, *, is_shared: bool) -> None:
        self.platform = platform
        self.is_shared = is_shared
        self.tickets: dict[str, Ticket] = {}
        self._outer: Compile | None = None

    def __enter__(self) -> Compile:
        # A compile may need another one.
        self._outer, _current.compile = _current.compile, self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _current.compile = self._outer
        for ticket in self.tickets.values():
            # Of an ended ticket, and of one of a parent process, this does nothing.
            ticket.__exit__(None, None, None)


class SharedCache:
    """Executables in the store. An error of the store is a warning: JAX then compiles."""

    _path: object

    def __init__(self, root: str, timeout: float | None, version: str, remote: Mapping[str, Any]) -> None:
        self._root = root
        self._timeout = timeout
        self._version = version
        self._remote = remote
        self._caches: dict[tuple[str, tuple[Part, ...]], Cache] = {}

    def get(self, key: str) -> bytes | None:
        """Return the executable under JAX's key, or None. Then the caller makes it, and others may wait for it."""
        compile = _current.compile
        # JAX also asks whether an executable is there, without making it.
        makes = sys._getframe(1).f_code.co_name == "get_executable_and_time"
        waits = False
        try:
            if compile is not None:
                compile.toolchain = toolchain(compile.platform)
            cache, own_key = self._cache(compile), _key(key)
            if compile is None or not compile.is_shared or not makes:
                return _executable(cache.get(own_key))
            waits = True
            claim = cache.get_or_begin(own_key, timeout=self._timeout)
        except WaitTimeoutError:
            return None
        except Exception as error:
            if waits and not isinstance(error, Error):
                # A signal handler raised it: it is the program's.
                raise
            logger.warning("JAX compiles by itself: %s", error)
            return None
        if isinstance(claim, Hit):
            return _executable(claim)
        compile.tickets[key] = claim
        return None

    def put(self, key: str, value: bytes) -> None:
        """Publish the executable that was made."""
        compile = _current.compile
        ticket = compile.tickets.pop(key, None) if compile is not None else None
        files = {_FILE: value}
        kernel = key.rsplit("-", 1)[0]
        try:
            if compile is not None and compile.toolchain not in (None, toolchain(compile.platform)):
                logger.info("a compiler changed during the compile, so an executable of JAX is not kept")
            elif ticket is not None and ticket.is_held:
                ticket.publish(files, kernel=kernel, framework_version=self._version)
            else:
                self._cache(compile).publish(_key(key), files, kernel=kernel, framework_version=self._version)
        except Exception as error:
            logger.warning("an executable of JAX is not kept: %s", error)
        finally:
            if ticket is not None:
                ticket.__exit__(None, None, None)

    def _cache(self, compile: Compile | None) -> Cache:
        target, parts = f"jax-{_platform(compile)}", toolchain(_platform(compile))
        stays_here = not is_known(_platform(compile))
        if stays_here:
            # What is made by compilers that are not in the key stays here, under keys of its own.
            parts += (("compilers that are not in the key", bytes(32), ""),)
        cache = self._caches.get((target, parts))
        if cache is None:
            cache = Cache(
                self._root, target, framework="jax", toolchain=parts, stays_here=stays_here, **self._remote
            )
            self._caches[target, parts] = cache
        return cache


def _key(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _platform(compile: Compile | None) -> str:
    return compile.platform if compile is not None else "unknown"


def _executable(hit: Hit | None) -> bytes | None:
    return None if hit is None else hit[_FILE]
