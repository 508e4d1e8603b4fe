"""The settings that decide the code of a kernel: variables of the environment, and Triton's knobs.

Triton's own key has some of the variables, and none of the knobs that a program sets without the environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

_PREFIXES = (
    "ALLOW_LHS_",
    "AMDGCN_",
    "DISABLE_",
    "ENABLE_PRINT_UB_BITS",
    "ENABLE_UNPUBLISHED_FEATURE",
    "LLVM_EXTRACT_DI_",
    "LLVM_OVERRIDE_PRODUCER",
    "LLVM_PASS_PLUGIN_PATH",
    "MLIR_",
    "NVPTX_",
    "PTXAS_",
    "TRITON_",
    "USE_IR_LOC",
)
"""How the variables begin that Triton reads."""

# Those of dumps, of profilers, of Triton's own tests and of its remote cache.
_NEUTRAL_PREFIXES = (
    "MLIR_DUMP_",
    "MLIR_ENABLE_",
    "TRITON_CI_",
    "TRITON_CUPTI_",
    "TRITON_HSA_",
    "TRITON_PARTITION_SCHEDULING_DUMP_",
    "TRITON_PARTITION_SCHEDULING_ENABLE_DUMP_",
    "TRITON_PROFILE_",
    "TRITON_PROTON_",
    "TRITON_REDIS_",
    "TRITON_ROCPROFILER_",
    "TRITON_ROCTRACER_",
    "TRITON_ROCTX_",
    "TRITON_TEST_",
    "TRITON_WARMUP_",
)

_NEUTRAL = frozenset(
    (
        # Directories and caches.
        "TRITON_CACHE_AUTOTUNING",
        "TRITON_CACHE_DIR",
        "TRITON_CACHE_MANAGER",
        "TRITON_DUMP_DIR",
        "TRITON_HOME",
        "TRITON_OVERRIDE_DIR",
        "TRITON_REMOTE_CACHE_BACKEND",
        "TRITON_REPRODUCER_PATH",
        # Output, and when a kernel is compiled. Overridden kernels are not kept.
        "AMDGCN_ENABLE_DUMP",
        "MLIR_DISABLE_MULTITHREADING",
        "NVPTX_ENABLE_DUMP",
        "TRITON_ALWAYS_COMPILE",
        "TRITON_ASCEND_COMPILE_SPEED_OPT",
        "TRITON_DUMP_PTXAS_LOG",
        "TRITON_ENABLE_HW_TRACE",
        "TRITON_ENABLE_LLVM_DEBUG",
        "TRITON_ENABLE_NVTX",
        "TRITON_ENABLE_PYTHON_STACKTRACE",
        "TRITON_FRONT_END_DEBUGGING",
        "TRITON_KERNEL_DUMP",
        "TRITON_KERNEL_OVERRIDE",
        "TRITON_LLVM_DEBUG_ONLY",
        "TRITON_PRINT_AUTOTUNING",
        # Paths of tools and libraries: their content is in the key.
        "MLIR_ROOT",
        "TRITON_AMD_CODEGEN_PATH",
        "TRITON_HIP_LLD_PATH",
        "TRITON_LIBDEVICE_PATH",
        "TRITON_NPU_COMPILER_PATH",
        "TRITON_PTXAS_BLACKWELL_PATH",
        "TRITON_PTXAS_PATH",
        # Tools that look at a kernel, and libraries of launchers and drivers.
        "TRITON_CUDACRT_PATH",
        "TRITON_CUDART_PATH",
        "TRITON_CUOBJDUMP_PATH",
        "TRITON_LIBCUDA_PATH",
        "TRITON_LIBHIP_PATH",
        "TRITON_NVDISASM_PATH",
    )
)
"""Variables that do not change a kernel. The processes of a distributed job may have different values."""

_KNOBS = ("compilation", "language", "nvidia", "amd", "runtime")

_NEUTRAL_KNOBS = frozenset(
    (
        "jit_cache_hook",
        "jit_post_compile_hook",
        "kernel_load_end_hook",
        "kernel_load_start_hook",
        "kernel_unload_hook",
        "launch_enter_hook",
        "launch_exit_hook",
        "listener",
    )
)
"""Knobs with functions that are called, but do not change a kernel."""

_LAUNCHER = (
    "COMPILER_PATH",
    "CPATH",
    "CPLUS_INCLUDE_PATH",
    "C_INCLUDE_PATH",
    "GCC_EXEC_PREFIX",
    "LIBRARY_PATH",
    "TRITON_CUDACRT_PATH",
    "TRITON_CUDART_PATH",
    "TRITON_LIBCUDA_PATH",
    "TRITON_LIBHIP_PATH",
)
"""Variables that decide which headers and libraries a launcher is built with."""

_known: tuple[tuple[object, ...], tuple[object, ...]] = ((), ())
"""The names of all variables at the last call, and those of them that decide the code."""


class SettingError(Exception):
    """A setting that may decide the code of a kernel has a value that no key can state."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is set to a function or an object, which may change kernels and is in no key")


