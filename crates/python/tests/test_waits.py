"""Waits: the lock of the interpreter, Ctrl-C, timeouts, other threads."""

from __future__ import annotations

import signal
import sys
import threading
import time

import opkeep
from helper import FILES, KEY, CacheTest, at_most, until


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
        with self.begin(), Counter() as counter:
            before = counter.count
            with self.assertRaises(opkeep.WaitTimeoutError):
                self.wait_in_thread(timeout=0.5)
            self.assertGreater(counter.count - before, 20)

    def test_other_threads_run_while_a_ticket_is_dropped(self) -> None:
        tickets = [self.open().get_or_begin(bytes([number]) * 32) for number in range(200)]
        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        with Counter() as counter:
            # From here on, a thread runs only if another one releases the lock by itself.
            sys.setswitchinterval(1000)
            before = counter.count
            while tickets:
                tickets.pop()
            counted = counter.count - before
            sys.setswitchinterval(interval)
        self.assertGreater(counted, 0)

    def wait_in_thread(self, timeout: float) -> None:
        """Wait for the key in another thread: this one holds the ticket, and does not wait."""
        raised: list[BaseException] = []

        def wait() -> None:
            try:
                self.open().get_or_begin(KEY, timeout=timeout)
            except opkeep.Error as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
        for error in raised:
            raise error

    def test_other_threads_run_while_100_mb_are_published_and_read(self) -> None:
        content = bytes(100_000_000)
        with self.begin() as ticket, Counter() as counter:
            before = counter.count
            self.assertTrue(ticket.publish({"large": content}))
            published = counter.count - before
            before = counter.count
            hit = self.cache.get(KEY)
            read = counter.count - before
        assert hit is not None
        self.assertEqual(hit["large"], content)
        # Both take some 100 ms, in which a thread without the lock of the interpreter would not count at all.
        self.assertGreater(published, 5)
        self.assertGreater(read, 5)

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
        with self.begin(), at_most(1), self.cache.get_or_begin(bytes(32)) as claim:
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
        with at_most(1), self.assertRaisesRegex(opkeep.WaitTimeoutError, "did not finish") as raised:
            self.cache.get_or_begin(KEY, timeout=0.1)
        self.assertIsInstance(raised.exception, TimeoutError)

    def test_a_wait_gets_the_files(self) -> None:
        self.tell("time.sleep(0.2); ticket.publish({'a': b'x'})")
        with at_most(5):
            hit = self.cache.get_or_begin(KEY)
        assert isinstance(hit, opkeep.Hit)
        self.assertTrue(hit.waited)

    def test_a_reason_reaches_the_waiters(self) -> None:
        self.tell("time.sleep(0.2); ticket.abandon('line 3: no such type')")
        with at_most(5), self.assertRaisesRegex(opkeep.HolderFailedError, "^line 3: no such type$"):
            self.cache.get_or_begin(KEY)

    def test_an_exception_in_the_holder_frees_the_key(self) -> None:
        self.tell("exec('with ticket:\\n  time.sleep(0.2); raise SystemExit(0)')")
        with at_most(5), self.cache.get_or_begin(KEY) as ticket:
            assert isinstance(ticket, opkeep.Ticket)
            self.assertTrue(ticket.is_shared)

    def test_ctrl_c_ends_a_wait(self) -> None:
        timer = threading.Timer(0.2, signal.raise_signal, [signal.SIGINT])
        timer.start()
        self.addCleanup(timer.join)
        with at_most(1), self.assertRaises(KeyboardInterrupt):
            self.cache.get_or_begin(KEY, timeout=10)

    def test_the_exception_of_a_signal_handler_ends_a_wait(self) -> None:
        def handler(number: int, frame: object) -> None:
            raise ZeroDivisionError

        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with at_most(1), self.assertRaises(ZeroDivisionError):
            self.cache.get_or_begin(KEY, timeout=10)

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
        self.assertIsInstance(self.cache.get_or_begin(KEY, timeout=10), opkeep.Hit)
        self.assertEqual(len(calls), 1)
