"""A process that compiles on command.

It reads lines of Python, runs each, and prints the result of an expression. `kept` keeps exceptions.
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import triton_kernels as kernels

kept: list[object] = []
times: dict[str, float] = {}
"""When `fail` requested the last kernel, and when that failed."""


def fail(block: int = 3, keep: bool = True) -> str:
    """Compile a kernel that fails."""
    times["requested"] = time.monotonic()
    try:
        kernels.compile(block)
    except Exception as error:
        times["failed"] = time.monotonic()
        if keep:
            kept.append(error)
        return type(error).__name__
    return "compiled"


def timed(block: int) -> tuple[float, int]:
    """Compile, and return the time and the number of compiles."""
    begin, count = time.monotonic(), kernels.compiles.count
    kernels.compile(block)
    return time.monotonic() - begin, kernels.compiles.count - count


def forked(block: int) -> int:
    """Compile in a forked child, and return the number of compiles there."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = timed(block)[1]
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def asynchronous(*blocks: int) -> int:
    """Compile in Triton's asynchronous mode, keep the futures, and return the number of compiles."""
    from triton.runtime._async_compile import AsyncCompileMode

    count = kernels.compiles.count
    with ThreadPoolExecutor(2) as pool:
        mode = AsyncCompileMode(pool)
        # What is called with the results. A later release has one function more.
        others = [lambda _: None] * (len(inspect.signature(mode.submit).parameters) - 2)
        try:
            with mode:
                for block in blocks:
                    future = mode.submit(block, lambda block=block: kernels.compile(block), *others)
                    kept.append(future.future)
        except Exception as error:
            kept.append(error)
    return kernels.compiles.count - count


def main() -> None:
    # The parent may have been started in the background, where a shell ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kernels.triton_key()
    print("ready", flush=True)
    names = globals()
    for line in sys.stdin:
        try:
            try:
                result = eval(line, names)
            except SyntaxError:
                exec(line, names)
                result = None
            print(repr(result), flush=True)
        except BaseException:
            traceback.print_exc()
            print("failed", flush=True)


if __name__ == "__main__":
    main()
