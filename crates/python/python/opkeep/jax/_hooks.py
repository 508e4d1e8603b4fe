"""The functions of JAX that are replaced.

JAX asks its cache for an executable, compiles if it gets none, and puts the executable into the cache, all in one call of
`compile_or_get_cached`. It puts nothing after a failed compile, and nothing that it does not consider worth keeping. So this
function is wrapped: when it returns or raises, tickets that it did not use are abandoned.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .. import _native
from .._log import logger
from .._paths import path_of
from .._remote import settings
from .._root import default_root
from ..errors import ArgumentError, ArgumentValueError, Error
from ._cache import Compile, SharedCache
from ._toolchain import packages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_TESTED = "0.10"
"""The release of JAX whose interfaces this module was tested with."""

_COMPILE = "compile_or_get_cached"
_GET_CACHE = "get_file_cache"
_CACHE_DIR = "jax_compilation_cache_dir"
_MIN_COMPILE_TIME = "jax_persistent_cache_min_compile_time_secs"

# The replaced functions: their module, their name, and the original.
_originals: list[tuple[ModuleType, str, Any]] = []
# The changed settings: their name, the value before, and the new one.
_settings: list[tuple[str, Any, Any]] = []


def enable(root: str | os.PathLike[str] | None, timeout: float | None, remote: Mapping[str, Any]) -> None:
    """Replace JAX's functions; those of an earlier call are restored first. `remote` are arguments of `Cache`."""
    root = path_of("root", root) if root is not None else default_root()
    if not root:
        raise ArgumentValueError("root: expected a path, found an empty text")
    _check_timeout(timeout)
    # Each cache is opened when it is first used, where an error is a warning.
    _native.check_remote(settings(**remote))
    jax, compiler, compilation_cache, interface = _modules()
    disable()
    # Later, the files may be others than those that this process has loaded.
    packages()
    cache = _class(interface)(root, timeout, jax.__version__, remote)
    try:
        if getattr(jax.config, _CACHE_DIR) is None:
            # A path such as `store/` or `.` would lead into the store.
            _set(jax.config, _CACHE_DIR, f"{os.path.abspath(root)}-xla")
        if getattr(jax.config, _MIN_COMPILE_TIME, None) == 1.0:
            _set(jax.config, _MIN_COMPILE_TIME, 0.0)
        _replace(compiler, _COMPILE, _shared_compile(compiler.compile_or_get_cached, compiler))
        _replace(compilation_cache, _GET_CACHE, _file_cache(compilation_cache.get_file_cache, cache))
        keys = _keys()
        if keys is not None:
            _replace(keys, "get", _key_without_paths(keys.get))
        # JAX opens its cache once.
        compilation_cache.reset_cache()
    except BaseException:
        disable()
        raise


def disable() -> None:
    """Restore JAX's functions, and the settings that the program has not changed since."""
    if not _originals and not _settings:
        return
    for module, name, original in _originals:
        setattr(module, name, original)
    _originals.clear()
    config = importlib.import_module("jax").config
    for name, before, own in _settings:
        if getattr(config, name) == own:
            config.update(name, before)
    _settings.clear()
    importlib.import_module("jax._src.compilation_cache").reset_cache()


def _set(config: Any, name: str, value: Any) -> None:
    _settings.append((name, getattr(config, name), value))
    config.update(name, value)


def _check_timeout(timeout: object) -> None:
    if timeout is None:
        return
    if not hasattr(timeout, "__float__") and not hasattr(timeout, "__index__"):
        raise ArgumentError(f"timeout: expected a number of seconds, found `{type(timeout).__name__}`")
    # Not a number is no time either.
    if not float(timeout) >= 0:  # type: ignore[arg-type]
        raise ArgumentValueError(f"timeout: expected 0 seconds or more, found {timeout}")


