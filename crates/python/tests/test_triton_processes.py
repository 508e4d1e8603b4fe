"""The cache manager for Triton with several processes and threads: waits, failures, forks."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

from triton_helper import TritonTest, Worker

SECOND = 1.0
"""The seconds after which the others are free, as documented. They are free after a fifth of a second; the machine may be busy."""
SOON = 25.0
"""The seconds after which they have compiled, where this process measures it. A wait that does not end takes 30."""


class WaitTest(TritonTest):
    """Others wait for a compile, and not for one that has failed."""

    def workers(self, count: int) -> list[Worker]:
        return [Worker(self) for _ in range(count)]

    def test_four_processes_compile_once(self) -> None:
        workers = self.workers(4)
        for worker in workers:
            worker.begin("timed(1024)")
        results = [worker.result() for worker in workers]
        self.assertEqual(sum(count for _, count in results), 1, results)

    def test_threads_compile_once(self) -> None:
        threads = [threading.Thread(target=self.kernels.compile) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assert_compiled(1)

    def assert_free_within_a_second(self, delay_with: Callable[[int], float]) -> None:
        """Check a delay by the clocks of the processes themselves. It counts in one of three kernels: the machine may be busy."""
        delays = []
        for block in (3, 5, 7):
            delays.append(delay_with(block))
            if delays[-1] < SECOND:
                return
        self.fail(f"the delays were {delays}")

    def test_a_failed_compile_frees_the_others_though_its_exception_is_kept(self) -> None:
        one, other = self.workers(2)
        for keep in (True, False):

            def delay_with(block: int, keep: bool = keep) -> float:
                self.assertEqual(one.run(f"fail({block}, keep={keep})"), "CompilationError")
                self.assertEqual(other.run(f"fail({block}, keep=False)"), "CompilationError")
                return float(other.run("kernels.compiles.began - times['requested']"))

            self.assert_free_within_a_second(delay_with)

    def test_a_compile_that_fails_late_frees_a_waiter(self) -> None:
        one, other = self.workers(2)
        one.run("kernels.compiles.during = lambda: (print('begun', flush=True), sys.stdin.readline())")

        def delay_with(block: int) -> float:
            one.begin(f"fail({block})")
            self.assertEqual(one._answer(), "begun")
            other.begin(f"fail({block}, keep=False)")
            time.sleep(0.5)
            one.begin("go on")
            self.assertEqual(one.result(), "CompilationError")
            self.assertEqual(other.result(), "CompilationError")
            return float(other.run("kernels.compiles.began") - one.run("times['failed']"))

        self.assert_free_within_a_second(delay_with)

    def test_two_ranks_that_keep_each_others_failures_do_not_wait_for_each_other(self) -> None:
        one, other = self.workers(2)
        for worker, block in ((one, 3), (other, 5)):
            worker.begin(f"fail({block})")
        self.assertEqual([one.result(), other.result()], ["CompilationError"] * 2)
        begin = time.monotonic()
        for worker, block in ((one, 5), (other, 3)):
            worker.begin(f"fail({block})")
        self.assertEqual([one.result(), other.result()], ["CompilationError"] * 2)
        self.assertLess(time.monotonic() - begin, SOON)

    def test_a_failure_in_a_thread_pool_frees_the_others(self) -> None:
        one, other = self.workers(2)
        one.run("from concurrent.futures import ThreadPoolExecutor")
        one.run("pool = ThreadPoolExecutor(2)")
        one.run("futures = [pool.submit(kernels.compile, block) for block in (3, 5)]")
        self.assertEqual(one.run("[type(future.exception()).__name__ for future in futures]"), ["CompilationError"] * 2)
        begin = time.monotonic()
        self.assertEqual(other.run("[fail(3, keep=False), fail(5, keep=False)]"), ["CompilationError"] * 2)
        self.assertLess(time.monotonic() - begin, SOON)

    def test_a_failure_of_an_asynchronous_compile_frees_the_others(self) -> None:
        try:
            import triton.runtime._async_compile  # noqa: F401
        except ImportError:
            self.skipTest("this Triton has no asynchronous compile")
        one, other = self.workers(2)
        self.assertEqual(one.run("asynchronous(3, 1024)"), 2)
        begin = time.monotonic()
        self.assertEqual(other.run("fail(3, keep=False)"), "CompilationError")
        self.assertLess(time.monotonic() - begin, SOON)
        self.assertEqual(other.run("timed(1024)")[1], 0)

    def one_compiles_one_waits(self) -> tuple[Worker, Worker]:
        """Return a process in a compile that takes a minute, and one that waits for it."""
        one, other = self.workers(2)
        one.run("import time, threading")
        one.run("begun = threading.Event()")
        one.run("kernels.compiles.during = lambda: (begun.set(), time.sleep(60))")
        one.run("thread = threading.Thread(target=kernels.compile, daemon=True)")
        one.run("thread.start()")
        one.run("begun.wait()")
        other.begin("timed(1024)")
        time.sleep(0.5)
        return one, other

    def test_a_wait_ends_with_a_signal(self) -> None:
        one, other = self.one_compiles_one_waits()
        begin = time.monotonic()
        other._process.send_signal(signal.SIGINT)
        self.assertEqual(other._answer(), "failed")
        self.assertLess(time.monotonic() - begin, SOON)

    def test_a_killed_compile_frees_the_others(self) -> None:
        one, other = self.one_compiles_one_waits()
        one.end()
        waited, compiles = other.result()
        self.assertEqual(compiles, 1)
        self.assertLess(waited, 30)

    def test_threads_that_need_each_other_through_a_lock(self) -> None:
        lock, begun = threading.Lock(), threading.Event()

        def during() -> None:
            if threading.current_thread() is holder:
                begun.set()
                until_waiting.wait(10)
                with lock:
                    pass

        def other() -> None:
            begun.wait()
            with lock:
                until_waiting.set()
                self.kernels.compile()

        until_waiting = threading.Event()
        self.kernels.compiles.during = during
        holder = threading.Thread(target=self.kernels.compile, daemon=True)
        waiter = threading.Thread(target=other, daemon=True)
        for thread in (holder, waiter):
            thread.start()
        for thread in (holder, waiter):
            thread.join(30)
            self.assertFalse(thread.is_alive())
        self.assert_compiled(2)

    def test_an_exception_of_a_signal_handler_ends_a_wait(self) -> None:
        def handle(_: int, frame: FrameType | None) -> None:
            if frame is not None and frame.f_code.co_name == "_get_or_begin":
                signal.setitimer(signal.ITIMER_REAL, 0)
                raise TimeoutError("the program's")

        begun, ends = threading.Event(), threading.Event()

        def during() -> None:
            begun.set()
            ends.wait(30)

        self.kernels.compiles.during = during
        holder = threading.Thread(target=self.kernels.compile)
        holder.start()
        begun.wait()
        self.addCleanup(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, handle))
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        with self.assertRaisesRegex(TimeoutError, "the program's"):
            self.kernels.compile()
        ends.set()
        holder.join()
        self.assert_compiled(1)

    def test_a_ticket_that_ctrl_c_leaves_unwatched_is_released(self) -> None:
        from opkeep.triton import CacheManager, _tickets

        managers = []

        def interrupted(manager: CacheManager, frame: object) -> None:
            managers.append(manager)
            raise KeyboardInterrupt

        with mock.patch.object(_tickets, "watch", interrupted), self.assertRaises(KeyboardInterrupt):
            self.kernels.compile()
        self.assertFalse(managers[0].has_ticket)
        self.assertEqual(self.workers(1)[0].run("timed(1024)")[1], 1)

    def test_an_interpreter_that_ends_with_a_ticket(self) -> None:
        program = (
            "import triton_kernels as k\n"
            "try: k.compile(3)\n"
            "except Exception as error: kept = error\n"
        )
        begin = subprocess.run(
            [sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=60
        )
        self.assertEqual((begin.returncode, begin.stderr), (0, ""))
        self.assertEqual(self.workers(1)[0].run("fail(3)"), "CompilationError")


class ForkTest(TritonTest):
    """Forked and spawned children."""

    def test_a_child_that_is_forked_in_a_compile_leaves_its_ticket_alone(self) -> None:
        other = Worker(self)

        def during() -> None:
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
            other.begin("timed(1024)")
            time.sleep(0.5)

        self.kernels.compiles.during = during
        self.kernels.compile()
        self.assertEqual(other.result()[1], 0)

    def test_a_failure_in_a_child_that_is_forked_in_a_compile_frees_the_others(self) -> None:
        other = Worker(self)
        children = []

        def during() -> None:
            self.kernels.compiles.during = lambda: None
            failed, write = os.pipe()
            child = os.fork()
            if child == 0:
                try:
                    self.kernels.compile(3)
                except Exception as error:
                    kept = error  # noqa: F841
                    os.write(write, b"failed")
                    time.sleep(60)
                os._exit(1)
            children.append(child)
            self.assertEqual(os.read(failed, 6), b"failed")

        self.kernels.compiles.during = during
        self.kernels.compile()
        begin = time.monotonic()
        self.assertEqual(other.run("fail(3)"), "CompilationError")
        self.assertLess(time.monotonic() - begin, SOON)
        os.kill(children[0], signal.SIGKILL)
        os.waitpid(children[0], 0)

    def test_a_child_goes_on_with_a_compile_of_its_parent(self) -> None:
        children = []

        def during() -> None:
            child = os.fork()
            if child:
                children.append(child)

        self.kernels.compiles.during = during
        try:
            kernel = self.kernels.compile()
        except BaseException:
            if not children:
                os._exit(1)
            raise
        if not children:
            from opkeep.triton import _log

            # It publishes without its parent's ticket.
            os._exit(len(_log._warned))
        self.assertEqual(os.waitpid(children[0], 0)[1], 0)
        self.kernels.compiles.during = lambda: None
        self.kernels.compiles.count = 0
        self.assertEqual(self.kernels.compile().asm["cubin"], kernel.asm["cubin"])
        self.assert_compiled(0)

    def test_children_compile_and_fail(self) -> None:
        self.kernels.compile()
        for method in ("fork", "spawn"):
            with self.subTest(method), multiprocessing.get_context(method).Pool(2) as pool:
                self.assertEqual(pool.map(_compiles, [1024, 1024]), [0, 0])
                self.assertEqual(sum(pool.map(_compiles, [512, 512])), 1)
                self.assertEqual(pool.map(_compiles, [3, 3]), [-1, -1])
            self.empty_directory()
            self.new_store()
            self.kernels.compile()


def _compiles(block: int) -> int:
    import triton_kernels

    setattr(triton_kernels.compiles, "during", lambda: None)
    triton_kernels.compiles.count = 0
    try:
        triton_kernels.compile(block)
    except Exception:
        return -1
    return triton_kernels.compiles.count


class DirectoryTest(TritonTest):
    """Directories that cannot be used. None of them makes a compile fail that would not fail without us."""

    def test_a_directory_that_others_can_write(self) -> None:
        self.kernels_dir.mkdir(mode=0o777)
        self.kernels_dir.chmod(0o777)
        with self.assertLogs("opkeep", "WARNING") as logs:
            for _ in range(2):
                self.kernels.compile()
        self.assert_compiled(2)
        self.assertTrue(any("chmod go-w" in line for line in logs.output), logs.output)
        self.assertLessEqual(len(logs.output), 2, logs.output)
        self.kernels_dir.chmod(0o755)
        self.kernels.compile()
        self.assert_compiled(0)

    def test_a_store_that_is_no_directory(self) -> None:
        self.store.write_text("a file")
        with self.assertLogs("opkeep", "WARNING") as logs:
            for _ in range(2):
                self.kernels.compile()
        self.assertEqual(len(logs.output), 1, logs.output)
        self.assert_compiled(2)

    def test_a_store_that_others_can_write(self) -> None:
        self.store.mkdir()
        self.store.chmod(0o777)
        with self.assertLogs("opkeep", "WARNING") as logs:
            self.kernels.compile()
        self.assertIn("chmod", logs.output[0])
        self.assert_compiled(1)

    def test_a_compiler_that_is_missing(self) -> None:
        with mock.patch("opkeep.triton._manager.toolchain_of", side_effect=RuntimeError("no compiler")):
            with self.assertLogs("opkeep", "WARNING") as logs:
                for _ in range(2):
                    self.kernels.compile()
        self.assertEqual(len(logs.output), 1, logs.output)
        self.assertIn("no compiler", logs.output[0])
        self.assert_compiled(2)

    def test_a_fault_of_the_manager_does_not_reach_triton(self) -> None:
        from opkeep.triton import CacheManager, _log

        faults = {"get_group": "_take_over", "get_file": "_get_or_begin"}
        for function, name in faults.items():
            _log._warned.clear()
            fault = mock.patch.object(CacheManager, name, side_effect=AttributeError("a fault"))
            with self.subTest(function), fault, self.assertLogs("opkeep", "WARNING"):
                self.assertIsNone(getattr(CacheManager("KEY"), function)("add.so"))

    def test_a_compiler_that_changes_during_the_compile(self) -> None:
        from opkeep.triton import _toolchain

        original = _toolchain.COLLECT["cuda"]
        parts = ["one"]
        changed = {"cuda": lambda compile, found, settings: _toolchain._add_text(found, "ptxas", parts[0])}
        with mock.patch.dict(_toolchain.COLLECT, changed):
            self.kernels.compiles.during = lambda: parts.__setitem__(0, "another")
            self.kernels.compile()
            self.assert_compiled(1)
            parts[0] = "one"
            self.kernels.compiles.during = lambda: None
            self.kernels.compile()
            self.assert_compiled(1)
            self.kernels.compile()
            self.assert_compiled(0)
        self.assertIs(_toolchain.COLLECT["cuda"], original)


class InductorTest(TritonTest):
    """Groups that Inductor's bundler restores, which is simulated: it writes a directory and renames it."""

    def setUp(self) -> None:
        super().setUp()
        self.kernel = self.kernels.compile()
        self.saved = self.files(self.kernel)
        self.new_store()
        self.empty_directory()
        self.load_inductor()
        self.kernels.compiles.count = 0

    def restore(self, **changed: bytes | None) -> None:
        temporary = self.kernels_dir / "tmp.bundle"
        temporary.mkdir(parents=True)
        for name, content in {**self.saved, **{name.replace("__", ".", 1): changed[name] for name in changed}}.items():
            if content is not None:
                (temporary / name).write_bytes(content)
        temporary.rename(self.directory(self.kernel))

    def test_a_restored_group_is_taken_over(self) -> None:
        self.restore()
        self.assertEqual(self.kernels.compile().asm["cubin"], self.kernel.asm["cubin"])
        self.assert_compiled(0)
        del sys.modules["torch._inductor.triton_bundler"]
        self.empty_directory()
        self.assertEqual(self.kernels.compile().asm["cubin"], self.kernel.asm["cubin"])
        self.assert_compiled(0)
        entry = max((self.store / "v1" / "cuda-sm_90" / "entries").rglob("*"), key=lambda path: path.stat().st_size)
        self.assertIn(b"(restored by Inductor)", entry.read_bytes())

    def test_a_group_that_is_not_that_of_its_record_is_compiled_again(self) -> None:
        record = self.saved["add.json.opkeep"]
        first, *lines = record.splitlines(keepends=True)
        head = first.replace(b" %d\n" % len(lines), b" %d\n" % (len(lines) - 1))
        damages: dict[str, dict[str, bytes | None]] = {
            "a cut object": {"add__cubin": self.saved["add.cubin"][:1000]},
            "another object": {"add__cubin": self.saved["add.cubin"][:-1] + b"x"},
            "metadata that are cut": {"add__json": self.saved["add.json"][:100]},
            "metadata that are no object": {"add__json": b"[]"},
            "a file that is missing": {"add__ttir": None},
            "no record": {"add__json.opkeep": None},
            "a record of another entry": {"add__json.opkeep": record.replace(record[9:19], b"0" * 10, 1)},
            "a record of a later version": {"add__json.opkeep": record.replace(b"opkeep 1", b"opkeep 2")},
            "a record that is cut": {"add__json.opkeep": record[:200]},
            "a record without one file": {"add__json.opkeep": b"".join(x for x in (first, *lines) if b" add.ttir" not in x)},
            "a record that counts one file less": {
                "add__json.opkeep": b"".join([head, *(x for x in lines if b" add.ttir" not in x)])
            },
            "a record without the metadata": {"add__json.opkeep": b"".join([head, *(x for x in lines if b" add.json" not in x)])},
            **{f"{count} files": {"add__json.opkeep": b"".join([first, *lines[:count]])} for count in range(len(lines))},
            "a record of another directory": {"add__json.opkeep": record.replace(b" add.cubin", b" ../add.cubin")},
        }
        for damage, changed in damages.items():
            with self.subTest(damage):
                self.restore(**changed)
                self.assertEqual(self.kernels.compile().asm["cubin"], self.kernel.asm["cubin"])
                self.assert_compiled(1)
                self.assertEqual(self.files(self.kernel), self.saved)
                self.empty_directory()
                self.new_store()

    def test_a_group_that_is_not_valid_is_compiled_again(self) -> None:
        from opkeep.triton import CacheManager

        # Its digests are right, but its rules are newer than it.
        self.restore()
        bad = {"add.cubin": self.saved["add.cubin"].replace(b".text.add", b".text.sub")}

        def changed(manager: CacheManager, name: str, files: list[tuple[str, bytes]], *rest: Any) -> object:
            return described(manager, name, [(name, bad.get(name, content)) for name, content in files], *rest)

        described = CacheManager._described
        with mock.patch.object(CacheManager, "_described", changed):
            with self.assertLogs("opkeep", "INFO") as logs:
                self.kernels.compile()
        self.assertIn("was restored by Inductor, and is compiled again", logs.output[0])
        self.assert_compiled(1)

    def test_without_the_bundler_nothing_is_taken_over(self) -> None:
        del sys.modules["torch._inductor.triton_bundler"]
        self.restore()
        self.kernels.compile()
        self.assert_compiled(1)


if __name__ == "__main__":
    unittest.main()
