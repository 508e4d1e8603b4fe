"""A process that compiles on command.

It reads lines of Python, runs each, and prints the result of an expression. `kept` keeps exceptions.
"""

from __future__ import annotations

import sys
import traceback

import triton_kernels as kernels

kept: list[BaseException] = []


def fail(block: int = 3, keep: bool = True) -> str:
    """Compile a kernel that fails."""
    try:
        kernels.compile(block)
    except Exception as error:
        if keep:
            kept.append(error)
        return type(error).__name__
    return "compiled"


def timed(block: int) -> tuple[float, int]:
    """Compile, and return the time and the number of compiles."""
    import time

    begin, count = time.monotonic(), kernels.compiles.count
    kernels.compile(block)
    return time.monotonic() - begin, kernels.compiles.count - count


def main() -> None:
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
