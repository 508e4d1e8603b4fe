"""The settings of remote caches and of keys, as the native module takes them.

What is not given as an argument comes from the environment, as it is when a cache is opened. The native module reads no variable
itself: a program may have changed `os.environ`, and its value is what counts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from .errors import ArgumentError, ArgumentValueError

if TYPE_CHECKING:
    RemoteMode = Literal["off", "read", "read-write"]

UPLOAD_SECONDS = 5.0
"""How long a cache that is closed waits until what it published is sent, and all caches together at exit."""

Settings = tuple[tuple[str | None, ...], dict[str, str]]
"""The arguments in the order of `settings`, and the variables."""

_PREFIXES = ("AWS_", "HOME", "OPKEEP_", "XDG_")
"""How the variables begin that remote caches and keys have."""


def settings(
    remote: str | None = None,
    remote_mode: RemoteMode | None = None,
    remote_namespace: str | None = None,
    sign_key: str | os.PathLike[str] | None = None,
    trusted_keys: str | Sequence[str] | None = None,
) -> Settings:
    """Return the settings of these arguments and of the environment. No text that may be a secret is in an error."""
    texts = (
        _text("remote", remote),
        _text("remote_mode", remote_mode),
        _text("remote_namespace", remote_namespace),
        _path("sign_key", sign_key),
        _joined("trusted_keys", trusted_keys),
    )
    variables = {name: value for name, value in os.environ.items() if name.startswith(_PREFIXES)}
    home = os.path.expanduser("~")
    if os.path.isabs(home):
        variables.setdefault("HOME", home)
    return texts, variables


def _text(argument: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ArgumentError(f"{argument}: expected a text, found `{type(value).__name__}`")
    return value


def _path(argument: str, value: object) -> str | None:
    if value is None:
        return None
    try:
        text = os.fsdecode(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentError(f"{argument}: expected a path, found `{type(value).__name__}`") from None
    if "\0" in text:
        raise ArgumentValueError(f"{argument}: expected a path, found one with a byte 0")
    return os.path.expanduser(text)


def _joined(argument: str, value: object) -> str | None:
    """Return a list of words as the commands take it."""
    if value is None or isinstance(value, str):
        return value
    words = list(value) if isinstance(value, Sequence) else None
    if words is None or not all(isinstance(word, str) for word in words):
        raise ArgumentError(f"{argument}: expected a text or a list of texts, found `{type(value).__name__}`")
    return " ".join(words)
