"""The compile that calls the manager.

Triton does not give the target to its cache manager. Its function `compile` has it, and is on the stack.
"""

from __future__ import annotations

import functools
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from ._stock import knob

if TYPE_CHECKING:
    from types import FrameType


_OBJECTS = {"cuda": "cubin", "hip": "hsaco"}
"""The objects for which there are rules, by Triton's name of the backend."""


class Compile(NamedTuple):
    """The target of a compile, with its backend and options."""

    target: Any
    """Triton's `GPUTarget`, or None."""
    backend: Any
    """Triton's backend for it, or None."""
    options: Any
    """The backend's options, or None."""
    is_overridden: bool
    """Whether files that the user wrote take the place of compiled ones. No key covers them."""

    @property
    def target_name(self) -> str:
        """The name of the target in the store, such as `cuda-sm_90`."""
        if self.target is None:
            return "unknown"
        arch = self.target.arch
        if self.target.backend == "hip":
            # `TRITON_OVERRIDE_ARCH` is in the options. The objects of the other backends are for the target's architecture.
            arch = getattr(self.options, "arch", None) or arch
        return _target_name(str(self.target.backend), str(arch))

    @property
    def object_suffix(self) -> str | None:
        """The end of the name of the kernel's object, such as `.cubin`."""
        suffix = getattr(self.backend, "binary_ext", None) or _OBJECTS.get(getattr(self.target, "backend", ""))
        return f".{suffix}" if suffix else None


@functools.lru_cache(maxsize=None)
def _target_name(backend: str, arch: str) -> str:
    # `TritonMetadata::target` of the commands has the same rule.
    if backend == "cuda" and arch.isascii() and arch.isdigit():
        arch = f"sm_{arch}"
    return re.sub(r"[^A-Za-z0-9_.-]", "_", f"{backend}-{arch}".lstrip("."))[:100]


def frame_of_compile(frame: FrameType | None) -> FrameType | None:
    """Return the frame of Triton's `compile` in which `frame` was called, or None."""
    while frame is not None:
        if frame.f_code.co_name == "compile" and _is_compiler(frame.f_globals.get("__name__")):
            return frame
        frame = frame.f_back
    return None


def compile_in(frame: FrameType | None) -> Compile:
    """Return the compile of a frame. Without a frame, its target is that of the current device."""
    if frame is None:
        return Compile(_current_target(), None, None, False)
    names = frame.f_locals
    target, options = names.get("target"), names.get("options")
    is_overridden = names.get("enable_override") or getattr(options, "ir_override", None)
    if getattr(target, "backend", None) == "hip":
        is_overridden = is_overridden or knob("amd", "swap_mir")
    return Compile(target, names.get("backend"), options, bool(is_overridden))


def _is_compiler(module: object) -> bool:
    return isinstance(module, str) and module.startswith("triton.") and module.endswith("compiler.compiler")


def _current_target() -> Any:
    driver = sys.modules.get("triton.runtime.driver")
    try:
        return driver.driver.active.get_current_target() if driver is not None else None
    except Exception:  # Triton raises whatever its drivers raise, and there may be no device at all.
        return None
