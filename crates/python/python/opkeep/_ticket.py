"""The right and duty to make files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import _native
from .errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from typing_extensions import Buffer, Self


class Ticket:
    """The right and duty to make the files under a key, while all other callers wait.

    A ticket ends when it is published, abandoned or no longer referenced, or when its process ends; then a waiter makes
    the files, or gets them. Until then a native thread renews it.

    A thread that holds a ticket does not wait for other keys: where it would wait, it gets an unshared ticket. While a process
    holds a ticket, its other threads wait for other keys for at most 30 seconds. So two processes that need each other's
    files do not wait for ever.

    >>> import opkeep, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> cache = opkeep.Cache(directory.name, "cuda-sm_90")
    >>> with cache.get_or_begin(bytes(32)) as ticket:
    ...     ticket.is_shared, ticket.is_held
    (True, True)
    >>> ticket.is_held
    False
    """

    __slots__ = ("_native", "_process")

    def __init__(self, native: _native.Ticket) -> None:
        if not isinstance(native, _native.Ticket):
            raise ArgumentError("a ticket cannot be created", help=["call Cache.get_or_begin"])
        self._native = native
        self._process = os.getpid()

    @property
    def key(self) -> str:
        """The key of the entry, as `Hit.key`."""
        return self._native.key

    @property
    def is_shared(self) -> bool:
        """Whether all other callers wait. If not, `unshared_reason` is the reason."""
        return self._native.unshared_reason is None

    @property
    def unshared_reason(self) -> str | None:
        """Why other callers may make the same files, if they may."""
        return self._native.unshared_reason

    @property
    def is_held(self) -> bool:
        """Whether the ticket can be published: it has not ended, and this process got it."""
        return self._native.is_held

    def publish(
        self,
        files: Mapping[str, Buffer],
        *,
        kernel: str = "",
        framework_version: str = "",
        compile_time: float | None = None,
    ) -> bool:
        """Publish the files, all or none, which ends the ticket. Return whether they were written.

        A file's content is `bytes`, which are not copied, or any other object with a buffer. `kernel`,
        `framework_version` and `compile_time`, in seconds, are for reports; without a compile time, it is the time since
        the ticket began.

        There are 1 to 60 files, of at least 1 byte each, and of at most 1023 MiB together. Their names have 1 to 200 letters,
        digits, `_`, `-` and `.`; `kernel`, `framework_version`, the `name` of a request, and the names and notes of a
        `toolchain` have at most 4096 bytes.

        If the files are not valid, this raises, and the ticket is still held. If the store cannot be written, this
        raises `StoreError`, and the ticket has ended.

        >>> import opkeep, tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> cache = opkeep.Cache(directory.name, "cuda-sm_90")
        >>> ticket = cache.get_or_begin(bytes(32))
        >>> ticket.publish({"../add.ptx": b".version 8.0"})
        Traceback (most recent call last):
        ...
        opkeep.errors.InvalidNameError: "../add.ptx" cannot be the name of a file: expected 1 to 200 letters, digits, `_`, `-` and `.`, without a directory
        >>> ticket.publish({"add.ptx": b".version 8.0"}, kernel="add")
        True
        """
        return self._native.publish(files, kernel, framework_version, compile_time)

    def abandon(self, reason: str | None = None) -> None:
        """End the ticket without files. An ended ticket stays as it is.

        With a `reason`, one that would hold for every caller, the waiters raise `HolderFailedError` at once. Without one,
        a waiter makes the files.

        >>> import opkeep, tempfile
        >>> directory = tempfile.TemporaryDirectory()
        >>> cache = opkeep.Cache(directory.name, "cuda-sm_90")
        >>> ticket = cache.get_or_begin(bytes(32))
        >>> ticket.abandon("the kernel needs 300 KiB of shared memory")
        >>> try:
        ...     ticket.publish({"add.ptx": b".version 8.0"})
        ... except opkeep.TicketEndedError as error:
        ...     print(error)
        the ticket has ended: it was published or abandoned before
        """
        self._native.abandon(reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # In a forked child, the ticket is the parent's.
        if self._native.is_held:
            self._native.abandon(None)

    def __repr__(self) -> str:
        state = "held" if self.is_held else "ended"
        if os.getpid() != self._process:
            state = f"of process {self._process}"
        return f"<Ticket {self.key[:12]}: {state}>"
