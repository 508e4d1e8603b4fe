"""Paths that callers give."""

from __future__ import annotations

import os

from .errors import ArgumentError, ArgumentValueError


def path_of(argument: str, path: object) -> str:
    """Return a path as a text, with the home directory in place of `~`."""
    try:
        text = os.fsdecode(path)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentError(f"{argument}: expected a path, found `{type(path).__name__}`") from None
    if "\0" in text:
        raise ArgumentValueError(f"{argument}: expected a path, found one with a byte 0: {text!a}")
    return os.path.expanduser(text)
