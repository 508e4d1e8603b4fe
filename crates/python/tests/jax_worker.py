"""A process that uses JAX with the store: it reads commands, one a line, and answers each with one line.

Arguments: the store's directory.
"""

from __future__ import annotations

import logging
import os
import sys

import jax
import numpy
from jax._src import compiler

import opkeep.jax._cache

compiles = 0
fails = False
held: list[opkeep.Ticket] = []
compile_really = compiler.backend_compile_and_load


def counted(*args: object, **named: object) -> object:
    global compiles
    compiles += 1
    if fails:
        # The tickets of this compile, for which other processes wait.
        current = opkeep.jax._cache._current.compile
        assert current is not None
        held.extend(ticket for ticket in current.tickets.values() if ticket.is_held and ticket.is_shared)
        raise RuntimeError("this compile has to fail")
    return compile_really(*args, **named)


def computed(number: int) -> str:
    """Compile the computation of a number, or take it from the store. Return the number of compiles and the result."""
    before = compiles
    found = jax.jit(lambda x: (x * number + 1) * x)(numpy.arange(4, dtype=numpy.float32))
    return f"{compiles - before} {numpy.asarray(found).tolist()}"


def main() -> None:
    global fails
    logging.basicConfig(level=logging.WARNING)
    jax.config.update("jax_platforms", "cpu")
    opkeep.jax.enable(sys.argv[1])
    jax.devices()
    compiler.backend_compile_and_load = counted
    kept: list[BaseException] = []
    print("ready", flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "compute":
            print(computed(int(arguments[0])), flush=True)
        elif command == "fail":
            fails = True
            try:
                computed(int(arguments[0]))
            except RuntimeError as error:
                # Its traceback keeps the frames.
                kept.append(error)
            fails = False
            print(f"failed with {len(held)} held, then {sum(ticket.is_held for ticket in held)}", flush=True)
        elif command == "hang":
            compiler.backend_compile_and_load = lambda *_, **__: (print("hangs", flush=True), os.read(0, 1))
            computed(int(arguments[0]))


main()
