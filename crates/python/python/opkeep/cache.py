"""A cache of files: kernels that a framework compiles by itself."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, overload
from weakref import WeakSet

from . import _native
from ._exit import close_at_exit
from ._hit import Hit
from ._log import logger
from ._paths import path_of
from ._remote import UPLOAD_SECONDS, settings
from ._ticket import Ticket
from .errors import (
    ArgumentError,
    ArgumentValueError,
    ClosedError,
    InvalidFilesError,
    InvalidNameError,
    StoreError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Literal

    from typing_extensions import Buffer, Self

    from ._remote import RemoteMode

    Mode = Literal["enable", "force", "disable", "read-only", "require"]

__all__ = ["Cache", "Hit", "Ticket"]

_MOST_TICKETS = 1 << 31
_LIMITS = ("ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO", "OPKEEP_MAX_CACHE_ENTRIES")


class Cache:
    """The files of one framework for one target, in a store that any number of processes share.

    `root` is the store's directory, which is created; `~` is the home directory. `target` names what the files are for,
    `framework` who makes them: entries of different targets and frameworks never meet. `mode` is `enable`, `force` (make all
    once, replace entries), `disable`, `read-only` or `require` (a miss is an error). `trusted_owners` are the IDs of other
    users whose entries may be used. A ticket whose process gives no heartbeat for `stale_after` seconds no longer keeps others
    waiting; a ticket that is not ended keeps them waiting for `hold_limit` seconds at most, and if its process is stopped at that
    moment, for `stale_after` seconds in addition. `toolchain` are the compilers, each with a name, the SHA-256 digest of its
    content, and a note such as its version: they are part of each key, and `opkeep explain` says which of them changed. The
    variables that limit the size of the command's store limit this one, too.

    With `force`, all files are made once: only what was made since the cache was opened is a hit.

    A store that cannot be used is a warning in the log `opkeep`, and every caller makes its files. With `read-only` and
    `require` it is a `StoreError`.

    Threads and forked children may use a cache, and it can be pickled: the receiver opens it again.

    Hosts share files through a remote cache (docs/remote.md): `remote` is its URL, such as `redis://HOST`; `remote_mode` is `off`,
    `read` or `read-write`; `remote_namespace` is the part of it, since products and teams that use one engine choose different
    names. `sign_key` is the file of the secret key that signs what this host shares. With `trusted_keys`, public keys as
    `NAME:BASE64` or `@FILE` with a list of them, only files are used that one of them signed, or that this host made. What is not
    given comes from the environment when the cache is opened, as for the command: `OPKEEP_REMOTE`, `OPKEEP_REMOTE_MODE`,
    `OPKEEP_REMOTE_NAMESPACE`, `OPKEEP_SIGN_KEY`, `OPKEEP_TRUSTED_KEYS`. A setting that is not valid is a `SettingsError`; a remote
    cache that does not work is a warning in the log `opkeep`. With `stays_here`, the files work on this host only: they are
    neither sent, now or later, nor asked for.

    >>> import opkeep, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> cache = opkeep.Cache(directory.name, "cuda-sm_90", framework="example")
    >>> cache.get(bytes(32)) is None
    True

    Two hosts, each with a store of its own, that share a directory:

    >>> shared = tempfile.TemporaryDirectory()
    >>> stores = [tempfile.TemporaryDirectory() for _ in range(2)]
    >>> for store in stores:
    ...     with opkeep.Cache(store.name, "cuda-sm_90", remote=f"file://{shared.name}") as cache:
    ...         with cache.get_or_begin(bytes(32)) as claim:
    ...             print(type(claim).__name__)
    ...             if isinstance(claim, opkeep.Ticket):
    ...                 _ = claim.publish({"add.ptx": b".version 8.0"})
    Ticket
    Hit
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        target: str,
        *,
        framework: str = "python",
        mode: Mode = "enable",
        trusted_owners: Sequence[int] = (),
        stale_after: float = 30.0,
        hold_limit: float = 3600.0,
        toolchain: Sequence[tuple[str, bytes, str]] = (),
        stays_here: bool = False,
        remote: str | None = None,
        remote_mode: RemoteMode | None = None,
        remote_namespace: str | None = None,
        sign_key: str | os.PathLike[str] | None = None,
        trusted_keys: str | Sequence[str] | None = None,
    ) -> None:
        root = path_of("root", root)
        if not root:
            raise ArgumentValueError("root: expected a path, found an empty text", help=['root="." is this directory'])
        self._arguments = (root, target, framework, mode, trusted_owners, stale_after, hold_limit, toolchain, stays_here)
        self._remote = (remote, remote_mode, remote_namespace, sign_key, trusted_keys)
        limits = tuple(os.environ.get(name) or None for name in _LIMITS)
        self._native: _native.Cache | None = _native.Cache(*self._arguments, limits, settings(*self._remote))
        self._process = os.getpid()
        _open_caches.add(self)

    def get(self, key: bytes | str, *, name: str = "") -> Hit | None:
        """Return the files under `key`, or None. Every byte is checked; no lock is taken. With a remote cache, files that the store
        lacks are asked for there.

        `key` is 32 bytes, or 64 hexadecimal digits: a digest of everything that can change the files, such as the
        source, the options and the compiler. `name` distinguishes several groups of files under one key.

        >>> import opkeep, tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> cache = opkeep.Cache(directory.name, "cuda-sm_90")
        >>> cache.publish("11" * 32, {"add.ptx": b".version 8.0"})
        True
        >>> cache.get("11" * 32)["add.ptx"]
        b'.version 8.0'
        """
        files = self._open().get(key, name)
        return None if files is None else Hit(files)

    def get_or_begin(
        self, key: bytes | str, *, name: str = "", timeout: float | None = None, wait: bool = True
    ) -> Hit | Ticket:
        """Return the files under `key`, or a ticket: the right and duty to make them while all other callers wait.

        Waits while another caller makes the files, at most `timeout` seconds; then it raises `WaitTimeoutError`. The
        ticket of a caller that does not wait is unshared: others may make the same files. If the holder fails for a
        reason that it declares to hold for others, this raises `HolderFailedError`. A wait ends within 50 ms of Ctrl-C.

        Both results are context managers. One for a ticket abandons it unless it was published.

        >>> import opkeep, tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> cache = opkeep.Cache(directory.name, "cuda-sm_90")
        >>> for _ in range(2):
        ...     with cache.get_or_begin(bytes(32)) as claim:
        ...         if isinstance(claim, opkeep.Ticket):
        ...             print("published:", claim.publish({"add.ptx": b".version 8.0"}))
        ...         else:
        ...             print("found:", dict(claim))
        published: True
        found: {'add.ptx': b'.version 8.0'}
        """
        return _claim(self._open().get_or_begin(key, name, timeout, wait))

    def get_many(self, keys: Iterable[bytes | str], *, name: str = "") -> list[Hit | None]:
        """Return for each key what `get` returns. A remote cache is asked for all files that the store lacks in one call.

        >>> import opkeep, tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> cache = opkeep.Cache(directory.name, "cuda-sm_90")
        >>> cache.publish("11" * 32, {"add.ptx": b".version 8.0"})
        True
        >>> [hit is not None for hit in cache.get_many(["11" * 32, "22" * 32])]
        [True, False]
        """
        claims = self.get_or_begin_many(keys, name=name, max_tickets=0)
        return [claim if isinstance(claim, Hit) else None for claim in claims]

    def get_or_begin_many(
        self, keys: Iterable[bytes | str], *, name: str = "", max_tickets: int = 1
    ) -> list[Hit | Ticket | None]:
        """Return for each key its files, or a ticket to make them, for a caller that knows what it will need.

        A remote cache is asked for all files that the store lacks in one call. There are at most `max_tickets` tickets: as many as the
        caller makes at a time, so that other callers can make the rest. Nothing is waited for. None: another caller makes the files,
        or there were enough tickets; ask again with `get_or_begin` when the tickets have ended.

        >>> import opkeep, tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> cache = opkeep.Cache(directory.name, "cuda-sm_90")
        >>> keys = [bytes([number]) * 32 for number in range(3)]
        >>> cache.publish(keys[1], {"add.ptx": b".version 8.0"})
        True
        >>> for key, claim in zip(keys, cache.get_or_begin_many(keys)):
        ...     print(type(claim).__name__)
        ...     if isinstance(claim, opkeep.Ticket):
        ...         _ = claim.publish({"mul.ptx": b".version 8.0"})
        Ticket
        Hit
        NoneType
        """
        if isinstance(keys, (bytes, str)) or not isinstance(keys, Iterable):
            raise ArgumentError(f"keys: expected keys, found `{type(keys).__name__}`")
        if not isinstance(max_tickets, int) or max_tickets < 0:
            raise ArgumentValueError(f"max_tickets: expected a number that is 0 or more, found {max_tickets!r:.80}")
        claims = self._open().get_or_begin_many(list(keys), name, min(max_tickets, _MOST_TICKETS))
        return [_claim(claim) for claim in claims]

    def get_or_build(
        self,
        key: bytes | str,
        build: Callable[[], Mapping[str, Buffer]],
        *,
        name: str = "",
        timeout: float | None = None,
    ) -> Mapping[str, Buffer]:
        """Return the files under `key`: a `Hit`, or what `build` returns, which is published first.

        One caller of all processes calls `build`, and the others wait. If `build` raises, the exception goes on, and one
        of the waiters calls its own `build`.

        Files that cannot be stored are returned all the same, and a warning is logged: if the store cannot be written, or if
        they break a limit, which `Ticket.publish` lists. Then each caller makes them, one after the other. Only a result that is
        no mapping of names and bytes raises.

        >>> import opkeep, tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> cache = opkeep.Cache(directory.name, "cuda-sm_90")
        >>> def build():
        ...     print("building")
        ...     return {"add.ptx": b".version 8.0"}
        >>> dict(cache.get_or_build(bytes(32), build)) == dict(cache.get_or_build(bytes(32), build))
        building
        True
        """
        if not callable(build):
            raise ArgumentError(f"build: expected a function, found `{type(build).__name__}`")
        claim = self.get_or_begin(key, name=name, timeout=timeout)
        if isinstance(claim, Hit):
            return claim
        with claim:
            files = build()
            try:
                claim.publish(files)
            except ArgumentError as error:
                text = str(error).removeprefix("files: ")
                raise type(error)(f"the result of build: {text}", help=error.help) from None
            except (InvalidFilesError, InvalidNameError, StoreError) as error:
                logger.warning("the files that were made are not kept: %s", error)
            return files

    def publish(
        self,
        key: bytes | str,
        files: Mapping[str, Buffer],
        *,
        name: str = "",
        kernel: str = "",
        framework_version: str = "",
        compile_time: float | None = None,
    ) -> bool:
        """Publish files without a ticket, in place of those that are stored. Return whether they were written.

        The arguments are those of `get` and of `Ticket.publish`.

        >>> import opkeep, tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> cache = opkeep.Cache(directory.name, "cuda-sm_90")
        >>> cache.publish(bytes(32), {"add.ptx": b".version 8.0"}, kernel="add", compile_time=1.5)
        True
        >>> cache.get(bytes(32)).compile_time
        1.5
        """
        return self._open().publish(key, name, files, kernel, framework_version, compile_time)

    def close(self) -> None:
        """Write the counts of hits and misses to the store, and close it. Tickets and hits stay as they are.

        With a remote cache, this waits at most 5 seconds until what was published is sent. What is not sent by then is sent
        later, while the program goes on, or by a later process.

        >>> import opkeep, tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> with opkeep.Cache(directory.name, "cuda-sm_90") as cache:
        ...     pass
        >>> try:
        ...     cache.get(bytes(32))
        ... except opkeep.ClosedError as error:
        ...     print(error)
        the cache was closed
        """
        native, self._native = self._native, None
        if native is not None:
            native.flush()
            native.finish_uploads(UPLOAD_SECONDS)

    def _open(self) -> _native.Cache:
        if self._native is None:
            raise ClosedError("the cache was closed", help=["create another one with opkeep.Cache"])
        return self._native

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Cache], tuple[Any, ...]]:
        return _open_again, (self._arguments, self._remote)

    def __repr__(self) -> str:
        root, target, framework, mode, *_ = self._arguments
        return f"Cache({root!r}, {target!r}, framework={framework!r}, mode={mode!r})"


