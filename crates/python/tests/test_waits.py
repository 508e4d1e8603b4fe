"""Waits: the lock of the interpreter, Ctrl-C, timeouts, other threads."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable

import opkeep
from helper import FILES, KEY, CacheTest, at_most, long_test, until

LIMIT = 25
"""The seconds that a wait may take here: the machine may be busy. One that does not end takes a minute, or for ever."""


class Counter(threading.Thread):
    """A thread that counts as long as it gets the lock of the interpreter, and notes the longest time without it."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.count = 0
        self.longest = 0.0
        self.ends = threading.Event()

    def run(self) -> None:
        last = time.monotonic()
        while not self.ends.is_set():
            time.sleep(0.001)
            now = time.monotonic()
            self.longest = max(self.longest, now - last)
            last = now
            self.count += 1

    def __enter__(self) -> Counter:
        self.start()
        until(lambda: self.count > 0, "the start of the thread")
        return self

    def __exit__(self, *exception: object) -> None:
        self.ends.set()
        self.join()


class ThreadsTest(CacheTest):
    def test_other_threads_run_during_a_wait(self) -> None:
        begins, cache = threading.Event(), self.open()

        def wait() -> None:
            begins.set()
            cache.get_or_begin(KEY, timeout=60)

        thread = threading.Thread(target=wait)
        with self.begin() as ticket, Counter() as counter:
            thread.start()
            begins.wait()
            before = counter.count
            until(lambda: counter.count - before > 50, "the run of another thread")
            ticket.publish(FILES)
        thread.join()

    def test_other_threads_run_while_a_ticket_is_dropped(self) -> None:
        tickets = [self.open().get_or_begin(bytes([number]) * 32) for number in range(200)]
        with Counter() as counter:
            self.assertGreater(self.counted(counter, tickets.clear), 0)

    def counted(self, counter: Counter, function: Callable[[], object]) -> int:
        """Return how often a thread counts while a function runs, if it runs only when another one releases the lock by itself."""
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        try:
            before = counter.count
            function()
            return counter.count - before
        finally:
            sys.setswitchinterval(interval)

    def test_other_threads_run_while_100_mb_are_published_and_read(self) -> None:
        content = bytes(100_000_000)
        with self.begin() as ticket, Counter() as counter:
            # Both take some 100 ms.
            self.assertGreater(self.counted(counter, lambda: ticket.publish({"large": content})), 0)
            hits: list[opkeep.Hit | None] = []
            self.assertGreater(self.counted(counter, lambda: hits.append(self.cache.get(KEY))), 0)
        assert hits[0] is not None
        self.assertEqual(hits[0]["large"], content)

    def test_of_eight_threads_one_builds(self) -> None:
        built: list[int] = []
        found: list[dict[str, bytes]] = []
        barrier = threading.Barrier(8)

        def build() -> dict[str, bytes]:
            built.append(1)
            time.sleep(0.05)
            return FILES

        def get() -> None:
            cache = self.open()
            barrier.wait()
            found.append(dict(cache.get_or_build(KEY, build)))  # type: ignore[arg-type]

        threads = [threading.Thread(target=get) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(built), found), (1, [FILES] * 8))

    def test_a_thread_with_a_ticket_does_not_wait(self) -> None:
        other = threading.Event()
        ends = threading.Event()

        def hold() -> None:
            with self.open().get_or_begin(bytes(32)):
                other.set()
                ends.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        other.wait()
        with self.begin(), at_most(LIMIT), self.cache.get_or_begin(bytes(32)) as claim:
            assert isinstance(claim, opkeep.Ticket)
            self.assertIn("this thread holds another ticket", str(claim.unshared_reason))
        ends.set()
        thread.join()

    def test_another_thread_may_publish(self) -> None:
        ticket = self.begin()
        thread = threading.Thread(target=lambda: ticket.publish(FILES))
        thread.start()
        thread.join()
        self.assertFalse(ticket.is_held)
        self.assertIsNotNone(self.cache.get(KEY))


