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
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .. import _native
from . import _stock
from ._compile import Compile
from ._loaded import check_library, check_package, check_package_again, files_of_package, state_of
from ._settings import settings_of_kernels, settings_of_launchers

Parts = list[tuple[str, str | None, str]]
"""The name of each part, its file, and a note. Without a file, the note is the content."""

_VERSION_FILES = (
    "version.info",
    "compiler/version.info",
    "ascend_toolkit_install.info",
    f"{platform.machine()}-linux/ascend_toolkit_install.info",
)
"""The files with the version of an Ascend toolkit, below its root."""

_PLUGINS = ("LLVM_PASS_PLUGIN_PATH", "TRITON_PASS_PLUGIN_PATH", "TRITON_PLUGIN_PATHS")
"""Variables with the paths of libraries that Triton loads."""

_COMPILERS = ("gcc", "clang", "g++", "clang++")
"""The compilers of launchers, if no variable names one. Triton prefers the first of each language, triton-ascend `clang++`."""

_COMPILER_NAMES = ("gcc", "g++", "clang")
"""Parts of the names of programs that are compilers themselves."""

_CPU_TOOLS = (
    ("MLIR_ROOT", "bin/mlir-opt"),
    ("MLIR_ROOT", "bin/mlir-translate"),
    ("LLVM_ROOT", "bin/llvm-link"),
    ("LLVM_ROOT", "lib/clc/libspirv-aarch64--.bc"),
    ("LLVM_ROOT", "bin/llc"),
)
"""The programs that triton-ascend runs for `cpu`, below the directories of these variables."""


_WORK_DIR = os.path.abspath(os.environ.get("TMPDIR") or "/tmp")
"""The directory of work directories, whatever directory the program changes to."""


_toolchains: _native.Toolchains


def _new_toolchains() -> None:
    global _toolchains
    _toolchains = _native.Toolchains(_WORK_DIR)


# Threads of its parent may have been in the middle of a call.
os.register_at_fork(after_in_child=_new_toolchains)
_new_toolchains()


def toolchain_of(compile: Compile) -> _native.Toolchain:
    """Return the content of the compilers that a compile runs, and its settings. It fails if a compiler is missing, as the
    compile will, or was replaced after it was loaded."""
    parts: Parts = []
    _add_text(parts, "Triton's modules", _digest_of_modules(_stock.directory()))
    settings = settings_of_kernels()
    if compile.target is not None:
        COLLECT.get(compile.target.backend, _other)(compile, parts, settings)
        # Triton remembers their digests by their paths, and some releases have only the paths in their key.
        libraries = getattr(compile.options, "extern_libs", None) or ()
        for name, path in libraries.items() if isinstance(libraries, dict) else libraries:
            _add_file(parts, str(name), str(path))
    for name in sorted(settings):
        if name not in _PLUGINS:
            _add_text(parts, name, settings[name])
            continue
        for path in filter(None, settings[name].split(os.pathsep)):
            _add_library(parts, name, path)
    return _toolchains.of(parts)


def toolchain_after(compile: Compile) -> _native.Toolchain:
    """Return the same after a compile. It fails if Triton's code was replaced during the compile, which may have loaded it."""
    check_package_again(_stock.directory())
    backend = _backend_package(compile) if compile.target is not None and compile.target.backend not in COLLECT else None
    if backend is not None:
        check_package_again(backend)
    return toolchain_of(compile)


def host_toolchain(is_compiled: bool) -> _native.Toolchain:
    """Return the content of the compilers for a file of this machine: for a library, what it depends on."""
    parts: Parts = []
    if is_compiled:
        named = [os.environ.get("CC"), os.environ.get("CXX"), _stock.knob("build", "cc"), _stock.c_compiler()]
        for name in dict.fromkeys([*filter(None, named), *_COMPILERS]):
            path = shutil.which(name)
            if path is not None:
                _add_file(parts, name, path)
                if _may_run_another(path):
                    _add_text(parts, f"{name} --version", _version_of(path, *state_of(path)))
        for name, value in settings_of_launchers().items():
            _add_text(parts, name, value)
        _add_text(parts, "CC", os.environ.get("CC", ""))
        _add_text(parts, "CXX", os.environ.get("CXX", ""))
        _add_text(parts, "libc", " ".join(platform.libc_ver()))
        _add_text(parts, "python", str(sysconfig.get_config_var("SOABI")))
        _add_text(parts, "triton", _stock.version())
        if "triton.backends.ascend" in sys.modules:
            _add_headers(parts)
    return _toolchains.of(parts)


def _add_headers(parts: Parts) -> None:
    """Add the versions of the headers and libraries that triton-ascend builds launchers with."""
    for package, file in (("torch", "version.py"), ("torch_npu", "version.py"), ("pybind11", "_version.py")):
        spec = find_spec(package)
        path = os.path.join(os.path.dirname(spec.origin), file) if spec is not None and spec.origin else ""
        if os.path.isfile(path):
            _add_file(parts, f"{package} {file}", path)
    _add_versions(parts, os.environ.get("ASCEND_HOME_PATH"))


def _may_run_another(path: str) -> bool:
    """Whether a compiler may be a script, or a program such as ccache, that runs another one."""
    path = os.path.realpath(path)
    if not any(name in os.path.basename(path) for name in _COMPILER_NAMES):
        return True
    with open(path, "rb") as file:
        return file.read(4) != b"\x7fELF"


def forget_versions() -> None:
    """Ask each compiler again for its version: another one may be behind the same script by now."""
    _version_of.cache_clear()