def settings_of_kernels() -> dict[str, str]:
    """Return the variables that decide the code of a kernel, with the values that knobs replace.

    Raises `SettingError`: what is compiled now cannot be kept.
    """
    found = _values(_environment())
    _add_knobs(found, _KNOBS, None)
    return found


def settings_of_launchers() -> dict[str, str]:
    """Return the variables that decide how a launcher is built."""
    found = {name: os.environ[name] for name in _LAUNCHER if name in os.environ}
    _add_knobs(found, ("build", "nvidia", "amd"), _LAUNCHER)
    return found


def _environment() -> Mapping[object, object]:
    # The variables before they are decoded: this is part of each hit.
    variables: Any = os.environ
    data: Mapping[object, object] = getattr(variables, "_data", variables)
    return data


def _values(environment: Mapping[object, object]) -> dict[str, str]:
    global _known
    names = tuple(environment)
    known, chosen = _known
    if names != known:
        chosen = tuple(name for name in names if _decides(_text(name)))
        _known = (names, chosen)
    values = {}
    for name in chosen:
        value = environment.get(name)
        if value is not None:
            values[_text(name)] = _text(value)
    return values


def _text(value: object) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _decides(name: str) -> bool:
    return name.startswith(_PREFIXES) and name not in _NEUTRAL and not name.startswith(_NEUTRAL_PREFIXES)


def _add_knobs(found: dict[str, str], groups: Iterable[str], names: Iterable[str] | None) -> None:
    """Add the knobs that the program has set, under the names of their variables. They win over the environment."""
    knobs = sys.modules.get("triton.knobs")
    if knobs is None:
        return
    for group in groups:
        values = getattr(knobs, group, None)
        set_here = getattr(values, "__dict__", None)
        for name, value in list(set_here.items()) if set_here else ():
            declared = vars(type(values)).get(name)
            variable = getattr(declared, "key", None)
            if variable is None:
                if value == declared:
                    continue
                variable = f"knobs.{group}.{name}"
            elif not (_decides(variable) if names is None else variable in names):
                continue
            if value is None:
                found.pop(variable, None)
            elif isinstance(value, (bool, int, str)):
                found[variable] = value if isinstance(value, str) else str(int(value))
            elif name not in _NEUTRAL_KNOBS and not (name == _STAGES and _is_in_key(_STAGES)):
                raise SettingError(variable)


_STAGES = "add_stages_inspection_hook"
"""The knob with a function that changes the steps of a compile. Triton 3.6 has it in no key, later releases ask it for one."""


def _is_in_key(knob: str) -> bool:
    """Whether Triton's `compile` has this knob in its key."""
    compile = getattr(sys.modules.get("triton.compiler.compiler"), "compile", None)
    return knob in getattr(getattr(compile, "__code__", None), "co_names", ())
