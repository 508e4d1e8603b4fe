"""The cache: hits, tickets, bad arguments."""

from __future__ import annotations

import array
import hashlib
import logging
import mmap
import os
import pickle
import sys
import traceback
import unittest
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args
from unittest import mock

import opkeep
import opkeep.cache
from helper import FILES, KEY, CacheTest, in_child

MODE = Literal["enable", "force", "disable", "read-only", "require"]


class CallsTest(CacheTest):
    def test_a_miss_is_published_and_becomes_a_hit(self) -> None:
        self.assertIsNone(self.cache.get(KEY))
        ticket = self.begin()
        self.assertTrue(ticket.is_held and ticket.is_shared)
        self.assertIsNone(ticket.unshared_reason)
        self.assertTrue(ticket.publish(FILES, kernel="add", framework_version="3.9.0", compile_time=2.5))
        self.assertFalse(ticket.is_held)
        hit = self.cache.get_or_begin(KEY)
        assert isinstance(hit, opkeep.Hit)
        self.assertEqual(dict(hit), FILES)
        self.assertEqual(list(hit), list(FILES))
        self.assertEqual((hit.kernel, hit.framework_version, hit.compile_time), ("add", "3.9.0", 2.5))
        self.assertEqual((hit.framework, hit.target, hit.waited), ("python", "cuda-sm_90", False))
        self.assertEqual(hit.key, ticket.key)
        self.assertEqual(len(hit), 2)
        self.assertIn("add.ptx", hit)
        self.assertNotIn("add.cubin", hit)
        self.assertNotIn(1, hit)
        for missing in (lambda: hit["add.cubin"], lambda: hit.digest("add.cubin")):
            self.assertRaises(KeyError, missing)
        self.assertIn("add.ptx", repr(hit))
        self.assertIn("cuda-sm_90", repr(self.cache))

    def test_a_key_is_bytes_or_digits(self) -> None:
        self.cache.publish(KEY, FILES)
        self.assertIsNotNone(self.cache.get(KEY.hex()))
        self.assertIsNotNone(self.cache.get(KEY.hex().upper()))

    def test_name_framework_and_target_tell_groups_apart(self) -> None:
        self.cache.publish(KEY, FILES, name="launcher")
        self.assertIsNotNone(self.cache.get(KEY, name="launcher"))
        self.assertIsNone(self.cache.get(KEY))
        self.assertIsNone(self.open(framework="other").get(KEY, name="launcher"))
        self.assertIsNone(opkeep.Cache(self.root, "cuda-sm_80").get(KEY, name="launcher"))

    def test_a_root_may_be_a_path(self) -> None:
        self.cache.publish(KEY, FILES)
        self.assertIsNotNone(opkeep.Cache(Path(self.root), "cuda-sm_90").get(KEY))

    def test_any_buffer_can_be_published(self) -> None:
        with mmap.mmap(-1, 4) as mapped:
            mapped[:] = b"mmap"
            files: OrderedDict[str, Any] = OrderedDict(
                bytes=b"bytes",
                bytearray=bytearray(b"bytearray"),
                view=memoryview(b"a view")[2:],
                strided=memoryview(b"s_t_r_")[::2],
                array=array.array("I", [1, 2]),
                mmap=mapped,
            )
            self.cache.publish(KEY, files)
        hit = self.cache.get(KEY)
        assert hit is not None
        self.assertEqual(hit["view"], b"view")
        self.assertEqual(hit["strided"], b"str")
        self.assertEqual(hit["array"], array.array("I", [1, 2]).tobytes())
        self.assertEqual((hit["bytes"], hit["bytearray"], hit["mmap"]), (b"bytes", b"bytearray", b"mmap"))

    def test_each_access_returns_the_same_object(self) -> None:
        self.cache.publish(KEY, FILES)
        hit = self.cache.get(KEY)
        assert hit is not None
        first = {name: hit[name] for name in hit}
        self.assertEqual(first, FILES)
        for name, content in first.items():
            self.assertIs(hit[name], content)
        # The object outlives the hit.
        hit.close()
        del hit
        self.assertEqual(first, FILES)

    def test_the_toolchain_is_part_of_the_key(self) -> None:
        def part(content: bytes, note: str) -> list[tuple[str, bytes, str]]:
            return [("ptxas", hashlib.sha256(content).digest(), note)]

        older = self.open(toolchain=part(b"12.8", "12.8"))
        older.publish(KEY, FILES, kernel="add")
        newer = self.open(toolchain=part(b"12.9", "12.9"))
        self.assertIsNotNone(pickle.loads(pickle.dumps(older)).get(KEY))
        self.assertIsNone(newer.get(KEY))
        self.assertIsNone(self.cache.get(KEY))
        # A note is not part of it.
        self.assertIsNotNone(self.open(toolchain=part(b"12.8", "")).get(KEY))
        newer.publish(KEY, FILES, kernel="add")
        groups = opkeep.explain(framework="python", kernel="add", cache_dir=self.root)["groups"]
        differences = {difference for group in groups for difference in group["differences"]}
        self.assertIn(differences, ({"`ptxas` changed: 12.8 -> 12.9"}, {"`ptxas` changed: 12.9 -> 12.8"}))

    def test_get_or_build_builds_once(self) -> None:
        calls: list[int] = []

        def build() -> dict[str, bytes]:
            calls.append(1)
            return FILES

        for _ in range(3):
            self.assertEqual(dict(self.cache.get_or_build(KEY, build)), FILES)
        self.assertEqual(len(calls), 1)

    def test_a_build_that_raises_frees_the_key(self) -> None:
        def fail() -> dict[str, bytes]:
            raise ZeroDivisionError("line 3")

        def interrupt() -> dict[str, bytes]:
            raise KeyboardInterrupt

        kept = []
        for build, kind in ((fail, ZeroDivisionError), (interrupt, KeyboardInterrupt)):
            with self.assertRaises(kind) as raised:
                self.cache.get_or_build(KEY, build)
            # An exception keeps its frames, and these keep the ticket.
            kept.append(raised.exception)
            other = self.open().get_or_begin(KEY, timeout=5)
            assert isinstance(other, opkeep.Ticket)
            self.assertTrue(other.is_shared)
            other.abandon()

    def test_a_build_is_not_lost_when_the_store_cannot_be_written(self) -> None:
        error = opkeep.StoreError("the disk is full")
        with (
            mock.patch.object(opkeep.Ticket, "publish", side_effect=error),
            self.assertLogs("opkeep") as logs,
        ):
            self.assertEqual(self.cache.get_or_build(KEY, lambda: FILES), FILES)
        self.assertEqual(
            logs.output, ["WARNING:opkeep:the files that were made are not kept: the disk is full"]
        )

    def test_a_build_is_not_lost_when_its_files_cannot_be_stored(self) -> None:
        with mmap.mmap(-1, (1 << 30) + 1) as mapped:
            for files, text in (
                ({"a": b"x", "b": b""}, "`b` is empty"),
                ({"a/b": b"x"}, "a/b"),
                ({f"f{number}": b"x" for number in range(61)}, "at most 60"),
                ({"a": mapped}, "1073741825 bytes"),
            ):
                with self.subTest(text), self.assertLogs("opkeep") as logs:
                    self.assertIs(self.cache.get_or_build(KEY, lambda: files), files)
                self.assertRegex(logs.output[-1], f"^WARNING:opkeep:the files that were made are not kept: .*{text}")
        # The key is free.
        with self.open().get_or_begin(KEY, timeout=5) as ticket:
            assert isinstance(ticket, opkeep.Ticket)
            self.assertTrue(ticket.is_shared)
        self.assertIsNone(self.cache.get(KEY))
        # What is no mapping of names and bytes is no result at all.
        for wrong, text in (
            (None, "the result of build: expected a mapping of names and bytes, found `NoneType`"),
            ({"a": None}, "the result of build: expected bytes, .*, found `NoneType`"),
            ({1: b""}, "the result of build: expected a name that is a text, found `int`"),
        ):
            with self.assertRaisesRegex(opkeep.ArgumentError, text):
                self.cache.get_or_build(KEY, lambda: wrong)  # type: ignore[arg-type, return-value]

    def test_a_ticket_is_a_context_manager(self) -> None:
        with self.assertRaises(ZeroDivisionError), self.begin() as ticket:
            raise ZeroDivisionError
        self.assertFalse(ticket.is_held)
        with self.begin() as ticket:
            pass
        self.assertFalse(ticket.is_held)
        with self.begin() as ticket:
            ticket.publish(FILES)
        with self.cache.get_or_begin(KEY) as hit:
            assert isinstance(hit, opkeep.Hit)
            self.assertEqual(hit["add.ptx"], FILES["add.ptx"])
        self.assertRaises(opkeep.ClosedError, lambda: hit["add.ptx"])
        self.assertIn("closed", repr(hit))

    def test_a_ticket_that_is_dropped_frees_the_key(self) -> None:
        self.begin()
        with self.begin() as ticket:
            self.assertTrue(ticket.is_shared)

    def test_without_waiting_a_ticket_is_unshared(self) -> None:
        with self.begin():
            other = self.open().get_or_begin(KEY, wait=False)
            assert isinstance(other, opkeep.Ticket)
            self.assertFalse(other.is_shared)
            self.assertIn("another caller", str(other.unshared_reason))

    def test_modes(self) -> None:
        disabled = self.open(mode="disable")
        self.assertFalse(disabled.publish(KEY, FILES))
        with disabled.get_or_begin(KEY) as ticket:
            assert isinstance(ticket, opkeep.Ticket)
            self.assertFalse(ticket.is_shared)
            self.assertFalse(ticket.publish(FILES))
        with self.assertRaisesRegex(opkeep.NotCachedError, "forbids building") as missing:
            self.open(mode="require").get_or_begin(KEY)
        # The store is as it should be.
        self.assertNotIsInstance(missing.exception, opkeep.StoreError)
        self.assertIsInstance(missing.exception, LookupError)
        self.assertIn('mode="enable"', missing.exception.help[0])
        for mode in ("require", "read-only"):
            with self.assertRaisesRegex(opkeep.StoreError, "there is no store") as no_store:
                opkeep.Cache(f"{self.root}/none", "cuda-sm_90", mode=mode)
            self.assertIn("creates the store", no_store.exception.help[0])
        self.cache.publish(KEY, FILES)
        self.assertIsNotNone(self.open(mode="require").get(KEY))
        self.assertIsNotNone(self.open(mode="read-only").get(KEY))

    def test_each_mode_reads_and_writes(self) -> None:
        """What `get` finds, what the files are that `get_or_build` returns, and what is found afterwards: here, and by
        others. Each mode with files that are stored, and with none."""
        old, new = {"a": b"of an earlier run"}, {"a": b"of this run"}
        cases: dict[str, tuple[list[object], list[object]]] = {
            "enable": ([old, old, old, old], [None, new, new, new]),
            "force": ([None, new, new, new], [None, new, new, new]),
            "disable": ([None, new, None, old], [None, new, None, None]),
            "read-only": ([old, old, old, old], [None, new, None, None]),
            "require": ([old, old, old, old], [None, opkeep.NotCachedError, None, None]),
        }
        self.assertEqual(sorted(cases), sorted(get_args(MODE)))

        def found(cache: opkeep.Cache, key: bytes) -> object:
            hit = cache.get(key)
            return None if hit is None else dict(hit)

        for mode, expected in cases.items():
            for stored, values in zip((True, False), expected):
                key = os.urandom(32)
                if stored:
                    self.cache.publish(key, old)
                cache = self.open(mode=mode)
                values_found = [found(cache, key)]
                try:
                    values_found.append(dict(cache.get_or_build(key, lambda: new)))
                except opkeep.Error as error:
                    values_found.append(type(error))
                values_found += [found(cache, key), found(self.open(), key)]
                with self.subTest(mode=mode, stored=stored):
                    self.assertEqual(values_found, values)

    def test_with_force_each_process_makes_all_once(self) -> None:
        program = (
            "cache = opkeep.Cache(cache._arguments[0], 'cuda-sm_90', mode='force')\n"
            "def build(): say('builds'); return {'a': sys.argv[1].encode()}\n"
            "for _ in range(2): say(bytes(cache.get_or_build(KEY, build)['a']).decode())"
        )
        for text in ("one", "two"):
            output, errors = self.start(program, text).communicate()
            self.assertEqual((output.split(), errors), (["builds", text, text], ""))

    def test_a_cache_can_be_pickled(self) -> None:
        self.cache.publish(KEY, FILES)
        self.assertIsNotNone(pickle.loads(pickle.dumps(self.cache)).get(KEY))
        self.assertRaises(TypeError, pickle.dumps, self.begin(bytes(32)))

    def test_a_pickle_is_that_of_earlier_releases(self) -> None:
        self.cache.publish(KEY, FILES)
        arguments = (self.root, "cuda-sm_90", "python", "enable", (), 30.0, 3600.0, (), False)
        # A call of this function with these arguments.
        earlier = b"copkeep.cache\n_open_again\n" + pickle.dumps((arguments, (None,) * 5), 0)[:-1] + b"R."
        self.assertIsNotNone(pickle.loads(earlier).get(KEY))
        self.assertEqual(self.cache.__reduce__(), (opkeep.cache._open_again, (arguments, (None,) * 5)))
        self.assertIn(b"copkeep.cache\n_open_again\n", pickle.dumps(self.cache, 0))

    def test_counts_are_written(self) -> None:
        with self.cache as cache:
            cache.publish(KEY, FILES)
            cache.get(KEY)
        statistics = opkeep.stats(cache_dir=self.root)["targets"][0]["statistics"]
        self.assertEqual((statistics["hits"], statistics["puts"]), (1, 1))

    def test_a_ticket_of_a_parent_process_is_shown_as_such(self) -> None:
        with self.begin() as ticket:
            parent = os.getpid()

            def check() -> None:
                assert f"of process {parent}" in repr(ticket), repr(ticket)

            in_child(check)
            self.assertIn("held", repr(ticket))

    def test_home_is_written_as_in_a_shell(self) -> None:
        with mock.patch.dict(os.environ, {"HOME": self.root}):
            opkeep.Cache("~/own", "cuda-sm_90").publish(KEY, FILES)
            self.assertTrue(Path(self.root, "own").is_dir())
            self.assertEqual(opkeep.stats(cache_dir="~/own")["targets"][0]["store"]["kernels"], 1)
            self.assertEqual(opkeep.verify("~/own")["checked"], 1)