class RenewalTest(CacheTest):
    """The renewal of a ticket, which needs no thread of Python."""

    @long_test(2)
    def test_a_ticket_is_renewed_while_a_function_keeps_the_lock_of_the_interpreter(self) -> None:
        stale_after = 4.0
        holder = self.start(
            "import ctypes, threading\n"
            "counted = 0\n"
            "def count():\n"
            "    global counted\n"
            "    while True: time.sleep(0.001); counted += 1\n"
            "threading.Thread(target=count, daemon=True).start()\n"
            # A thread runs only when the other one releases the lock by itself, and functions of `PyDLL` keep it.
            "sys.setswitchinterval(1000)\n"
            "read, buffer = ctypes.PyDLL(None).read, ctypes.create_string_buffer(1)\n"
            "ticket = cache.get_or_begin(KEY)\n"
            "say(ticket.is_shared)\n"
            "before = counted\n"
            "read(0, buffer, 1)\n"
            "say(counted == before)\n"
            "say(ticket.publish({'a': b'of the holder'}))\n"
        )
        self.assert_says(holder, "True")
        waiter = self.start(
            f"cache = opkeep.Cache(cache._arguments[0], 'cuda-sm_90', stale_after={stale_after})\n"
            "say('waits')\n"
            "say(dict(cache.get_or_build(KEY, lambda: {'a': b'of the waiter'})))\n"
        )
        self.assert_says(waiter, "waits")
        # Both have seen no heartbeat for longer than the limit, if there is none.
        with self.assertRaises(opkeep.WaitTimeoutError):
            self.open(stale_after=stale_after).get_or_begin(KEY, timeout=stale_after + 2)
        assert holder.stdin is not None
        holder.stdin.write("x")
        holder.stdin.flush()
        self.assert_says(holder, "True")
        self.assert_says(holder, "True")
        self.assert_says(waiter, "{'a': b'of the holder'}")


class HolderTest(CacheTest):
    """Waits for another process, which holds the ticket."""

    def setUp(self) -> None:
        super().setUp()
        self.holder = self.start(
            "ticket = cache.get_or_begin(KEY)\nsay(ticket.is_shared)\nfor line in sys.stdin: exec(line)\n"
        )
        self.assert_says(self.holder, "True")

    def tell(self, line: str) -> None:
        """Have the holder run a line."""
        assert self.holder.stdin is not None
        self.holder.stdin.write(line + "\n")
        self.holder.stdin.flush()

    def test_a_timeout_ends_a_wait(self) -> None:
        with at_most(LIMIT), self.assertRaisesRegex(opkeep.WaitTimeoutError, "did not finish") as raised:
            self.cache.get_or_begin(KEY, timeout=0.1)
        self.assertIsInstance(raised.exception, TimeoutError)

    def test_a_wait_gets_the_files(self) -> None:
        self.tell("time.sleep(0.2); ticket.publish({'a': b'x'})")
        with at_most(LIMIT):
            hit = self.cache.get_or_begin(KEY)
        assert isinstance(hit, opkeep.Hit)
        self.assertTrue(hit.waited)

    def test_a_reason_reaches_the_waiters(self) -> None:
        self.tell("time.sleep(0.2); ticket.abandon('line 3: no such type')")
        with at_most(LIMIT), self.assertRaisesRegex(opkeep.HolderFailedError, "^line 3: no such type$"):
            self.cache.get_or_begin(KEY)

    def test_an_exception_in_the_holder_frees_the_key(self) -> None:
        self.tell("exec('with ticket:\\n  time.sleep(0.2); raise SystemExit(0)')")
        with at_most(LIMIT), self.cache.get_or_begin(KEY) as ticket:
            assert isinstance(ticket, opkeep.Ticket)
            self.assertTrue(ticket.is_shared)

    def test_ctrl_c_ends_a_wait(self) -> None:
        timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
        timer.start()
        self.addCleanup(timer.join)
        with at_most(LIMIT), self.assertRaises(KeyboardInterrupt):
            self.cache.get_or_begin(KEY, timeout=60)

    def test_the_exception_of_a_signal_handler_ends_a_wait(self) -> None:
        def handler(number: int, frame: object) -> None:
            raise ZeroDivisionError

        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with at_most(LIMIT), self.assertRaises(ZeroDivisionError):
            self.cache.get_or_begin(KEY, timeout=60)

    def test_a_signal_handler_that_returns_ends_no_wait(self) -> None:
        calls: list[int] = []

        def handler(number: int, frame: object) -> None:
            calls.append(number)
            # The cache can be used meanwhile.
            self.cache.get(bytes(32))
            self.tell("ticket.publish({'a': b'x'})")

        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        self.assertIsInstance(self.cache.get_or_begin(KEY, timeout=60), opkeep.Hit)
        self.assertEqual(len(calls), 1)