def _modules() -> tuple[Any, Any, Any, Any]:
    """Return the modules `jax`, `compiler`, `compilation_cache` and `compilation_cache_interface` of the installed JAX.

    Raises `Error` if one of the names is missing that this module needs."""
    try:
        jax: Any = importlib.import_module("jax")
    except ImportError as error:
        raise Error("JAX is not installed", help=[f"pip install 'jax=={_TESTED}.*'"]) from error
    names = {
        "compiler": [_COMPILE],
        "compilation_cache": [_GET_CACHE, "get_executable_and_time", "put_executable_and_time", "reset_cache"],
        "compilation_cache_interface": ["CacheInterface"],
    }
    modules = []
    for module_name, wanted in names.items():
        path = f"jax._src.{module_name}"
        try:
            module = importlib.import_module(path)
        except ImportError:
            raise _moved(jax, path) from None
        for name in wanted:
            if not hasattr(module, name):
                raise _moved(jax, f"{path}.{name}")
        modules.append(module)
    parameters = inspect.signature(modules[0].compile_or_get_cached).parameters
    for name in ("backend", "devices", "host_callbacks"):
        if name not in parameters:
            raise _moved(jax, f"parameter `{name}` of jax._src.compiler.{_COMPILE}")
    if not jax.__version__.startswith(f"{_TESTED}."):
        logger.warning("opkeep.jax was tested with JAX %s; JAX %s may behave otherwise", _TESTED, jax.__version__)
    return (jax, *modules)


def _moved(jax: Any, name: str) -> Error:
    text = f"JAX {jax.__version__} has no {name}, which opkeep.jax needs: it was tested with JAX {_TESTED}"
    return Error(text, help=[f"use JAX {_TESTED}, or JAX's own cache: leave out opkeep.jax.enable()"])


def _replace(module: ModuleType, name: str, function: Callable[..., Any]) -> None:
    _originals.append((module, name, getattr(module, name)))
    setattr(module, name, function)


def _class(interface: Any) -> type[SharedCache]:
    return type("OpkeepCache", (SharedCache, interface.CacheInterface), {})


def _file_cache(original: Callable[..., Any], cache: SharedCache) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_file_cache(path: str) -> tuple[Any, str] | None:
        """Return the cache, within the wrapper with which JAX checks its own, if the settings ask for it."""
        found: tuple[Any, str] | None = original(path)
        inner = getattr(found[0], "_base_cache", None) if found is not None else None
        cache._path = path
        if found is not None and inner is not None:
            found[0]._base_cache = cache
            return found
        return cache, path

    return get_file_cache


_PATHS = ("xla_gpu_kernel_cache_file", "xla_gpu_per_fusion_autotune_cache_dir")
"""Options with paths where XLA keeps small files. They do not change an executable, and JAX has them in its keys."""


def _keys() -> Any:
    """Return the module that makes JAX's keys, if it is as this module knows it. If not, hosts share only with equal paths."""
    try:
        keys = importlib.import_module("jax._src.cache_key")
        return keys if "compile_options" in inspect.signature(keys.get).parameters else None
    except (ImportError, AttributeError):
        return None


def _key_without_paths(original: Callable[..., str]) -> Callable[..., str]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def get(*args: Any, **named: Any) -> str:
        options = signature.bind(*args, **named).arguments["compile_options"]
        options = getattr(getattr(options, "executable_build_options", None), "debug_options", None)
        before = {name: getattr(options, name) for name in _PATHS if hasattr(options, name)}
        try:
            for name in before:
                setattr(options, name, "")
            return original(*args, **named)
        finally:
            for name, path in before.items():
                setattr(options, name, path)

    return get


def _shared_compile(original: Callable[..., Any], compiler: Any) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compile_or_get_cached(*args: Any, **named: Any) -> Any:
        arguments = signature.bind(*args, **named).arguments
        platform = str(arguments["backend"].platform)
        with Compile(platform, is_shared=_is_shared(arguments, compiler)):
            return original(*args, **named)

    return compile_or_get_cached


def _is_shared(arguments: dict[str, Any], compiler: Any) -> bool:
    """Whether other processes wait for this compile. Processes that compile together may wait for each other within the
    compile, and of the others JAX writes only what the first process made, without host callbacks."""
    together = len({device.process_index for device in arguments["devices"].flatten()}) > 1
    distributed = getattr(compiler, "distributed", None)
    is_first = distributed is None or distributed.global_state.process_id == 0
    return is_first and not together and not arguments["host_callbacks"]
