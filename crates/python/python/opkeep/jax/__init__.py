"""JAX's persistent compilation cache in the store. Experimental: it uses private interfaces of JAX 0.10.

    import opkeep.jax
    opkeep.jax.enable()

Afterwards, one process of any number compiles a computation while the others wait, every byte is checked at each hit, and a
damaged entry is compiled again. The key of an entry has, beside JAX's own, the content of the installed compilers and, for the
CPU, its features.

These compiles are never shared while they run: those of several processes at once (multi-controller programs), those with
host callbacks, and those of processes that JAX does not let write. They use what is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from .._remote import RemoteMode

__all__ = ["disable", "enable"]


def enable(
    root: str | os.PathLike[str] | None = None,
    *,
    timeout: float | None = None,
    remote: str | None = None,
    remote_mode: RemoteMode | None = None,
    remote_namespace: str | None = None,
    sign_key: str | os.PathLike[str] | None = None,
    trusted_keys: str | Sequence[str] | None = None,
) -> None:
    """Let JAX keep its executables in the store at `root`; without it, in the store of the command.

    A process waits at most `timeout` seconds for another one that compiles the same computation; then it compiles as well.
    JAX's settings for what is worth keeping apply, except `jax_persistent_cache_min_compile_time_secs`, which becomes 0
    unless it was changed: a compile that is not kept is repeated by every process, one after the other. If
    `jax_compilation_cache_dir` is unset, it becomes a directory beside the store, where XLA keeps its own small files.

    Hosts share executables through a remote cache: the other arguments are those of `opkeep.Cache`, and what is not given comes
    from the environment, such as `OPKEEP_REMOTE`. JAX runs an executable without another check: use `trusted_keys`, unless all who
    may write to the remote cache may run code on this host.

    Raises `opkeep.Error` if the installed JAX has other interfaces than those that this module knows, and `opkeep.SettingsError` if
    a setting of the remote cache or of the keys is not valid. A store or a remote cache that cannot be used is a warning in the log
    `opkeep`.
    """
    from . import _hooks

    shared = {
        "remote": remote,
        "remote_mode": remote_mode,
        "remote_namespace": remote_namespace,
        "sign_key": sign_key,
        "trusted_keys": trusted_keys,
    }
    _hooks.enable(root, timeout, shared)


def disable() -> None:
    """Give JAX its own cache back, and the settings that `enable` changed, unless the program has changed them since."""
    from . import _hooks

    _hooks.disable()
