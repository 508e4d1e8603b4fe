"""The end of a process, for the caches that are open then."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from unittest import mock

import opkeep.cache
import opkeep.triton._store
from opkeep import _exit

_opened = _exit._providers


class Cache:
    """A stand-in for a native cache, whose engine hangs: sending takes all the time that it may."""

    def __init__(self, test: ExitTest, raises: type[BaseException] | None = None) -> None:
        self._test = test
        self._raises = raises

    def flush(self) -> None:
        self._test.calls.append("flush")
        if self._raises is not None:
            raise self._raises

    def finish_uploads(self, limit: float) -> int:
        self._test.calls.append(f"finish {limit:g}")
        self._test.now += limit
        return 1


class ExitTest(unittest.TestCase):
    def setUp(self) -> None:
        self.calls: list[str] = []
        self.now = 1000.0
        self.providers: list[Callable[[], list[Cache]]] = []
        for patch in (
            mock.patch.object(_exit, "_providers", self.providers),
            mock.patch("time.monotonic", lambda: self.now),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def test_all_caches_have_one_limit_whatever_they_are_for(self) -> None:
        caches = [[Cache(self), Cache(self)], [Cache(self)]]
        self.providers += [lambda: caches[0], lambda: caches[1]]
        _exit._close_all()
        self.assertEqual(self.calls, ["flush"] * 3 + ["finish 5", "finish 0", "finish 0"])

    def test_ctrl_c_loses_no_counts(self) -> None:
        caches = [Cache(self, KeyboardInterrupt), Cache(self)]
        self.providers.append(lambda: caches)
        with self.assertRaises(KeyboardInterrupt):
            _exit._close_all()
        self.assertEqual(self.calls, ["flush"] * 2)

    def test_both_kinds_of_caches_are_closed_here(self) -> None:
        modules = {provider.__module__ for provider in _opened}
        self.assertEqual(modules, {opkeep.cache.__name__, opkeep.triton._store.__name__})


if __name__ == "__main__":
    unittest.main()
