"""The examples in docstrings, and docs/python.md."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import opkeep
from helper import ROOT

PAGE = ROOT / "docs/python.md"
# The examples of these need a framework, and are run by its tests.
FRAMEWORKS = ("opkeep.triton",)
MODULES = ["opkeep"] + [
    module.name
    for module in pkgutil.walk_packages(opkeep.__path__, "opkeep.")
    if not module.name.startswith(FRAMEWORKS) and module.name != "opkeep._native"
]


def load_tests(
    loader: unittest.TestLoader, tests: unittest.TestSuite, pattern: str | None
) -> unittest.TestSuite:
    def enter(test: doctest.DocTest) -> None:
        # The examples name files of the repository.
        test.globs["_before"] = os.getcwd()
        os.chdir(ROOT)

    def leave(test: doctest.DocTest) -> None:
        os.chdir(test.globs["_before"])
        # Examples remove no directories.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Implicitly cleaning up", ResourceWarning)
            test.globs.clear()

    for module in MODULES:
        tests.addTests(doctest.DocTestSuite(module, setUp=enter, tearDown=leave))
    return tests


class DocumentationTest(unittest.TestCase):
    def test_every_public_function_has_a_docstring_and_an_example(self) -> None:
        missing = []
        for name in opkeep.__all__:
            value = getattr(opkeep, name)
            members = vars(value).items() if name in ("Cache", "Hit", "Ticket") else []
            named = [
                (name, value),
                *((f"{name}.{member}", one) for member, one in members if member[0] != "_"),
            ]
            for place, one in named:
                if not callable(one):
                    continue
                is_error = isinstance(one, type) and issubclass(one, opkeep.Error)
                if not one.__doc__ or (">>> " not in one.__doc__ and not is_error):
                    missing.append(place)
        self.assertEqual(missing, [])

    def test_every_module_has_a_docstring(self) -> None:
        for name in MODULES:
            self.assertTrue(importlib.import_module(name).__doc__, name)

    def test_every_example_of_a_module_is_run(self) -> None:
        # In the sources, so that an example in a place that doctest does not search is found as well.
        found = {name: len(run_of(name)) for name in MODULES}
        for name in MODULES:
            source = inspect.getsource(importlib.import_module(name))
            self.assertEqual(found[name], len(re.findall(r"^ *>>> ", source, re.M)), name)
        self.assertGreaterEqual(sum(found.values()), 60)


def run_of(module: str) -> list[doctest.Example]:
    """Return the examples that are run of a module."""
    tests = doctest.DocTestFinder().find(importlib.import_module(module))
    return [example for test in tests for example in test.examples]


class PageTest(unittest.TestCase):
    """Each block of docs/python.md, in order, in one directory."""

    def test_the_page(self) -> None:
        blocks = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
        self.assertTrue(blocks)
        with tempfile.TemporaryDirectory() as directory:
            network = ROOT / "fixtures/networks/lenet/model.onnx"
            (Path(directory) / "model.onnx").write_bytes(network.read_bytes())
            environment = {**os.environ, "HOME": directory, "XDG_CACHE_HOME": f"{directory}/.cache"}
            environment.pop("OPKEEP_CACHE_DIR", None)
            for kind, text in blocks:
                with self.subTest(text):
                    if kind == "python":
                        self.assertEqual(*run_python(text, directory, environment))
                    elif text.startswith("pip install ./crates/python"):
                        check_install(text.strip())
                    else:
                        self.assertEqual(*run_commands(text, directory, environment))


def run_python(text: str, directory: str, environment: dict[str, str]) -> tuple[str, str]:
    """Run a program. Its comments `# prints: ...` state what it prints. Return the output, found and expected."""
    expected = re.findall(r"# prints: (.*)$", text, re.M)
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr, "".join(f"{line}\n" for line in expected)


def run_commands(text: str, directory: str, environment: dict[str, str]) -> tuple[str, str]:
    done = subprocess.run(
        ["sh", "-euc", text], cwd=directory, env=environment, capture_output=True, text=True, timeout=60
    )
    return done.stderr, ""


def check_install(command: str) -> None:
    """Check the command that installs. `cargo xtask python` has built the wheel from the same directory, with pip."""
    *_, path = command.split()
    assert (ROOT / path / "pyproject.toml").is_file(), command
