"""JAX's part of the cases: small computations for the CPU, and a count of XLA's compiles."""

import os

import jax
import numpy
from jax._src import compiler

INPUT = numpy.arange(8, dtype=numpy.float32)


def warm_up(_known: str | None) -> str:
    """Set the cache directory, start the CPU client and count compiles."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_compilation_cache_dir", os.environ["HARNESS_JAX_DIR"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.devices()
    compile_really = compiler.backend_compile_and_load

    def counted(*args, **named):
        with open(os.environ["HARNESS_COMPILES"], "a") as log:
            log.write(f"{os.getpid()}\n")
        return compile_really(*args, **named)

    compiler.backend_compile_and_load = counted
    if os.environ["HARNESS_COLUMN"] == "opkeep":
        import opkeep.jax

        opkeep.jax.enable()
    return ""


def compile_kernel(kernel: int, _backend: str) -> dict:
    """Compile, or take from the cache, and run the result."""

    def computation(x):
        return (x * kernel + 1) * x

    found = jax.jit(computation).lower(INPUT).compile()(INPUT)
    return {"digests": {"result": numpy.asarray(found).tobytes().hex()}, "writer": None, "directory": None}
