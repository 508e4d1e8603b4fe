"""Kernels that the tests compile, and what they use of Triton. Importing it needs Triton."""

from __future__ import annotations

import functools
import inspect
import time

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel

try:
    from triton.runtime.cache import triton_key
except ImportError:  # Before Triton 3.4.
    from triton.compiler.compiler import triton_key

__all__ = ["CUDA", "GPUTarget", "HIP", "HAS_HIP_LINKER", "add", "compile", "compiles", "triton_key"]

CUDA = ("cuda", 90, 32)
HIP = ("hip", "gfx942", 64)


def _has_hip_linker() -> bool:
    from triton.backends.amd.compiler import HIPBackend

    try:
        getattr(HIPBackend, "path_to_rocm_lld", lambda: None)()
    except Exception:  # Some releases need a linker of ROCm, which is not in their wheels.
        return False
    return True


HAS_HIP_LINKER = _has_hip_linker()
"""Whether kernels for AMD's devices can be compiled here."""


@triton.jit  # type: ignore[untyped-decorator]
def add(x, y, out, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask=mask)


def compile(block: int = 1024, target: tuple[str, object, int] = CUDA) -> CompiledKernel:
    """Compile the kernel. A block that is not a power of two fails."""
    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}
    if "constexprs" in inspect.signature(ASTSource).parameters:
        source = ASTSource(fn=add, signature={**signature, "BLOCK": "constexpr"}, constexprs={"BLOCK": block})
    else:
        source = ASTSource(fn=add, signature=signature, constants={"BLOCK": block})
    return triton.compile(source, target=GPUTarget(*target))


class Compiles:
    """The number of compiles in this process."""

    def __init__(self) -> None:
        self.count = 0
        self.began = 0.0
        original = ASTSource.make_ir

        @functools.wraps(original)
        def make_ir(*args: object, **kwargs: object) -> object:
            self.count += 1
            self.began = time.monotonic()
            self.during()
            return original(*args, **kwargs)

        ASTSource.make_ir = make_ir

    def during(self) -> None:
        """Run in each compile; a test may replace it."""


compiles = Compiles()
