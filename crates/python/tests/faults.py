"""Faults that Python only prints: here, they fail the run of the tests.

These are exceptions of finalizers, and with them the `ResourceWarning` of what nothing closes or removes, and those of threads.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading

_has_fault = False
_is_ending = False


def _hook(name: str, module: object) -> None:
    """Have what prints a fault record it, too."""
    show = getattr(module, name)

    def record(fault: object, *rest: object) -> None:
        global _has_fault
        show(fault, *rest)
        _has_fault = True
        if _is_ending:
            _fail()

    setattr(module, name, record)


def _fail() -> None:
    print("a fault was printed above, which fails the run", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


@atexit.register
def _end() -> None:
    """Runs late, since it is registered early. A fault after it ends the process at once."""
    global _is_ending
    _is_ending = True
    if _has_fault:
        _fail()


_hook("unraisablehook", sys)
_hook("excepthook", sys)
_hook("excepthook", threading)