class BadInputTest(CacheTest):
    def test_keys(self) -> None:
        for key in (b"", b"x" * 31, b"x" * 33, "", "1" * 63, "1" * 65, "g" * 64, "\ud800", "é" * 64):
            for call in (self.cache.get, self.cache.get_or_begin):
                with self.assertRaisesRegex(
                    opkeep.InvalidKeyError, "32 bytes, or 64 hexadecimal digits; found"
                ):
                    call(key)
        for wrong in (None, 7, bytearray(32), ["1"]):
            with self.assertRaisesRegex(opkeep.ArgumentError, "key: expected 32 bytes"):
                self.cache.get(wrong)  # type: ignore[arg-type]
        with self.assertRaisesRegex(opkeep.ArgumentError, "32 bytes") as raised:
            self.cache.get(hashlib.sha256(b"source"))  # type: ignore[arg-type]
        self.assertIn("digest()", raised.exception.help[0])

    def test_hits_are_mappings_of_texts(self) -> None:
        self.cache.publish(KEY, FILES)
        hit: Any = self.cache.get(KEY)
        for wrong in (3, None, b"add.ptx", "\ud800"):
            for call in (lambda: hit[wrong], lambda: hit.digest(wrong)):
                self.assertRaises(KeyError, call)
            self.assertIsNone(hit.get(wrong))

    def test_hits_and_tickets_come_from_a_cache(self) -> None:
        for kind in (opkeep.Hit, opkeep.Ticket):
            for wrong in (None, 3, object()):
                with self.assertRaisesRegex(opkeep.ArgumentError, "cannot be created") as raised:
                    kind(wrong)  # type: ignore[arg-type]
                self.assertIn("Cache.get_or_begin", raised.exception.help[0])

    def test_texts_for_reports(self) -> None:
        long = "a" * 4097
        part = [("cc", bytes(32), long)]
        cache: Any = self.cache
        with self.begin(bytes(32)) as ticket:
            for call, text in (
                (lambda: cache.publish(KEY, FILES, kernel=long), "the name of the kernel has 4097 bytes"),
                (lambda: ticket.publish(FILES, framework_version=long), "the release of the framework has 4097"),
                (lambda: cache.publish(KEY, FILES, name=long), "the name of the group has 4097 bytes"),
                (lambda: cache.get_or_begin(KEY, name=long), "the name of the group has 4097 bytes"),
                (lambda: self.open(toolchain=part).get_or_begin(KEY), "the note of a compiler has 4097 bytes"),
            ):
                with self.subTest(text), self.assertRaisesRegex(opkeep.ArgumentValueError, text):
                    call()
            self.assertTrue(ticket.is_held)
        self.assertTrue(cache.publish(KEY, FILES, kernel=long[1:], name=long[1:]))
        self.assertEqual(len(opkeep.stats(cache_dir=self.root, by="kernel")["targets"][0]["contents"]), 1)

    def test_files(self) -> None:
        cases: list[tuple[Any, type[opkeep.Error], str]] = [
            ({}, opkeep.InvalidFilesError, "at least one file"),
            ({"a": b""}, opkeep.InvalidFilesError, "`a` is empty"),
            ({f"f{number}": b"x" for number in range(100)}, opkeep.InvalidFilesError, "at most"),
            ({"a/b": b"x"}, opkeep.InvalidNameError, "a/b"),
            ({"..": b"x"}, opkeep.InvalidNameError, "without a directory"),
            ({"/a": b"x"}, opkeep.InvalidNameError, ""),
            ({"a\0b": b"x"}, opkeep.InvalidNameError, ""),
            ({"": b"x"}, opkeep.InvalidNameError, ""),
            ({"\ud800": b"x"}, opkeep.InvalidNameError, ""),
            ({"a" * 201: b"x"}, opkeep.InvalidNameError, ""),
            ({1: b"x"}, opkeep.ArgumentError, "a name that is a text, found `int`"),
            ({"a": "text"}, opkeep.ArgumentError, "an object with a buffer|with a buffer, found `str`"),
            ({"a": None}, opkeep.ArgumentError, "found `NoneType`"),
            ([("a", b"x")], opkeep.ArgumentError, "files: expected a mapping"),
            (None, opkeep.ArgumentError, "files: expected a mapping"),
        ]
        with self.begin() as ticket:
            for files, kind, text in cases:
                for publish in (ticket.publish, lambda files: self.cache.publish(KEY, files)):
                    with self.subTest(files=str(files)[:40]), self.assertRaisesRegex(kind, text):
                        publish(files)
            # Nothing was published, and the ticket is still held.
            self.assertTrue(ticket.is_held)
            self.assertIsNone(self.cache.get(KEY))

    def test_files_of_more_than_an_entry_may_have(self) -> None:
        # Pages that are not written take no memory.
        with mmap.mmap(-1, (1 << 30) + 1) as mapped, self.begin() as ticket:
            with self.assertRaisesRegex(opkeep.TooLargeError, "1073741825 bytes"):
                ticket.publish({"a": mapped})
            half = bytes(1 << 29)
            with self.assertRaisesRegex(opkeep.TooLargeError, "1073741824 bytes"):
                ticket.publish({"a": half, "b": half})
            self.assertTrue(ticket.is_held)

    def test_a_mapping_that_raises(self) -> None:
        class Broken(dict[str, bytes]):
            def items(self) -> Any:
                raise ZeroDivisionError

        with self.begin() as ticket:
            self.assertRaises(ZeroDivisionError, ticket.publish, Broken(a=b"x"))
            self.assertTrue(ticket.is_held)

    def test_settings(self) -> None:
        for target in ("", "a/b", ".hidden", "x" * 101, "é"):
            with self.assertRaises(opkeep.InvalidNameError):
                opkeep.Cache(self.root, target)
            with self.assertRaises(opkeep.InvalidNameError):
                self.open(framework=target)
        digest = bytes(32)
        cases: list[tuple[dict[str, Any], type[Exception], str]] = [
            ({"root": 7}, TypeError, "root: expected a path, found `int`"),
            ({"root": ""}, ValueError, "root: expected a path, found an empty text"),
            ({"root": "a\0b"}, ValueError, r"root: expected a path, found one with a byte 0: 'a\\x00b'"),
            ({"target": 1}, TypeError, "target: expected a text, found `int`"),
            ({"framework": None}, TypeError, "framework: expected a text, found `NoneType`"),
            ({"mode": 3}, TypeError, "mode: expected a text, found `int`"),
            ({"mode": "on"}, ValueError, "mode: `on` .*: expected enable, force, disable, read-only or require"),
            ({"trusted_owners": 5}, TypeError, "trusted_owners: expected IDs of users, found `int`"),
            ({"trusted_owners": ["me"]}, TypeError, "trusted_owners: expected IDs of users, found `str`"),
            ({"trusted_owners": [-1]}, ValueError, "trusted_owners: expected IDs of users, found -1"),
            ({"trusted_owners": [1 << 32]}, ValueError, "trusted_owners: .* found 4294967296"),
            ({"stale_after": "long"}, TypeError, "stale_after: expected a number of seconds, found `str`"),
            ({"hold_limit": None}, TypeError, "hold_limit: expected a number of seconds, found `NoneType`"),
            ({"hold_limit": -1}, ValueError, "hold_limit: expected 0 seconds or more, found -1"),
            ({"toolchain": 3}, TypeError, "toolchain: expected tuples of .*, found `int`"),
            ({"toolchain": [("ptxas", digest)]}, TypeError, "toolchain: expected tuples of .*, found `tuple`"),
            ({"toolchain": [("ptxas", "d", "")]}, TypeError, "toolchain: expected tuples of .*, found `str`"),
            ({"toolchain": [("ptxas", b"d", "")]}, ValueError, "toolchain: .*, found one of 1 byte"),
            ({"toolchain": [(3, digest, "")]}, TypeError, "toolchain: expected a text, found `int`"),
        ]
        for wrong, kind, text in cases:
            arguments: dict[str, Any] = {"root": self.root, "target": "cuda-sm_90", **wrong}
            with self.subTest(wrong), self.assertRaisesRegex(opkeep.ArgumentError, text) as raised:
                opkeep.Cache(**arguments)
            self.assertIsInstance(raised.exception, kind)
            self.assertEqual(isinstance(raised.exception, ValueError), kind is ValueError)

    def test_arguments_of_calls(self) -> None:
        cache: Any = self.cache
        ticket: Any = self.begin(bytes(32))
        calls: list[tuple[Callable[[], object], str]] = [
            (lambda: cache.get(KEY, name=3), "name: expected a text, found `int`"),
            (lambda: cache.get_or_begin(KEY, name=None), "name: expected a text, found `NoneType`"),
            (lambda: cache.get_or_begin(KEY, timeout="x"), "timeout: expected a number of seconds, found `str`"),
            (lambda: cache.get_or_begin(KEY, wait="no"), "wait: expected True or False, found `str`"),
            (lambda: cache.get_or_build(KEY, 3), "build: expected a function, found `int`"),
            (lambda: cache.get_or_build(KEY, lambda: 3), "the result of build: expected a mapping .*, found `int`"),
            (lambda: cache.publish(KEY, FILES, name=b"x"), "name: expected a text, found `bytes`"),
            (lambda: ticket.publish(FILES, kernel=3), "kernel: expected a text, found `int`"),
            (lambda: ticket.publish(FILES, framework_version=3), "framework_version: expected a text, found `int`"),
            (lambda: ticket.publish(FILES, compile_time="x"), "compile_time: .*, found `str`"),
            (lambda: ticket.abandon(3), "reason: expected a text, found `int`"),
        ]
        for call, text in calls:
            with self.subTest(text), self.assertRaisesRegex(opkeep.ArgumentError, text):
                call()
        self.assertTrue(ticket.is_held)
        with self.assertRaisesRegex(opkeep.InvalidNameError, "name: expected a text that is valid Unicode"):
            cache.get(KEY, name="\ud800")

    def test_exceptions_say_what_to_do(self) -> None:
        ticket = self.begin()
        ticket.abandon()
        self.cache.close()
        for call in (lambda: ticket.publish(FILES), lambda: self.cache.get(KEY)):
            with self.assertRaises(opkeep.Error) as raised:
                call()
            self.assertTrue(raised.exception.help, raised.exception)
            # A traceback shows notes, with Python 3.11 and later.
            copy = pickle.loads(pickle.dumps(raised.exception))
            for error in (raised.exception, copy):
                self.assertEqual(error.__notes__, [f"help: {text}" for text in error.help])
                shown = "".join(traceback.format_exception(error))
                self.assertEqual(f"\nhelp: {error.help[0]}\n" in shown, sys.version_info >= (3, 11))

    def test_times(self) -> None:
        for timeout in (-1.0, float("nan")):
            with self.assertRaisesRegex(opkeep.ArgumentValueError, "timeout: expected 0 seconds or more"):
                self.cache.get_or_begin(KEY, timeout=timeout)
        with self.assertRaises(TypeError):
            self.cache.get_or_begin(KEY, timeout="long")  # type: ignore[arg-type]
        for timeout in (1e300, float("inf"), 0):
            with self.cache.get_or_begin(KEY, timeout=timeout) as ticket:
                self.assertIsInstance(ticket, opkeep.Ticket)

    def test_use_after_the_end(self) -> None:
        ends: list[Callable[[opkeep.Ticket], object]] = [lambda ticket: ticket.publish(FILES), lambda ticket: ticket.abandon()]
        for end in ends:
            ticket = self.begin(os.urandom(32))
            end(ticket)
            agains: list[Callable[[], object]] = [lambda: ticket.publish(FILES), lambda: ticket.publish(FILES, kernel="x")]
            for again in agains:
                with self.assertRaisesRegex(opkeep.TicketEndedError, "published or abandoned before"):
                    again()
            ticket.abandon("late")
            self.assertIn("ended", repr(ticket))

    def test_closed_handles(self) -> None:
        ticket = self.begin()
        self.cache.close()
        self.cache.close()
        for call in (self.cache.get, self.cache.get_or_begin):
            self.assertRaises(opkeep.ClosedError, call, KEY)
        self.assertRaises(opkeep.ClosedError, self.cache.publish, KEY, FILES)
        # The ticket has a store of its own.
        self.assertTrue(ticket.publish(FILES))
        hit = self.open().get(KEY)
        assert hit is not None
        hit.close()
        for use in (
            lambda: hit["add.ptx"],
            lambda: len(hit),
            lambda: hit.key,
            lambda: hit.kernel,
            lambda: list(hit),
        ):
            self.assertRaises(opkeep.ClosedError, use)


