"""What several tests use."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import faults  # noqa: F401
import opkeep

# A background job of a shell ignores the signal, and so would Python and the processes that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
# As of `nohup`: a signal with a handler has its default action again in a program that is started.
for _ignored in (signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(_ignored) is signal.SIG_IGN:
        signal.signal(_ignored, lambda *_: None)

_Test = TypeVar("_Test", bound=Callable[..., object])

KEY = bytes(range(32))
FILES = {"add.ptx": b".version 8.0", "add.json": b'{"shared": 0}'}
ROOT = Path(__file__).resolve().parents[3]
"""The root of the repository."""


def is_turn(number: int) -> bool:
    """Whether this run has the long tests of a number below 4: each seed of `OPKEEP_MUTATION_SEEDS` selects one of four, `all` all."""
    text = os.environ.get("OPKEEP_MUTATION_SEEDS", "")
    seeds = [int(seed) for seed in text.split(",") if seed.strip().isdecimal()] or [0]
    return text == "all" or any(seed % 4 == number for seed in seeds)


def long_test(number: int) -> Callable[[_Test], _Test]:
    """Run a long test for one commit of four."""
    return unittest.skipUnless(is_turn(number), "a long test of another commit: see `OPKEEP_MUTATION_SEEDS`")


class CacheTest(unittest.TestCase):
    """A test with a store of its own."""

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Run the test. If it fails, show what was logged, which is the reason of many failures of a remote cache."""
        lines = io.StringIO()
        handler = logging.StreamHandler(lines)
        logger = logging.getLogger("opkeep")
        logger.addHandler(handler)
        try:
            faults_before = _faults(result)
            result = super().run(result)
            if _faults(result) != faults_before:
                print(f"\nlogged by {self.id()}: {lines.getvalue() or 'nothing'}", file=sys.stderr)
            return result
        finally:
            logger.removeHandler(handler)

    def setUp(self) -> None:
        # A call that keeps the lock of the interpreter can make a test wait for ever.
        faulthandler.dump_traceback_later(120, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = directory.name
        self.cache = self.open()
        self.addCleanup(self.cache.close)

    def open(self, **arguments: object) -> opkeep.Cache:
        """Open the cache once more."""
        return opkeep.Cache(self.root, "cuda-sm_90", **arguments)  # type: ignore[arg-type]

    def begin(self, key: bytes = KEY) -> opkeep.Ticket:
        """Begin the files of `key`, which are not stored."""
        claim = self.cache.get_or_begin(key)
        assert isinstance(claim, opkeep.Ticket)
        return claim

    def start(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a program in a new interpreter that ends with the test. `cache` is the test's cache there, `KEY` the key."""
        begin = (
            "import faulthandler, os, sys, time, signal, opkeep\n"
            "faulthandler.enable()\n"
            f"cache = opkeep.Cache({self.root!r}, 'cuda-sm_90')\n"
            "KEY = bytes(range(32))\n"
            "def say(text): print(text, flush=True)\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", begin + program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(_end, process)
        return process

    def assert_says(self, process: subprocess.Popen[str], text: str) -> None:
        """Wait for a line of a program."""
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline().strip()
        if line != text:
            self.fail(f"expected {text!r}, found {line!r}; {process.stderr.read() if not line else ''}")

    def assert_ends(self, process: subprocess.Popen[str], status: int, limit: float) -> None:
        """Wait for the end of a program. If it does not end, the message has the stacks of its threads."""
        try:
            found = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            self.fail(f"it still runs after {limit} s: {process.communicate()[1]}")
        self.assertEqual(found, status, process.communicate()[1] if found != status else "")


def _faults(result: unittest.TestResult | None) -> int:
    return len(result.failures) + len(result.errors) if result is not None else 0


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail if the block takes longer."""
    begin = time.monotonic()
    yield
    took = time.monotonic() - begin
    assert took <= seconds, f"took {took:.2f} s, more than {seconds} s"


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen"
        time.sleep(0.005)


def in_child(function: Callable[[], object]) -> None:
    """Run a function in a forked child; fail if it fails there."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        except BaseException:  # The child must not go on with the parent's tests.
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"
