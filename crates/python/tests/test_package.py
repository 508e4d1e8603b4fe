"""The package: what an import loads, names, types, and the wheel's files."""

import os
import subprocess
import sys
import unittest
from importlib import metadata

import opkeep


def child(program: str) -> str:
    """Run a program in a new interpreter, and return its output."""
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


class PackageTest(unittest.TestCase):
    def test_import_loads_nothing(self) -> None:
        program = "import sys; before = set(sys.modules); import opkeep; print(*set(sys.modules) - before)"
        self.assertEqual(child(program).split(), ["opkeep"])

    def test_import_takes_at_most_5_ms(self) -> None:
        program = "import time; begin = time.perf_counter(); import opkeep; print((time.perf_counter() - begin) * 1000)"
        fastest = min(float(child(program)) for _ in range(5))
        self.assertLessEqual(fastest, 5)

    def test_each_name_is_there_and_listed(self) -> None:
        for name in opkeep.__all__:
            self.assertIsNotNone(getattr(opkeep, name), name)
            self.assertIn(name, dir(opkeep))
        self.assertEqual(opkeep.__all__, sorted(opkeep.__all__))
        with self.assertRaisesRegex(AttributeError, "no attribute 'Cash'"):
            _ = opkeep.Cash
        self.assertEqual(child("import opkeep; print(opkeep.results.__name__)").strip(), "opkeep.results")

    def test_the_module_of_caches_has_its_names(self) -> None:
        from opkeep.cache import Cache, Hit, Ticket

        self.assertEqual((Cache, Hit, Ticket), (opkeep.Cache, opkeep.Hit, opkeep.Ticket))

    def test_every_exception_is_an_error_of_opkeep(self) -> None:
        from opkeep import errors

        classes = [
            value for value in vars(errors).values() if getattr(value, "__module__", "") == errors.__name__
        ]
        for kind in classes:
            self.assertTrue(issubclass(kind, opkeep.Error), kind)
            self.assertIn(kind.__name__, opkeep.__all__)

    def test_the_installed_files(self) -> None:
        files = {str(file) for file in metadata.files("opkeep") or []}
        for name in ("opkeep/py.typed", "opkeep/_native.pyi", "opkeep/_native.abi3.so"):
            self.assertIn(name, files)
        self.assertEqual(metadata.version("opkeep"), opkeep.__version__)
        licences = {os.path.basename(file) for file in files if "/licenses/" in file}
        self.assertLessEqual({"LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY.md"}, licences)
        self.assertEqual(metadata.metadata("opkeep")["License-Expression"], "MIT OR Apache-2.0")

    def test_a_panic_is_an_exception(self) -> None:
        from opkeep import _native

        if not hasattr(_native, "panics"):
            self.skipTest("an optimized module has no function that panics")
        with self.assertRaisesRegex(opkeep.InternalError, "please report it: a panic of a test"):
            _native.panics()
        self.assertTrue(issubclass(opkeep.InternalError, Exception))