@functools.lru_cache(maxsize=None)
def _version_of(path: str, *_: int) -> str:
    """Return the version that a compiler prints, which is that of the one it runs. The numbers are its state."""
    try:
        output = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return ""
    return output.stdout.decode(errors="replace").strip()


def _nvidia(compile: Compile, parts: Parts, settings: dict[str, str]) -> None:
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


def _amd(compile: Compile, parts: Parts, settings: dict[str, str]) -> None:
    module = _module(compile, "triton.backends.amd.compiler")
    linker = getattr(getattr(module, "HIPBackend", None), "path_to_rocm_lld", None)
    if linker is not None:
        _add_file(parts, "ld.lld", str(linker()))
    if hasattr(module, "get_amd_codegen_path"):
        path = str(module.get_amd_codegen_path())
        _add_library(parts, "code generator", path)
    if settings.get("TRITON_ENABLE_ASAN"):
        libraries = os.path.join(os.path.dirname(module.__file__), "lib")
        for name in ("asanrtl.bc", "ocml.bc", "ockl.bc"):
            _add_file_if_there(parts, name, os.path.join(libraries, name))


def _ascend(compile: Compile, parts: Parts, settings: dict[str, str]) -> None:
    module = _module(compile, "triton.backends.ascend.compiler")
    if hasattr(module, "_get_npucompiler_path"):
        compiler = str(module._get_npucompiler_path())
    else:
        older = os.path.join(os.environ.get("TRITON_NPU_COMPILER_PATH", ""), "npuc")
        compiler = shutil.which("bishengir-compile") or older
    _add_file_if_there(parts, os.path.basename(compiler), compiler)
    _add_file_if_there(parts, "triton-adapter-opt", os.path.join(os.path.dirname(module.__file__), "triton-adapter-opt"))
    # The compiler runs others of its toolkit.
    _add_versions(parts, os.path.dirname(os.path.dirname(os.path.realpath(compiler))))
    _add_versions(parts, os.environ.get("ASCEND_HOME_PATH"))


def _other(compile: Compile, parts: Parts, settings: dict[str, str]) -> None:
    """Add the code of a backend of which nothing is known."""
    directory = _backend_package(compile)
    if directory is not None:
        _add_text(parts, "backend", _digest_of_code(directory))
    else:
        _add_library(parts, "backend", _file_of(_class_of(compile)))
    for variable, tool in _CPU_TOOLS if compile.target.backend == "cpu" else ():
        root = os.environ.get(variable)
        if root:
            _add_file_if_there(parts, tool, os.path.join(root, tool))


COLLECT = {"cuda": _nvidia, "hip": _amd, "npu": _ascend}
"""What adds the compilers of a backend. Those of the others are not known in full."""


def _backend_package(compile: Compile) -> str | None:
    """Return the directory of a backend that is a package."""
    directory = os.path.dirname(_file_of(_class_of(compile)))
    return directory if os.path.isfile(os.path.join(directory, "__init__.py")) else None


_digests: dict[tuple[str, bool], str] = {}


def _digest_of_modules(directory: str) -> str:
    """Return a digest of the Python modules below a directory. Triton's own key has some of them only."""
    return _digest_of(directory, False)


def _digest_of_code(directory: str) -> str:
    """Return a digest of the modules and libraries below a directory."""
    return _digest_of(directory, True)


def _digest_of(directory: str, with_libraries: bool) -> str:
    # It fails if one was replaced.
    check_package(directory)
    digest = _digests.get((directory, with_libraries))
    if digest is None:
        files = [path for path in files_of_package(directory) if with_libraries or path.endswith(".py")]
        parts = [(os.path.relpath(path, directory), path, "") for path in files]
        digest = _digests[directory, with_libraries] = _toolchains.of(parts).digest
    return digest


def _class_of(compile: Compile) -> Any:
    return type(compile.backend)


@functools.lru_cache(maxsize=None)
def _file_of(backend: type[object]) -> str:
    """Return the file of a class. Before Triton 3.3, its module is not among those of Python."""
    for method in vars(backend).values():
        code = getattr(inspect.unwrap(getattr(method, "__func__", method)), "__code__", None)
        if code is not None and os.path.isfile(code.co_filename):
            return str(code.co_filename)
    raise LookupError(f"no file has the code of {backend.__qualname__}")


def _module(compile: Compile, name: str) -> Any:
    """Return the module of the backend, or the one that has this name in Triton."""
    backend = type(compile.backend)
    module = sys.modules.get(backend.__module__)
    # Before Triton 3.3, a backend's module has a name that another module may have.
    if module is None or getattr(module, backend.__name__, None) is not backend or compile.backend is None:
        module = import_module(name)
    return module


def _add_file(parts: Parts, name: str, path: str, note: str = "") -> None:
    parts.append((name, path, note))


def _add_library(parts: Parts, name: str, path: str) -> None:
    """Add a file that this process loads once."""
    check_library(path, _toolchains.of([("", path, "")]))
    _add_file(parts, name, path)


def _add_file_if_there(parts: Parts, name: str, path: str) -> None:
    if os.path.isfile(path):
        _add_file(parts, name, path)


def _add_versions(parts: Parts, toolkit: str | None) -> None:
    for name in _VERSION_FILES if toolkit else ():
        _add_file_if_there(parts, name, os.path.join(toolkit or "", name))


def _add_text(parts: Parts, name: str, text: str) -> None:
    parts.append((name, None, text))
