"""Messages of opkeep go to the logger `opkeep`. Nothing is printed unless the program sets up logging."""

from __future__ import annotations

import logging

logger = logging.getLogger("opkeep")
# Without a handler, Python would print warnings.
logger.addHandler(logging.NullHandler())

_LEVELS = {
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "note": logging.INFO,
    "help": logging.INFO,
    "progress": logging.DEBUG,
}


def log(level: str, text: str) -> None:
    """Log a message of the native module. No lock of opkeep is held."""
    logger.log(_LEVELS[level], "%s", text)
