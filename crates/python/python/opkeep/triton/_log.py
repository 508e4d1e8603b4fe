"""Warnings: each kind and each cause once a process."""

from __future__ import annotations

from .._log import logger

_warned: set[str] = set()


def warn_once(kind: str, text: object, cause: Exception | None = None) -> None:
    """Log a warning, unless one of this kind, or of this cause, was logged."""
    reasons = {kind} if cause is None else {kind, f"cause: {cause}"}
    if _warned.isdisjoint(reasons):
        logger.warning("%s", text)
    _warned.update(reasons)
