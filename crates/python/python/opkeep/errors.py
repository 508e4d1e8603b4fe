"""The exceptions of opkeep. Their texts are those of the command.

>>> import opkeep
>>> issubclass(opkeep.InvalidKeyError, (opkeep.Error, ValueError))
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Error(Exception):
    """The base of all exceptions of opkeep.

    A traceback shows what to do below the text, with Python 3.11 and later.

    >>> import opkeep
    >>> error = opkeep.Error("the disk is full", help=["free some space"])
    >>> str(error), error.help, error.__notes__
    ('the disk is full', ('free some space',), ['help: free some space'])
    """

    help: tuple[str, ...]
    """What to do about it; often nothing."""

    def __init__(self, text: str, *, help: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.help = tuple(help)
        # Python 3.10 shows no notes itself; programs that format tracebacks, such as pytest, do.
        self.__notes__ = [f"help: {one}" for one in self.help]


class ArgumentError(Error, TypeError):
    """An argument has a type that is not accepted. The text names the argument, what was expected, and what was found."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument has a value that is not accepted."""


class SettingsError(Error, ValueError):
    """A setting of the remote cache or of the keys is not valid, or a key cannot be read. The text begins with the name of the
    argument, or of the variable of the environment, and has no password and no part of a secret key."""


class InvalidKeyError(Error, ValueError):
    """A key is neither 32 bytes nor 64 hexadecimal digits."""


class InvalidNameError(Error, ValueError):
    """The name of a framework, a target or a file is not valid."""


class InvalidFilesError(Error, ValueError):
    """There are no files, more than 60, or an empty one."""


class TooLargeError(InvalidFilesError):
    """The files have more than 1023 MiB."""


class InvalidKernelError(Error, ValueError):
    """The kernel among the files is not valid. Nothing was published, and the ticket is still held."""


class StoreError(Error):
    """The store cannot be written; or it cannot be read or does not exist, and the mode is `read-only` or `require`. Files that
    the caller made can be used nevertheless."""


class NotCachedError(Error, LookupError):
    """The mode of the cache forbids making the files, and they are not stored. The store itself can be used."""


class ClosedError(Error, ValueError):
    """The cache, or the hit, was closed."""


class TicketError(Error):
    """The ticket cannot be used."""


class TicketEndedError(TicketError):
    """The ticket was published or abandoned before."""


class ForkedTicketError(TicketError):
    """The ticket belongs to the process that forked this one."""


class HolderFailedError(Error):
    """Another caller failed to make the files, for a reason that holds for this one as well. The text is its reason."""


class WaitTimeoutError(Error, TimeoutError):
    """Another caller did not finish within the timeout."""


class CommandError(Error):
    """A command failed: an input cannot be read, or nothing could be done.

    >>> import opkeep
    >>> try:
    ...     opkeep.inspect("missing.json")
    ... except opkeep.CommandError as error:
    ...     error.exit_code
    2
    """

    exit_code: int
    """The exit code that the command would have."""
    result: Mapping[str, Any]
    """The result as far as the command got; see docs/json.md. Often empty."""

    def __init__(
        self,
        text: str,
        *,
        help: Sequence[str] = (),
        exit_code: int = 2,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(text, help=help)
        self.exit_code = exit_code
        self.result = result or {}


class UsageError(CommandError, ValueError):
    """An argument of a command has a value that is not accepted."""


class InternalError(Error):
    """An error in opkeep itself. Please report it."""