class LoggingTest(CacheTest):
    def damage(self) -> None:
        """Damage the only entry."""
        (entry,) = Path(self.root).rglob("*.kern")
        content = bytearray(entry.read_bytes())
        content[-1] ^= 1
        entry.write_bytes(content)

    def test_warnings_go_to_the_log(self) -> None:
        self.cache.publish(KEY, FILES)
        self.damage()
        self.assertIsNone(self.cache.get(KEY))
        with self.assertLogs("opkeep", logging.WARNING) as logs:
            self.assertTrue(self.begin().is_shared)
        self.assertIn("damaged", logs.output[0])

    def test_a_limit_that_is_not_valid_is_named(self) -> None:
        for name in ("OPKEEP_MAX_CACHE_ENTRIES", "ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO"):
            with mock.patch.dict(os.environ, {name: "many"}), self.assertLogs("opkeep", logging.WARNING) as logs:
                self.open()
            self.assertIn(f"`many` is not valid for `{name}`", logs.output[0])

    def test_a_handler_may_use_the_cache(self) -> None:
        self.cache.publish(KEY, FILES)
        self.damage()
        found: list[object] = []

        class Handler(logging.Handler):
            def emit(handler, record: logging.LogRecord) -> None:
                found.append(self.open().get_or_begin(bytes(32), timeout=10))

        handler = Handler()
        logging.getLogger("opkeep").addHandler(handler)
        self.addCleanup(logging.getLogger("opkeep").removeHandler, handler)
        with self.begin():
            pass
        ticket = found.pop()
        assert isinstance(ticket, opkeep.Ticket)
        # Otherwise it is written to the store while the directory is removed.
        ticket.abandon()

    def test_nothing_is_printed_unless_logging_is_set_up(self) -> None:
        self.cache.publish(KEY, FILES)
        self.damage()
        process = self.start("assert cache.get_or_begin(KEY).is_shared")
        self.assertEqual(process.communicate(), ("", ""))
        self.assertEqual(process.returncode, 0)

    def test_a_store_that_cannot_be_used_is_a_warning(self) -> None:
        file = Path(self.root) / "file"
        file.write_text("")
        with self.assertLogs("opkeep", logging.WARNING) as logs:
            cache = opkeep.Cache(file, "cuda-sm_90")
            self.assertEqual(dict(cache.get_or_build(KEY, lambda: FILES)), FILES)
        self.assertIn("is not a directory", logs.output[0])
        with self.assertRaisesRegex(opkeep.StoreError, "is not a directory"):
            opkeep.Cache(file, "cuda-sm_90", mode="require")


if __name__ == "__main__":
    unittest.main()
