"""The end of tickets whose frames have ended: frames that are used again, coroutines, greenlets. Triton is not needed."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import sys
import threading
import time
import unittest
from collections.abc import Callable, Generator
from unittest import mock

from helper import until
from opkeep.triton import _log, _tickets


class Manager:
    """What is watched of a manager."""

    def __init__(self) -> None:
        self.has_ticket = True

    def release(self) -> None:
        self.has_ticket = False


def began(manager: Manager) -> None:
    """Watch the ticket of a manager in the caller's frame."""
    _tickets.watch(manager, sys._getframe(1))  # type: ignore[arg-type]


def request(manager: Manager) -> None:
    """Do what a manager does before it begins a ticket in the caller's frame."""
    _tickets.release_ended(manager, sys._getframe(1))  # type: ignore[arg-type]


def compile_with(manager: Manager, during: Callable[[], object] = lambda: None, fails: bool = False) -> int:
    """Do what a compile does with its manager. Return the identity of its frame."""
    request(manager)
    began(manager)
    during()
    if fails:
        raise ValueError
    return id(sys._getframe())


class LookTest(unittest.TestCase):
    """What the tests use."""

    def setUp(self) -> None:
        patch = mock.patch.object(_tickets, "_INTERVAL", 0.01)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(_tickets._watched.clear)

    def look(self) -> None:
        """Do what the thread does at each look."""
        _tickets._check_all()

    def assert_released(self, manager: Manager) -> None:
        """Wait for the thread."""
        until(lambda: not manager.has_ticket, "the release of the ticket")


class TicketTest(LookTest):
    def test_a_frame_that_runs_keeps_its_ticket(self) -> None:
        manager = Manager()

        def during() -> None:
            thread = threading.Thread(target=self.look)
            thread.start()
            thread.join()
            self.look()
            request(Manager())
            self.assertTrue(manager.has_ticket)

        compile_with(manager, during)
        self.assertTrue(manager.has_ticket)
        self.assert_released(manager)
        self.assertEqual(_tickets._watched, [])

    def test_a_kept_exception_keeps_no_ticket(self) -> None:
        manager = Manager()
        try:
            compile_with(manager, fails=True)
        except ValueError as error:
            kept = error
        self.look()
        self.assertFalse(manager.has_ticket)
        self.assertIsNotNone(kept.__traceback__)

    def test_a_later_frame_with_the_identity_of_an_ended_one_does_not_keep_its_ticket(self) -> None:
        managers: list[Manager] = []

        def during() -> None:
            self.assertEqual([manager.has_ticket for manager in managers], [False] * (len(managers) - 1) + [True])

        with mock.patch.object(_tickets, "_run"):
            # The interpreter uses the memory of frames again.
            for _ in range(20):
                managers.append(Manager())
                compile_with(managers[-1], during)
            # In any case, the frame of another request has this identity.
            first, second = Manager(), Manager()
            began(first)
            request(first)
            self.assertTrue(first.has_ticket)
            request(second)
            self.assertFalse(first.has_ticket)

    def test_a_thread_with_the_number_of_an_ended_one_does_not_keep_its_ticket(self) -> None:
        manager, numbers = Manager(), []

        def run() -> None:
            numbers.append(threading.get_ident())
            if len(numbers) == 1:
                compile_with(manager)
            else:
                self.look()

        for _ in range(2):
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        self.assertFalse(manager.has_ticket)

    def test_a_ticket_that_no_thread_can_check_is_released(self) -> None:
        manager = Manager()
        start = mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("can't start new thread"))
        with mock.patch.object(_tickets, "_has_thread", False), start:
            began(manager)
        self.assertFalse(manager.has_ticket)
        self.assertEqual(_tickets._watched, [])
        # The next one is checked.
        later = Manager()
        compile_with(later)
        self.assert_released(later)

    def test_the_watched_frame_keeps_no_variable(self) -> None:
        freed = threading.Event()

        class Tensor:
            def __del__(self) -> None:
                freed.set()

        def use() -> None:
            tensor = Tensor()  # noqa: F841
            compile_with(Manager())

        use()
        self.assertTrue(freed.is_set())

    def test_code_that_runs_when_a_frame_is_freed_may_compile(self) -> None:
        class Late:
            def __del__(self) -> None:
                compile_with(Manager())

        manager = Manager()

        def fail() -> None:
            late = Late()  # noqa: F841
            compile_with(manager, fails=True)

        with _tickets._lock, self.assertRaises(ValueError):
            fail()
        gc.collect()
        self.look()
        self.assertFalse(manager.has_ticket)


    def test_an_unexpected_exception_ends_no_check(self) -> None:
        class Fails(Manager):
            def release(self) -> None:
                raise RuntimeError("no release")

        class FailsToo(Manager):
            @property
            def has_ticket(self) -> bool:
                raise RuntimeError("no ticket")

            @has_ticket.setter
            def has_ticket(self, value: bool) -> None: ...

        managers = [Fails(), FailsToo(), Manager()]
        ended = (lambda: sys._getframe())()
        self.addCleanup(_log._warned.clear)
        with self.assertLogs("opkeep", "WARNING") as logs:
            for manager in managers:
                _tickets.watch(manager, ended)  # type: ignore[arg-type]
            self.assert_released(managers[-1])
        self.assertTrue(_tickets._has_thread)
        self.assertEqual(len(logs.output), 1, logs.output)


