"""Forked and spawned children, processes that are killed, stopped or exit, and other users."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import unittest
import warnings
from pathlib import Path

import opkeep
from helper import FILES, KEY, CacheTest, at_most, in_child


def get_and_publish(cache: opkeep.Cache) -> bool:
    """Use the cache in a child of multiprocessing."""
    hit = cache.get(KEY)
    assert hit is not None and hit["add.ptx"] == FILES["add.ptx"]
    return cache.publish(bytes(32), FILES)


class ForkTest(CacheTest):
    def setUp(self) -> None:
        super().setUp()
        # From 3.12 on, Python warns of forks in a process with threads: the renewal of tickets is one.
        filters = warnings.catch_warnings()
        filters.__enter__()
        self.addCleanup(filters.__exit__, None, None, None)
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)

    def test_a_child_uses_its_parents_cache(self) -> None:
        self.cache.publish(KEY, FILES)

        def child() -> None:
            hit = self.cache.get(KEY)
            assert hit is not None and dict(hit) == FILES
            with self.cache.get_or_begin(bytes(32)) as ticket:
                assert isinstance(ticket, opkeep.Ticket) and ticket.is_shared
                assert ticket.publish(FILES)
            self.cache.close()

        in_child(child)
        self.assertIsNotNone(self.cache.get(bytes(32)))

    def test_a_childs_end_leaves_its_parents_ticket(self) -> None:
        ticket = self.begin()

        def drop() -> None:
            nonlocal ticket
            with ticket:
                pass
            del ticket

        in_child(drop)
        self.assertTrue(ticket.is_held)
        waiter = self.start(
            "try: cache.get_or_begin(KEY, timeout=0.3)\nexcept opkeep.WaitTimeoutError: say('waits')"
        )
        self.assert_says(waiter, "waits")
        self.assertTrue(ticket.publish(FILES))

    def test_a_child_that_exits_leaves_its_parents_ticket(self) -> None:
        # An ordinary exit, with everything that Python does then.
        parent = self.start(
            "ticket = cache.get_or_begin(KEY)\n"
            "child = os.fork()\n"
            "if child == 0: sys.exit(0)\n"
            "say(os.waitpid(child, 0)[1])\n"
            "sys.stdin.readline()\n"
            "say(ticket.publish({'a': b'x'}))\n"
        )
        self.assert_says(parent, "0")
        with self.assertRaises(opkeep.WaitTimeoutError):
            self.cache.get_or_begin(KEY, timeout=0.3)
        output, _ = parent.communicate("\n")
        self.assertEqual(output, "True\n")

    def test_a_parents_ticket_cannot_be_used_in_a_child(self) -> None:
        ticket = self.begin()

        def child() -> None:
            assert not ticket.is_held
            for use in (lambda: ticket.publish(FILES), ticket.abandon):
                try:
                    use()
                except opkeep.ForkedTicketError as error:
                    assert "which forked this one" in str(error)
                else:
                    raise AssertionError("it can")

        in_child(child)
        self.assertTrue(ticket.publish(FILES))

    def test_a_killed_parents_ticket_does_not_live_on_in_a_child(self) -> None:
        parent = self.start(
            "ticket = cache.get_or_begin(KEY)\nchild = os.fork()\nif child: say(child)\ntime.sleep(60)\n"
        )
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        self.addCleanup(os.kill, child, signal.SIGKILL)
        parent.kill()
        with at_most(1), self.cache.get_or_begin(KEY) as ticket:
            assert isinstance(ticket, opkeep.Ticket)
            self.assertTrue(ticket.is_shared)

    def test_multiprocessing(self) -> None:
        self.cache.publish(KEY, FILES)
        self.begin(b"x" * 32).abandon()
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method), multiprocessing.get_context(method).Pool(2) as pool:
                self.assertEqual(pool.map(get_and_publish, [self.cache] * 4), [True] * 4)

    def test_a_cache_that_a_child_inherits(self) -> None:
        self.cache.publish(KEY, FILES)
        process = multiprocessing.get_context("fork").Process(target=get_and_publish, args=(self.cache,))
        process.start()
        process.join()
        self.assertEqual(process.exitcode, 0)


class EndTest(CacheTest):
    def holder(self) -> subprocess.Popen[str]:
        """Start a process that holds the ticket."""
        program = "ticket = cache.get_or_begin(KEY)\nsay('holds')\nsys.stdin.readline()\n"
        process = self.start(program)
        self.assert_says(process, "holds")
        return process

    def assert_begins(self, seconds: float, **arguments: float) -> None:
        """Check that a ticket is to be had within this time."""
        with at_most(seconds), self.open(**arguments).get_or_begin(KEY) as ticket:
            self.assertIsInstance(ticket, opkeep.Ticket)

    def test_an_interpreter_that_exits_frees_its_tickets(self) -> None:
        process = self.holder()
        process.communicate("\n")
        self.assert_begins(1)
        self.assertEqual(process.returncode, 0)

    def test_an_interpreter_that_exits_at_once_frees_its_tickets(self) -> None:
        process = self.start("ticket = cache.get_or_begin(KEY)\nsay('holds')\nos._exit(3)")
        self.assert_says(process, "holds")
        self.assert_begins(1)

    def test_a_killed_process_frees_its_tickets(self) -> None:
        process = self.holder()
        process.kill()
        self.assert_begins(1)

    def test_a_process_that_is_killed_while_others_wait(self) -> None:
        process = self.holder()
        waiter = self.start(
            "say('waits')\nclaim = cache.get_or_begin(KEY)\nsay(claim.is_shared)\nclaim.publish({'a': b'x'})"
        )
        self.assert_says(waiter, "waits")
        process.kill()
        with at_most(2):
            self.assert_says(waiter, "True")

    def test_a_stopped_process_keeps_others_waiting_until_it_is_stale(self) -> None:
        process = self.holder()
        process.send_signal(signal.SIGSTOP)
        self.addCleanup(process.send_signal, signal.SIGCONT)
        cache = self.open(stale_after=2.0)
        with at_most(10), self.assertLogs("opkeep"), cache.get_or_begin(KEY) as ticket:
            assert isinstance(ticket, opkeep.Ticket)
            self.assertIn("no heartbeat", str(ticket.unshared_reason))
            self.assertTrue(ticket.publish(FILES))
        self.assertIsNotNone(self.cache.get(KEY))

    def test_a_ticket_that_is_held_too_long_keeps_nobody_waiting(self) -> None:
        kept = self.open(hold_limit=0.5).get_or_begin(KEY)
        waiter = self.start(
            # Whatever the waiter holds for stale.
            "cache = opkeep.Cache(cache._arguments[0], 'cuda-sm_90', stale_after=1000.0)\n"
            "with cache.get_or_begin(KEY) as ticket: say(ticket.is_shared)"
        )
        with at_most(10):
            self.assert_says(waiter, "True")
        del kept

    @unittest.skipUnless(os.getuid() == 0, "needs root, to become another user")
    def test_a_store_of_another_user(self) -> None:
        Path(self.root).chmod(0o755)
        self.cache.publish(KEY, FILES)
        other = (
            "import logging; logging.basicConfig()\n"
            "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "other = opkeep.Cache(cache._arguments[0], 'cuda-sm_90')\n"
            "say(other.get(KEY))\n"
            "with other.get_or_begin(KEY) as ticket: say(ticket.publish({'a': b'x'}))\n"
            "try: opkeep.Cache(cache._arguments[0], 'cuda-sm_90', mode='require')\n"
            "except opkeep.StoreError as error: say('not trusted' in str(error) and 'require')\n"
        )
        process = self.start(other)
        output, errors = process.communicate()
        with self.subTest(errors):
            # Root is trusted: its kernels may be used, and nothing is written.
            self.assertIn(output.split(), [["None", "False"], ["None", "False", "require"]])
        # Another user's store is not used by root either.
        os.chown(self.root, 65534, 65534)
        for directory in Path(self.root).rglob("*"):
            os.chown(directory, 65534, 65534)
        with self.assertLogs("opkeep") as logs, self.open() as cache:
            self.assertEqual(dict(cache.get_or_build(KEY, lambda: {"a": b"x"})), {"a": b"x"})
        self.assertIn("not trusted", logs.output[0])
        self.assertEqual(
            self.open(trusted_owners=[65534]).get_or_build(KEY, lambda: {})["add.ptx"], FILES["add.ptx"]
        )
