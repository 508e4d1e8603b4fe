"""Hosts that share files through a remote cache, and the keys by which they trust each other. Each store is a host."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import warnings
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import opkeep
from helper import FILES, KEY, CacheTest, at_most, in_child, long_test, until
from remote_helper import HAS_REDIS, NO_REDIS, Held, Redis, Silent, closed_url, generate_key, shared_entries

LIMIT = 30
"""The seconds that a remote cache which does not work may cost here: the machine may be busy."""


class HostsTest(CacheTest):
    """A test with a directory that hosts share."""

    def setUp(self) -> None:
        environment = mock.patch.dict(os.environ)
        environment.start()
        self.addCleanup(environment.stop)
        for name in [name for name in os.environ if name.startswith("OPKEEP_")]:
            del os.environ[name]
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        os.environ["XDG_STATE_HOME"] = str(self.directory / "state")
        self.shared = self.directory / "shared"
        self.shared.mkdir()
        self.url = f"file://{self.shared}"
        super().setUp()

    def host(self, name: str, **arguments: object) -> opkeep.Cache:
        """Open the cache of a host."""
        arguments = {"remote": self.url, **arguments}
        cache = opkeep.Cache(self.directory / name, "cuda-sm_90", **arguments)  # type: ignore[arg-type]
        self.addCleanup(cache.close)
        return cache

    def builds(self, cache: opkeep.Cache, files: Mapping[str, bytes] = FILES, key: bytes = KEY) -> int:
        """Return how often the files of a key are made, which is once or never."""
        built: list[int] = []

        def build() -> Mapping[str, bytes]:
            built.append(1)
            return files

        found = cache.get_or_build(key, build)
        self.assertEqual(dict(found), dict(FILES) if not built else dict(files))
        return len(built)

    def start_host(self, name: str, program: str, url: str | None = None) -> subprocess.Popen[str]:
        """Start a program in a new interpreter. `cache` is the cache of a host there."""
        begin = f"cache = opkeep.Cache({str(self.directory / name)!r}, 'cuda-sm_90', remote={url or self.url!r})\n"
        return self.start(begin + program)

    def generate_key(self, name: str) -> str:
        """Write a secret key to the file `name`, and return its public key."""
        return generate_key(self.directory / name)


class ShareTest(HostsTest):
    def test_the_second_host_makes_nothing(self) -> None:
        with self.host("one") as one:
            self.assertEqual(self.builds(one), 1)
        self.assertEqual(self.builds(self.host("two")), 0)
        # The files are in the second host's own store now.
        self.assertEqual(self.builds(self.host("two", remote_mode="off")), 0)

    def test_files_of_this_host_stay_here(self) -> None:
        with self.host("one") as shared:
            self.assertEqual(self.builds(shared), 1)
        here = self.host("two", stays_here=True)
        # The receiver of a pickled cache opens it with the same settings.
        for number, cache in enumerate([here, pickle.loads(pickle.dumps(here))]):
            self.assertIsNone(cache.get(KEY), "not asked for")
            published, made = bytes([1, number]) * 16, bytes([2, number]) * 16
            cache.publish(published, FILES)
            self.assertEqual(self.builds(cache, key=made), 1)
            cache.close()
            other = self.host(f"three-{number}")
            self.assertEqual([other.get(published), other.get(made)], [None, None])

    def test_the_environment_names_the_remote_cache(self) -> None:
        os.environ.update(OPKEEP_REMOTE=self.url, OPKEEP_REMOTE_NAMESPACE="tests")
        with self.host("one", remote=None) as one:
            self.assertEqual(self.builds(one), 1)
        self.assertEqual(self.builds(self.host("two", remote=None)), 0)
        # Arguments go before the environment.
        self.assertEqual(self.builds(self.host("three", remote_namespace="others")), 1)
        self.assertEqual(self.builds(self.host("four", remote_mode="off")), 1)
        os.environ["OPKEEP_REMOTE_MODE"] = "off"
        self.assertEqual(self.builds(self.host("five")), 1)
        self.assertEqual(self.builds(self.host("six", remote_namespace="tests", remote_mode="read")), 0)

    def test_many_keys_at_once(self) -> None:
        keys = [bytes([number]) * 32 for number in range(20)]
        with self.host("one") as one:
            claims = one.get_or_begin_many(keys, max_tickets=19)
            tickets = [claim for claim in claims if isinstance(claim, opkeep.Ticket)]
            self.assertEqual((len(tickets), claims[-1]), (19, None))
            for ticket in tickets:
                ticket.publish(FILES)
        two = self.host("two")
        found = two.get_many(keys)
        self.assertEqual([dict(hit) if hit is not None else None for hit in found], [FILES] * 19 + [None])
        # No key is locked.
        self.assertEqual(self.builds(two, key=keys[-1]), 1)
        # The files are in the second host's own store now.
        self.assertNotIn(None, self.host("two", remote_mode="off").get_many(keys))
        with self.host("three", remote_mode="read") as three:
            hits = [three.get(keys[0]), three.get(keys[0])]
            self.assertEqual([hit is not None and hit.from_remote for hit in hits], [True, False])
            self.assertIsNone(three.get(b"x" * 32))

    def test_arguments_of_many_keys(self) -> None:
        for keys, number, kind in (
            (KEY, 1, opkeep.ArgumentError),
            ("00" * 32, 1, opkeep.ArgumentError),
            (3, 1, opkeep.ArgumentError),
            ([KEY, b"short"], 1, opkeep.InvalidKeyError),
            ([KEY, 3], 1, opkeep.ArgumentError),
            ([KEY], -1, opkeep.ArgumentValueError),
            ([KEY], "1", opkeep.ArgumentValueError),
        ):
            with self.subTest(keys=keys, number=number), self.assertRaises(kind):
                self.cache.get_or_begin_many(keys, max_tickets=number)  # type: ignore[arg-type]
        self.assertEqual(self.cache.get_or_begin_many([]), [])
        (ticket,) = self.cache.get_or_begin_many([KEY], max_tickets=1 << 70)
        assert isinstance(ticket, opkeep.Ticket)
        self.assertTrue(ticket.is_shared)

    def test_a_host_that_only_reads_sends_nothing(self) -> None:
        with self.host("one", remote_mode="read") as one:
            self.assertEqual(self.builds(one), 1)
        self.assertEqual([path for path in self.shared.rglob("*") if path.is_file()], [])

    def test_hosts_at_once_make_files_once(self) -> None:
        self.make_at_once(self.url)

    @unittest.skipUnless(HAS_REDIS, NO_REDIS)
    def test_hosts_at_once_make_files_once_with_redis(self) -> None:
        self.make_at_once(Redis(self).url)

    def make_at_once(self, url: str) -> None:
        program = (
            "sys.stdin.readline()\n"
            "def build():\n"
            "    open({made!r} + str(os.getpid()), 'w').close()\n"
            "    time.sleep(1)\n"
            "    return {files!r}\n"
            "say(sorted(cache.get_or_build(KEY, build)))\n"
        )
        made = self.directory / "made"
        made.mkdir()
        program = program.format(made=f"{made}/", files=FILES)
        hosts = [self.start_host(f"host-{number}", "say('ready')\n" + program, url) for number in range(4)]
        for host in hosts:
            self.assert_says(host, "ready")
        for host in hosts:
            assert host.stdin is not None
            host.stdin.write("\n")
            host.stdin.flush()
        for host in hosts:
            self.assert_says(host, "['add.json', 'add.ptx']")
        self.assertEqual(len(list(made.iterdir())), 1)

    @unittest.skipUnless(HAS_REDIS, NO_REDIS)
    def test_a_server_that_is_killed_costs_no_build(self) -> None:
        redis = Redis(self)
        one, two = self.host("one", remote=redis.url), self.host("two", remote=redis.url)
        self.assertEqual(self.builds(one), 1)
        one.close()
        self.assertEqual(self.builds(two), 0)
        redis.end()
        with self.assertLogs("opkeep", logging.WARNING), at_most(LIMIT):
            self.assertEqual(self.builds(two, key=bytes(32)), 1)
        self.assertEqual(self.builds(two, key=bytes(32)), 0)

    @long_test(0)
    @unittest.skipUnless(HAS_REDIS, NO_REDIS)
    def test_a_killed_host_is_taken_over_from(self) -> None:
        redis = Redis(self)
        program = "claim = cache.get_or_begin(KEY)\nsay(claim.is_shared)\nsys.stdin.readline()\n"
        holder = self.start_host("one", program, redis.url)
        self.assert_says(holder, "True")
        two = self.host("two", remote=redis.url)
        with self.assertRaises(opkeep.WaitTimeoutError):
            two.get_or_begin(KEY, timeout=1)
        holder.kill()
        # The holder's lease lives for 30 seconds, and no longer.
        with at_most(55), two.get_or_begin(KEY) as claim:
            assert isinstance(claim, opkeep.Ticket)
            self.assertTrue(claim.publish(FILES))
        two.close()
        self.assertEqual(self.builds(self.host("three", remote=redis.url)), 0)

    @unittest.skipUnless(HAS_REDIS, NO_REDIS)
    def test_an_interrupted_caller_keeps_no_other_host_waiting(self) -> None:
        redis = Redis(self)
        # Python loses a signal that comes just before a read waits, so it waits in short steps.
        program = "ticket = cache.get_or_begin(KEY)\nsay(ticket.is_shared)\nwhile True: time.sleep(0.05)\n"
        holder = self.start_host("one", program, redis.url)
        self.assert_says(holder, "True")
        holder.send_signal(signal.SIGINT)
        # It ends with a traceback, and gives its ticket back, also to other hosts.
        self.assert_ends(holder, -signal.SIGINT, LIMIT)
        with at_most(LIMIT - 5), self.host("two", remote=redis.url).get_or_begin(KEY) as claim:
            self.assertIsInstance(claim, opkeep.Ticket)

    @long_test(1)
    @unittest.skipUnless(HAS_REDIS, NO_REDIS)
    def test_what_a_killed_process_did_not_send_is_sent_by_the_next_one(self) -> None:
        redis = Redis(self)
        redis.process.send_signal(signal.SIGSTOP)
        program = "cache.get_or_build(KEY, lambda: %r)\nsay('made')\nsys.stdin.readline()\n" % FILES
        process = self.start_host("one", program, redis.url)
        with at_most(LIMIT):
            self.assert_says(process, "made")
        process.kill()
        process.wait()
        redis.process.send_signal(signal.SIGCONT)
        until(redis.answers, "an answer")
        # A process sends nothing while a busy machine stops for so long that the server seems to hang. The next one does.
        sends = "made = [key for key in (KEY, bytes(32)) if cache.get(key) is None and cache.publish(key, %r)]\n" % FILES
        for number in range(5):
            sender = self.start_host("one", sends + "say(len(made))", redis.url)
            self.assert_says(sender, "0" if number else "1")
            self.assert_ends(sender, 0, LIMIT)
            finds = "say([cache.get(key) == %r for key in (KEY, bytes(32))])" % FILES
            receiver = self.start_host(f"two-{number}", finds, redis.url)
            assert receiver.stdout is not None
            if receiver.stdout.readline() == "[True, True]\n":
                return
        self.fail("no process sent it")

    @long_test(2)
    @unittest.skipUnless(HAS_REDIS, NO_REDIS)
    def test_a_suspended_process_goes_on_with_its_remote_cache(self) -> None:
        redis = Redis(self)
        held = Held(self, redis)
        program = "cache.get_or_build(KEY, lambda: %r)\ncache.close()\nsay('made')" % FILES
        process = self.start_host("one", program, held.url)
        until(lambda: held.connections == 1, "a connection")
        process.send_signal(signal.SIGSTOP)
        # A server that is idle for two seconds hangs.
        time.sleep(3)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.2)
        held.release()
        self.assert_says(process, "made")
        self.assertEqual(self.builds(self.host("two", remote=redis.url)), 0)


class FaultTest(HostsTest):
    """Remote caches that do not work."""

    def test_one_that_is_not_there(self) -> None:
        with self.assertLogs("opkeep", logging.WARNING) as logs, at_most(LIMIT):
            with self.host("one", remote=closed_url()) as one:
                self.assertEqual([self.builds(one, key=bytes([n]) * 32) for n in range(5)], [1] * 5)
        self.assertIn("cannot be reached", logs.output[0])
        # The others are of three failures, after which it is left alone for a while.
        self.assertLessEqual(len(logs.output), 4)

    @long_test(1)
    def test_one_that_never_answers(self) -> None:
        silent = Silent(self)
        one = self.host("one", remote=silent.url)
        with self.assertLogs("opkeep", logging.WARNING), at_most(LIMIT):
            self.assertEqual(self.builds(one), 1)
        self.assertGreater(silent.connections, 0)
        connections = silent.connections
        with self.assertNoLogs("opkeep", logging.WARNING):
            self.assertEqual(self.builds(one), 0)
        self.assertEqual(silent.connections, connections)

    def test_a_hit_in_the_store_asks_for_nothing(self) -> None:
        silent = Silent(self)
        with self.host("one", remote_mode="off") as one:
            one.publish(KEY, FILES)
        with self.assertNoLogs("opkeep"), self.host("one", remote=silent.url) as one:
            self.assertEqual(self.builds(one), 0)
            self.assertIsNotNone(one.get(KEY))
        self.assertEqual(silent.connections, 0)

    def test_entries_that_are_wrong_are_not_used(self) -> None:
        with self.host("one") as one:
            one.get_or_build(KEY, lambda: FILES)
        (entry,) = shared_entries(self.shared)
        good = entry.read_bytes()
        with self.host("other") as other:
            other.get_or_build(bytes(32), lambda: {"evil": b"x"})
        (another,) = set(shared_entries(self.shared)) - {entry}
        changed = bytearray(good)
        changed[len(changed) // 2] ^= 1
        wrong = (b"", good[:-1], bytes(changed), b"not an entry", another.read_bytes())
        for number, content in enumerate(wrong):
            entry.write_bytes(content)
            with self.subTest(number), self.assertLogs("opkeep", logging.WARNING) as logs:
                with self.host(f"reader-{number}") as reader:
                    self.assertEqual(self.builds(reader), 1)
                self.assertEqual(len(logs.output), 1, logs.output)
                # The host that refused it has replaced it.
                self.assertEqual(self.builds(self.host(f"next-{number}")), 0)

    @long_test(2)
    def test_other_threads_run_while_a_server_is_waited_for(self) -> None:
        silent, counted, ends = Silent(self), [0], threading.Event()

        def count() -> None:
            while not ends.is_set():
                time.sleep(0.001)
                counted[0] += 1

        thread = threading.Thread(target=count)
        one = self.host("one", remote=silent.url)
        thread.start()
        begin = time.monotonic()
        with self.assertLogs("opkeep"):
            self.assertEqual(self.builds(one), 1)
        took = time.monotonic() - begin
        ends.set()
        thread.join()
        self.assertGreater(took, 0.5)
        # It counts 1000 times a second on an idle machine, and never while the interpreter is locked.
        self.assertGreater(counted[0], took * 10)

    def test_ctrl_c_ends_a_call_to_a_server(self) -> None:
        silent = Silent(self)
        one = self.host("one", remote=silent.url)

        def interrupt() -> None:
            until(lambda: silent.connections > 0, "a connection")
            signal.raise_signal(signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        begin = time.monotonic()
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            one.get_or_begin(KEY)
        # It is 0.15 s on an idle machine. Without it, the calls would take 10 seconds.
        self.assertLess(time.monotonic() - begin, 9)
        thread.join()
        # The key is free.
        with self.host("one", remote_mode="off").get_or_begin(KEY) as claim:
            assert isinstance(claim, opkeep.Ticket)
            self.assertTrue(claim.is_shared)

    def test_a_call_in_a_daemon_thread_does_not_keep_the_interpreter_from_its_exit(self) -> None:
        silent = Silent(self)
        program = (
            "import threading\n"
            "threading.Thread(target=cache.get_or_begin, args=(KEY,), daemon=True).start()\n"
            "sys.stdin.readline()\n"
        )
        process = self.start_host("one", program, silent.url)
        until(lambda: silent.connections > 0, "a connection")
        begin = time.monotonic()
        process.communicate("\n")
        self.assertEqual(process.returncode, 0)
        # The call would take 10 seconds.
        self.assertLess(time.monotonic() - begin, 9)

    @long_test(3)
    @unittest.skipUnless(HAS_REDIS, NO_REDIS)
    def test_an_exit_waits_for_a_stopped_server_for_a_few_seconds(self) -> None:
        redis = Redis(self)
        program = (
            "claim = cache.get_or_begin(KEY)\nsay('begun')\nsys.stdin.readline()\n"
            "claim.publish({'a': b'x'})\nbegin = time.monotonic()\n"
            # Registered later, so called earlier: the others are called between.
            "import atexit\natexit.register(say, 'ends')\n"
        )
        process = self.start_host("one", program, redis.url)
        self.assert_says(process, "begun")
        redis.process.send_signal(signal.SIGSTOP)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        self.assert_says(process, "ends")
        # 5 seconds, and the end of the interpreter: a limit that only an exit without an end breaks.
        self.assert_ends(process, 0, LIMIT)
        redis.process.send_signal(signal.SIGCONT)


class ProcessTest(HostsTest):
    def setUp(self) -> None:
        super().setUp()
        filters = warnings.catch_warnings()
        filters.__enter__()
        self.addCleanup(filters.__exit__, None, None, None)
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)

    @unittest.skipUnless(HAS_REDIS, NO_REDIS)
    def test_children_use_their_parents_cache(self) -> None:
        redis = Redis(self)
        with self.host("one", remote=redis.url) as one:
            one.get_or_build(KEY, lambda: FILES)
        # The parent has connections, and what it found.
        two = self.host("two", remote=redis.url)
        self.assertEqual(self.builds(two), 0)

        def child() -> None:
            assert self.builds(two, key=b"c" * 32) == 1
            two.close()

        in_child(child)
        self.assertEqual(self.builds(self.host("three", remote=redis.url), key=b"c" * 32), 0)
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method), multiprocessing.get_context(method).Pool(2) as pool:
                keys = [bytes([number]) * 32 for number in range(4)]
                self.assertEqual(pool.starmap(get_or_build, [(two, key) for key in keys]), [2] * 4)

    def test_a_cache_is_pickled_with_its_remote_cache(self) -> None:
        one = self.host("one", remote_namespace="tests")
        with pickle.loads(pickle.dumps(one)) as again:
            self.assertEqual(self.builds(again), 1)
        self.assertEqual(self.builds(self.host("two", remote_namespace="tests")), 0)

    def test_threads_share_one_remote_cache(self) -> None:
        barrier = threading.Barrier(8)
        built: list[int] = []

        def build() -> dict[str, bytes]:
            built.append(1)
            time.sleep(0.2)
            return FILES

        def get(number: int) -> None:
            with self.host(f"host-{number}") as cache:
                barrier.wait()
                cache.get_or_build(KEY, build)

        threads = [threading.Thread(target=get, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(built), 1)


def get_or_build(cache: opkeep.Cache, key: bytes) -> int:
    """Use the cache in a child of multiprocessing."""
    return len(cache.get_or_build(key, lambda: FILES))


class SharedClientTest(HostsTest):
    """Caches with settings that mean the same share one client. So the failures of one count for the other: after three, none of
    them makes calls for a while."""

    def warns(self, name: str, url: str | None) -> bool:
        """Whether a new cache of a host calls the engine, which is not there."""
        arguments = {} if url is None else {"remote": url}
        cache = opkeep.Cache(self.directory / name, "cuda-sm_90", **arguments)  # type: ignore[arg-type]
        self.addCleanup(cache.close)
        with self.assertLogs("opkeep") as logs:
            logging.getLogger("opkeep").info("a record")
            for number in range(3):
                cache.get(bytes([number]) * 32)
        # A cache that finds the client paused makes no call, and says so with the reason of the pause.
        is_paused = [line for line in logs.output if "the remote cache is not used: " in line]
        calls = [line for line in logs.output if "cannot be reached" in line and line not in is_paused]
        self.assertTrue(bool(is_paused) != bool(calls), logs.output)
        return bool(calls)

    def test_variables_that_do_not_matter_change_nothing(self) -> None:
        url = closed_url()
        self.assertTrue(self.warns("one", url))
        for number, name in enumerate(("OPKEEP_CACHE_DIR", "OPKEEP_SIGN", "XDG_CONFIG_HOME", "AWS_REGION", "HOME")):
            os.environ[name] = str(self.directory / f"other-{number}")
            self.assertFalse(self.warns(f"host-{number}", url), name)
        # Nor does it matter where the URL is from.
        os.environ["OPKEEP_REMOTE"] = url
        self.assertFalse(self.warns("environment", None))
        # What a server receives does.
        os.environ["OPKEEP_REMOTE_NAMESPACE"] = "other"
        self.assertTrue(self.warns("namespace", url))


class TrustTest(HostsTest):
    def setUp(self) -> None:
        super().setUp()
        self.keys = {name: self.generate_key(name) for name in ("one", "two")}

    def test_only_what_a_trusted_key_signed_is_used(self) -> None:
        signs = {"sign_key": self.directory / "one", "trusted_keys": [self.keys["one"]]}
        with self.host("first", **signs) as first:
            self.assertEqual(self.builds(first), 1)
            # What it made is a hit, and so is what another process of the host made.
            self.assertEqual(self.builds(first), 0)
        self.assertEqual(self.builds(self.host("first", **signs)), 0)
        self.assertEqual(self.builds(self.host("second", trusted_keys=list(self.keys.values()))), 0)
        self.assertEqual(self.builds(self.host("third", trusted_keys=self.keys["two"])), 1)
        os.environ["OPKEEP_TRUSTED_KEYS"] = self.keys["two"]
        self.assertEqual(self.builds(self.host("fourth")), 1)

    def test_a_forged_entry_is_refused(self) -> None:
        with self.host("first", sign_key=self.directory / "two") as first:
            self.assertEqual(self.builds(first, {"evil": b"x"}), 1)
        (entry,) = shared_entries(self.shared)
        with self.host("signs", sign_key=self.directory / "one", remote_namespace="other") as signs:
            self.assertEqual(self.builds(signs), 1)
        (named,) = set(shared_entries(self.shared)) - {entry}
        # Under the name that the trusted signer's has.
        forged = self.shared / "v1/default" / named.relative_to(self.shared / "v1/other")
        forged.parent.mkdir()
        forged.write_bytes(entry.read_bytes())
        with self.assertLogs("opkeep", logging.WARNING) as logs, self.host("reader", trusted_keys=self.keys["one"]) as reader:
            self.assertEqual(self.builds(reader), 1)
        self.assertIn("is not trusted", logs.output[0])

    def test_an_unsigned_entry_of_a_shared_store_is_not_used(self) -> None:
        with self.host("store", remote_mode="off") as one:
            one.publish(KEY, {"evil": b"x"})
        with self.assertLogs("opkeep"), self.host("store", remote_mode="off", trusted_keys=self.keys["one"]) as one:
            self.assertIsNone(one.get(KEY))
            self.assertEqual(self.builds(one), 1)


class SettingsTest(HostsTest):
    SECRET = "hunter2"

    def test_settings_that_are_not_valid(self) -> None:
        key_text = "one:"
        self.generate_key("key")
        key_text = (self.directory / "key").read_text()
        os.chmod(self.directory / "key", 0o644)
        public = self.generate_key("other")
        cases: list[tuple[dict[str, object], str]] = [
            ({"remote": f"redis://user:{self.SECRET}@host:99999"}, "^remote: "),
            ({"remote": f"ftp://user:{self.SECRET}@host/"}, "^remote: "),
            ({"remote": self.SECRET}, "^remote: "),
            ({"remote": ""}, "^remote: "),
            ({"remote_mode": "write"}, "^remote_mode.*off, read or read-write"),
            ({"remote_namespace": "a b"}, "^remote_namespace.*letters, digits"),
            ({"sign_key": self.directory / "key"}, "^sign_key: "),
            ({"sign_key": self.directory / "missing"}, "^sign_key: .*missing"),
            ({"sign_key": key_text}, "^sign_key: "),
            ({"trusted_keys": "nothing"}, "^trusted_keys: "),
            ({"trusted_keys": []}, "^trusted_keys: "),
            ({"trusted_keys": key_text}, "^trusted_keys: "),
            ({"trusted_keys": [public, key_text.strip()]}, "^trusted_keys: "),
            ({"trusted_keys": f"@{self.directory}/none"}, "^trusted_keys: .*none"),
        ]
        secret = key_text.strip().partition(":")[2]
        self.assertGreater(len(secret), 40)
        for arguments, text in cases:
            with self.subTest(**{name: str(value)[:30] for name, value in arguments.items()}):
                with self.assertRaisesRegex(opkeep.SettingsError, text) as raised:
                    self.host("one", **arguments)
                self.assertIsInstance(raised.exception, ValueError)
                for shown in (str(raised.exception), repr(raised.exception), *raised.exception.help):
                    self.assertNotIn(self.SECRET, shown)
                    self.assertNotIn(secret[:20], shown)
                # The same in the environment, where an empty variable counts as unset.
                ((name, value),) = arguments.items()
                if not value:
                    continue
                variable = f"OPKEEP_{name.upper()}"
                content = " ".join(map(str, value)) if isinstance(value, list) else str(value)
                with mock.patch.dict(os.environ, {"OPKEEP_REMOTE": self.url, variable: content}):
                    with self.assertRaisesRegex(opkeep.SettingsError, f"^{variable}( is|:) ") as named:
                        self.host("one", remote=None)
                    self.assertNotIn(self.SECRET, str(named.exception))
                    self.assertNotIn(secret[:20], str(named.exception))

    def test_variables_that_are_no_arguments(self) -> None:
        os.environ["OPKEEP_REMOTE_HEADERS"] = f"no header {self.SECRET}"
        with self.assertRaisesRegex(opkeep.SettingsError, "^OPKEEP_REMOTE_HEADERS") as raised:
            self.host("one", remote="grpc://127.0.0.1:1")
        self.assertNotIn(self.SECRET, str(raised.exception))

    def test_arguments_of_other_types(self) -> None:
        for argument, value in (
            ("remote", 3),
            ("remote", b"file:///x"),
            ("remote_mode", True),
            ("remote_namespace", 1.0),
            ("sign_key", 3),
            ("trusted_keys", 3),
            ("trusted_keys", [b"key"]),
        ):
            with self.subTest(argument, value=value), self.assertRaisesRegex(opkeep.ArgumentError, f"^{argument}: expected"):
                self.host("one", **{argument: value})

    def test_no_text_shows_a_password(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"redis://user:{self.SECRET}@127.0.0.1:{free.getsockname()[1]}"
        with self.assertLogs("opkeep", logging.DEBUG) as logs, self.host("one", remote=url) as one:
            self.assertEqual(self.builds(one), 1)
            self.assertNotIn(self.SECRET, repr(one))
        self.assertNotIn(self.SECRET, "\n".join(logs.output))