class CoroutineTest(LookTest):
    def test_a_compile_in_a_coroutine_keeps_its_ticket(self) -> None:
        manager = Manager()

        def during() -> None:
            self.look()
            kept.append(manager.has_ticket)

        async def run() -> None:
            await asyncio.to_thread(compile_with, manager, during)
            await asyncio.gather(asyncio.sleep(0.02), asyncio.sleep(0))

        kept: list[bool] = []
        asyncio.run(run())
        self.assertEqual(kept, [True])
        self.assert_released(manager)

    def test_a_failed_task_that_is_kept_keeps_no_ticket(self) -> None:
        manager = Manager()

        async def compiles() -> None:
            compile_with(manager, fails=True)

        async def run() -> asyncio.Task[None]:
            task = asyncio.create_task(compiles())
            await asyncio.wait([task])
            self.look()
            self.assertFalse(manager.has_ticket)
            return task

        self.assertIsInstance(asyncio.run(run()).exception(), ValueError)

    def test_a_ticket_of_a_suspended_coroutine_ends(self) -> None:
        manager = Manager()

        async def run() -> None:
            request(manager)
            began(manager)
            self.look()
            self.assertTrue(manager.has_ticket)
            while manager.has_ticket:
                await asyncio.sleep(0.01)

        asyncio.run(asyncio.wait_for(run(), 10))

    def test_a_ticket_of_a_suspended_generator_ends(self) -> None:
        manager = Manager()

        def steps() -> Generator[None]:
            began(manager)
            yield
            self.look()

        generator = steps()
        next(generator)
        self.assert_released(manager)
        self.assertEqual(list(generator), [])


@unittest.skipUnless(importlib.util.find_spec("greenlet"), "greenlet is not installed")
class GreenletTest(LookTest):
    def test_a_suspended_greenlet_keeps_its_ticket(self) -> None:
        from greenlet import getcurrent, greenlet

        manager, main = Manager(), getcurrent()
        compiling = greenlet(lambda: compile_with(manager, main.switch))
        compiling.switch()
        for _ in range(3):
            time.sleep(0.02)
            self.look()
            request(Manager())
            self.assertTrue(manager.has_ticket)
        # The main greenlet is suspended now, and the other one runs.
        compiling.switch()
        self.assertTrue(compiling.dead)
        self.look()
        self.assertFalse(manager.has_ticket)

    def test_the_main_greenlet_keeps_its_ticket_while_it_is_suspended(self) -> None:
        from greenlet import greenlet

        manager = Manager()
        compile_with(manager, greenlet(self.look).switch)
        self.assertTrue(manager.has_ticket)

    def test_a_greenlet_that_is_never_resumed_keeps_no_ticket(self) -> None:
        from greenlet import getcurrent, greenlet

        manager, main = Manager(), getcurrent()
        compiling = greenlet(lambda: compile_with(manager, main.switch))
        compiling.switch()
        del compiling
        gc.collect()
        self.look()
        self.assertFalse(manager.has_ticket)


if __name__ == "__main__":
    unittest.main()