@overload
def _claim(claim: _native.Group | _native.Ticket) -> Hit | Ticket: ...
@overload
def _claim(claim: _native.Group | _native.Ticket | None) -> Hit | Ticket | None: ...
def _claim(claim: _native.Group | _native.Ticket | None) -> Hit | Ticket | None:
    if claim is None:
        return None
    return Ticket(claim) if isinstance(claim, _native.Ticket) else Hit(claim)


_open_caches: WeakSet[Cache] = WeakSet()


def _open_again(arguments: tuple[Any, ...], remote: tuple[Any, ...]) -> Cache:
    """Open a cache that was pickled."""
    root, target, *named = arguments
    names = ("framework", "mode", "trusted_owners", "stale_after", "hold_limit", "toolchain", "stays_here")
    remote_names = ("remote", "remote_mode", "remote_namespace", "sign_key", "trusted_keys")
    return Cache(root, target, **dict(zip(names, named, strict=True)), **dict(zip(remote_names, remote, strict=True)))


def _take_opened() -> Iterator[_native.Cache]:
    """Take the caches that are open at exit, which are closed then. A forked child's are its parent's."""
    for cache in list(_open_caches):
        native = cache._native
        if native is not None and cache._process == os.getpid():
            cache._native = None
            yield native


close_at_exit(_take_opened)
