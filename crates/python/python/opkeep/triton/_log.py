"""Warnings: each kind once a process."""

from __future__ import annotations

from .._log import logger

_warned: set[str] = set()


def warn_once(kind: str, text: object) -> None:
    """Log a warning, unless one of this kind was logged."""
    if kind not in _warned:
        _warned.add(kind)
        logger.warning("%s", text)
