"""Compiles the operators of neural networks once, and keeps the kernels for every process.

`Cache` keeps the files of a framework that compiles by itself. `build`, `diff`, `explain`, `inspect`, `ls`, `stats` and
`verify` are the commands of the same names.

>>> import opkeep
>>> opkeep.__version__.count(".")
2

Importing the package loads nothing: each name loads its module when it is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._native import __version__
    from .cache import Cache, Hit, Ticket
    from .commands import build, diff, explain, inspect, ls, stats, verify
    from .errors import (
        ArgumentError,
        ArgumentValueError,
        ClosedError,
        CommandError,
        Error,
        ForkedTicketError,
        HolderFailedError,
        InternalError,
        InvalidFilesError,
        InvalidKernelError,
        InvalidKeyError,
        InvalidNameError,
        NotCachedError,
        SettingsError,
        StoreError,
        TicketEndedError,
        TicketError,
        TooLargeError,
        UsageError,
        WaitTimeoutError,
    )

__all__ = [
    "ArgumentError",
    "ArgumentValueError",
    "Cache",
    "ClosedError",
    "CommandError",
    "Error",
    "ForkedTicketError",
    "Hit",
    "HolderFailedError",
    "InternalError",
    "InvalidFilesError",
    "InvalidKernelError",
    "InvalidKeyError",
    "InvalidNameError",
    "NotCachedError",
    "SettingsError",
    "StoreError",
    "Ticket",
    "TicketEndedError",
    "TicketError",
    "TooLargeError",
    "UsageError",
    "WaitTimeoutError",
    "__version__",
    "build",
    "diff",
    "explain",
    "inspect",
    "ls",
    "stats",
    "verify",
]

# The modules of the names that are not in `errors`.
_MODULES = {
    "__version__": "_native",
    **dict.fromkeys(("Cache", "Hit", "Ticket"), "cache"),
    **dict.fromkeys(("build", "diff", "explain", "inspect", "ls", "stats", "verify"), "commands"),
}
_SUBMODULES = ("errors", "jax", "results", "triton")


def __getattr__(name: str) -> object:
    if name not in __all__ and name not in _SUBMODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    value = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES})
