"""The kernels of the cases: one function, compiled for as many block sizes as a case needs keys."""

import base64
import dataclasses
import functools
import hashlib
import importlib
import json
import os
import re

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

try:
    from triton.runtime import cache as keys

    keys.triton_key  # noqa: B018
except AttributeError:  # Triton 3.2
    from triton.compiler import compiler as keys

POINTERS = {"x": "*fp32", "y": "*fp32", "o": "*fp32", "n": "i32"}


@triton.jit
def add(x, y, o, n, factor: tl.constexpr):
    i = tl.program_id(0) * 64 + tl.arange(0, 64)
    mask = i < n
    tl.store(o + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask) * factor, mask=mask)


def source(kernel: int) -> ASTSource:
    """The source of the kernel with this number."""
    try:
        return ASTSource(add, signature={**POINTERS, "factor": "constexpr"}, constexprs={"factor": kernel})
    except TypeError:  # Triton 3.2
        return ASTSource(add, signature=POINTERS, constants={"factor": kernel})


def warm_up(known: str | None) -> str:
    """Do what a process does once, whatever it compiles: compute Triton's key, from half a gigabyte of files.

    The cases start many processes, so that all but the first are told the key.
    """
    key = known or keys.triton_key()
    keys.triton_key = lambda: key
    return key


def compile_kernel(kernel: int, backend: str) -> dict:
    """Compile, or take from the cache; the digests of all that the framework would use afterwards."""
    if backend == "npu":
        target, options = GPUTarget("npu", "Ascend910_9579", 0), {"compile_on_910_95": True}
    elif backend == "hip":
        count_links()
        target, options = GPUTarget("hip", "gfx942", 64), {}
    else:
        target, options = GPUTarget("cuda", 90, 32), {}
    compiled = triton.compile(source(kernel), target=target, options=options)
    digests = {name: digest(content) for name, content in compiled.asm.items()}
    if "llir" in digests:
        # Triton 3.2 writes another data layout in the first compile of a process than in all later ones.
        digests["llir"] = digest(re.sub("(?m)^target datalayout = .*$", "", compiled.asm["llir"]))
    metadata = compiled.metadata._asdict()
    writer = metadata.pop("writer", None)
    digests["json"] = digest(json.dumps(metadata, default=plain, sort_keys=True))
    return {"digests": digests, "writer": writer, "directory": directory(metadata["hash"])}


@functools.cache
def count_links() -> None:
    """Count AMD's link step, which runs in the process, so that no shim sees it."""
    from triton.backends import backends

    backend = backends["amd"].compiler
    link = backend.make_hsaco

    def counted(*args, **named):
        with open(os.environ["HARNESS_COMPILES"], "a") as log:
            log.write(f"{os.getpid()}\n")
        return link(*args, **named)

    backend.make_hsaco = staticmethod(counted)


def directory(key: str) -> str:
    """The directory of a kernel's files. Triton 3.2 spells the key in base 64, later versions in base 32."""
    names = [encode(bytes.fromhex(key)).decode().rstrip("=") for encode in (base64.urlsafe_b64encode, base64.b32encode)]
    paths = [os.path.join(os.environ["TRITON_CACHE_DIR"], name) for name in names]
    return next((path for path in paths if os.path.exists(path)), paths[-1])


def plain(value: object) -> object:
    """What JSON can write in place of `value`."""
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else repr(value)


def digest(content: object) -> str:
    """A short digest of bytes or text."""
    data = content if isinstance(content, bytes) else str(content).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def manager_class() -> type:
    """The class of the cache manager that Triton uses here."""
    name = os.environ.get("TRITON_CACHE_MANAGER")
    if name is None:
        from triton.runtime.cache import FileCacheManager

        return FileCacheManager
    module, attribute = name.split(":")
    return getattr(importlib.import_module(module), attribute)
