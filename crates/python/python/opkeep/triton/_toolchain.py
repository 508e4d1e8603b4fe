"""The content of the compilers that Triton runs, as far as its own key does not cover it.

Triton's key has the digest of its library, and of a compiler that is a program of its own the version at most. Two builds of
one version, or an upgrade of which the key knows nothing, would share kernels.
"""

from __future__ import annotations

import functools
import inspect
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Callable
from typing import Any

from .. import _native
from . import _stock
from ._compile import Compile
from ._digests import digest_of

Parts = list[tuple[str, bytes, str]]

_VERSION_FILES = (
    "version.info",
    "compiler/version.info",
    "ascend_toolkit_install.info",
    f"{platform.machine()}-linux/ascend_toolkit_install.info",
)
"""Where a toolkit of Ascend says its version, below its root."""

_known: dict[tuple[tuple[str, bytes, str], ...], _native.Toolchain] = {}


def toolchain_of(compile: Compile) -> _native.Toolchain:
    """Return the content of the compilers that a compile runs. It fails if one is missing, as the compile will."""
    parts: Parts = []
    collect = _COLLECT.get(getattr(compile.target, "backend", None))
    if collect is not None:
        collect(compile, parts)
    return _toolchain(parts)


def host_toolchain(is_compiled: bool) -> _native.Toolchain:
    """Return the content of the compilers for a file of this machine: for a library, what it depends on."""
    parts: Parts = []
    if is_compiled:
        for variable, names in (("CC", ("gcc", "clang")), ("CXX", ("g++", "clang++"))):
            # As in Triton: the variable's value is one word.
            named = os.environ.get(variable)
            path = shutil.which(named) if named is not None else next(filter(None, map(shutil.which, names)), None)
            _add_text(parts, variable, named or "")
            if path is not None:
                _add_file(parts, os.path.basename(path), path)
        _add_text(parts, "libc", " ".join(platform.libc_ver()))
        _add_text(parts, "python", str(sysconfig.get_config_var("SOABI")))
        _add_text(parts, "triton", _stock.version())
    return _toolchain(parts)


def _toolchain(parts: Parts) -> _native.Toolchain:
    key = tuple(parts)
    toolchain = _known.get(key)
    if toolchain is None:
        toolchain = _known[key] = _native.Toolchain(parts)
    return toolchain


def _nvidia(compile: Compile, parts: Parts) -> None:
    module = _module(compile, "triton.backends.nvidia.compiler")
    if not hasattr(module, "get_ptxas"):
        tool = module._path_to_binary("ptxas")
    elif _has_parameters(module.get_ptxas):
        tool = module.get_ptxas(compile.target.arch)
    else:
        tool = module.get_ptxas()
    # A tuple before Triton 3.4.
    path, version = (tool.path, tool.version) if hasattr(tool, "path") else tool
    _add_file(parts, "ptxas", path, version)


@functools.lru_cache(maxsize=None)
def _has_parameters(function: Callable[..., Any]) -> bool:
    """Whether a function has parameters. In some releases, one `ptxas` is for all architectures."""
    return bool(inspect.signature(function).parameters)


def _amd(compile: Compile, parts: Parts) -> None:
    module = _module(compile, "triton.backends.amd.compiler")
    linker = getattr(getattr(module, "HIPBackend", None), "path_to_rocm_lld", None)
    if linker is not None:
        _add_file(parts, "ld.lld", str(linker()))
    if hasattr(module, "get_amd_codegen_path"):
        _add_file(parts, "code generator", str(module.get_amd_codegen_path()))
    # Some releases have the paths of these in their key, not the content.
    for name, path in getattr(compile.options, "extern_libs", None) or ():
        _add_file(parts, name, str(path))


def _ascend(compile: Compile, parts: Parts) -> None:
    compiler = shutil.which("bishengir-compile")
    home = os.environ.get("ASCEND_HOME_PATH")
    if compiler is None and home:
        compiler = shutil.which("bishengir-compile", path=os.path.join(home, "bin"))
    if compiler is None:
        # The older name, which triton-ascend uses if the other is not found.
        older = os.path.join(os.environ.get("TRITON_NPU_COMPILER_PATH", ""), "npuc")
        compiler = older if os.path.isfile(older) else None
    if compiler is not None:
        _add_file(parts, os.path.basename(compiler), compiler)
    adapter = os.path.join(os.path.dirname(_module(compile, "triton.backends.ascend").__file__), "triton-adapter-opt")
    if os.path.isfile(adapter):
        _add_file(parts, "triton-adapter-opt", adapter)
    root = home or (os.path.dirname(os.path.dirname(os.path.realpath(compiler))) if compiler else None)
    for name in _VERSION_FILES if root else ():
        path = os.path.join(root or "", name)
        if os.path.isfile(path):
            _add_file(parts, name, path)


_COLLECT = {"cuda": _nvidia, "hip": _amd, "npu": _ascend}


def _module(compile: Compile, name: str) -> Any:
    """Return the module of the backend, or the one that has this name in Triton."""
    module = sys.modules.get(type(compile.backend).__module__) if compile.backend is not None else None
    if module is None:
        from importlib import import_module

        module = import_module(name)
    return module


def _add_file(parts: Parts, name: str, path: str, note: str = "") -> None:
    parts.append((name, digest_of(path), f"{path} {note}".rstrip()))


def _add_text(parts: Parts, name: str, text: str) -> None:
    from hashlib import sha256

    parts.append((name, sha256(text.encode()).digest(), text))
