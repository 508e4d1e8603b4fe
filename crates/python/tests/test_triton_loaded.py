"""Code that is replaced while a process has it loaded."""

from __future__ import annotations

import importlib.util
import mmap
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
import time
import types
import unittest
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from test_triton_keys import KeyTest


class LoadedTest(KeyTest):
    def test_a_code_generator(self) -> None:
        import triton.backends.amd.compiler as module

        if not hasattr(module, "get_amd_codegen_path"):
            self.skipTest("this Triton has its code generator in its library")
        with mock.patch.dict(os.environ, {"TRITON_AMD_CODEGEN_PATH": str(self.program("gen.so", "one"))}):
            before = self.key(self.kernels.HIP)
            self.assertEqual(self.key(self.kernels.HIP), before)
            self.program("gen.so", "another")
            for _ in range(2):
                with self.assertRaises(self.loaded.ReplacedError):
                    self.key(self.kernels.HIP)
            self.forget()
            self.assertNotEqual(self.key(self.kernels.HIP), before)

    def test_a_package(self) -> None:
        package = self.root / "package"
        (package / "backends").mkdir(parents=True)
        (package / "backends/compiler.py").touch()
        (self.root / "elsewhere").mkdir()
        (package / "linked").symlink_to(self.root / "elsewhere")
        (package / "linked/again").symlink_to(package)
        begin = self.loaded._load_time()
        self.assertLess(begin, (package / "backends/compiler.py").stat().st_ctime_ns)
        with self.assertRaises(self.loaded.ReplacedError):
            self.loaded.check_package(str(package))
        for later in ("backends/compiler.py", "linked/passes.so", "link.py"):
            with self.subTest(later):
                (package / "link.py").unlink(missing_ok=True)
                self.forget()
                now = max(path.lstat().st_ctime_ns for path in [self.root, *self.root.rglob("*")])
                with mock.patch.object(self.loaded, "_load_time", return_value=now):
                    self.loaded.check_package(str(package))
                    self.forget()
                    while not (package / later).exists() or (package / later).lstat().st_ctime_ns <= now:
                        (package / later).unlink(missing_ok=True)
                        if later == "link.py":
                            (package / later).symlink_to(__file__)
                        else:
                            (package / later).write_text("changed")
                    with self.assertRaises(self.loaded.ReplacedError) as caught:
                        self.loaded.check_package(str(package))
                    self.assertIn(later, str(caught.exception))

    def loaded_package(self) -> Path:
        """Return a package of which a module and a library are loaded, and others are not."""
        package = Path(tempfile.mkdtemp(dir=self.root))
        for name in ("loaded.py", "other.py", "loaded.so", "other.so"):
            (package / name).write_text("def add(): return 'one'\n")
            os.utime(package / name, (1_000_000_000, 1_000_000_000))
        py_compile.compile(str(package / "loaded.py"))
        module = types.ModuleType("loaded")
        module.__file__ = str(package / "loaded.py")
        patch = mock.patch.dict(sys.modules, {"module_of_a_test": module})
        patch.start()
        self.addCleanup(patch.stop)
        with open(package / "loaded.so", "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.addCleanup(mapped.close)
        return package

    def begin(self) -> int:
        """Return the time of the last change, after which a new one has a later time."""
        begin = max(path.lstat().st_ctime_ns for path in [self.root, *self.root.rglob("*")])
        probe = self.root / "probe"
        probe.touch()
        while probe.stat().st_ctime_ns <= begin:
            probe.unlink()
            probe.touch()
        return begin

    def check_after(self, package: Path, change: Callable[[], object]) -> None:
        """Check a package that was changed after it was loaded."""
        begin = self.begin()
        change()
        self.forget()
        with mock.patch.object(self.loaded, "_load_time", return_value=begin):
            self.loaded.check_package(str(package))

    def test_files_of_a_package_that_get_and_lose_other_names(self) -> None:
        for name in ("loaded.py", "other.py", "loaded.so", "other.so"):
            with self.subTest(name):
                package = self.loaded_package()
                self.check_after(package, lambda: os.link(package / name, package / "link"))
                os.link(package / name, package / "another link")
                self.check_after(package, (package / "link").unlink)

    def test_files_of_a_package_that_are_replaced_by_old_ones(self) -> None:
        def replace(path: Path, is_in_place: bool) -> None:
            new = path if is_in_place else self.root / "new"
            new.write_text("def add(): return 'two'\n")
            os.utime(new, (1_000_000_000, 1_000_000_000))
            os.rename(new, path)
            # As an installer does from its cache.
            os.link(path, path.with_name("link"))
            if is_in_place:
                path.with_name("link").unlink()

        for name in ("loaded.py", "loaded.so"):
            for is_in_place in (True, False):
                with self.subTest(name, is_in_place=is_in_place):
                    package = self.loaded_package()
                    with self.assertRaises(self.loaded.ReplacedError):
                        self.check_after(package, lambda: replace(package / name, is_in_place))
        package = self.loaded_package()
        (package / "loaded.py").unlink()

        def replace_directory() -> None:
            moved = package.rename(package.with_name("~moved"))
            shutil.copytree(moved, package)
            shutil.rmtree(moved)

        with self.assertRaises(self.loaded.ReplacedError):
            self.check_after(package, replace_directory)
        for change in ("compile again", "compile never"):
            with self.subTest(change):
                package = self.loaded_package()

                def change_code() -> None:
                    compiled = importlib.util.cache_from_source(str(package / "loaded.py"))
                    replace(package / "loaded.py", False)
                    os.unlink(compiled)
                    if change == "compile again":
                        py_compile.compile(str(package / "loaded.py"))

                with self.assertRaises(self.loaded.ReplacedError) as caught:
                    self.check_after(package, change_code)
                self.assertIn("/loaded.", str(caught.exception))

    def test_a_package_at_a_path_that_leads_to_another(self) -> None:
        """No file of either changes."""

        def switch_link(one: Path, two: Path) -> None:
            link = self.root / "new"
            link.symlink_to(two)
            link.rename(self.root / "link")

        def switch_link_of_link(one: Path, two: Path) -> None:
            (self.root / "live").unlink()
            (self.root / "live").symlink_to(two)

        def switch_inner_link(one: Path, two: Path) -> None:
            (one / "inner").unlink()
            (one / "inner").symlink_to(self.root / "inner two")

        for switch in (switch_link, switch_link_of_link, switch_inner_link):
            with self.subTest(switch.__name__):
                shutil.rmtree(self.root)
                self.root.mkdir()
                one, two = self.loaded_package(), self.loaded_package()
                for name in ("inner one", "inner two"):
                    (self.root / name).mkdir()
                    (self.root / name / "more.py").touch()
                (one / "inner").symlink_to(self.root / "inner one")
                (self.root / "live").symlink_to(one)
                (self.root / "link").symlink_to(one if switch is switch_link else "live")
                package = one if switch is switch_inner_link else self.root / "link"
                self.check_after(package, lambda: None)
                with self.assertRaises(self.loaded.ReplacedError):
                    self.check_after(package, lambda: switch(one, two))

    def test_a_library_that_is_another_whatever_the_times(self) -> None:
        package, other = self.loaded_package(), self.root / "other"
        shutil.copytree(package, other)
        library = types.ModuleType("loaded")
        library.__file__ = str(package / "loaded.so")
        later = mock.patch.object(self.loaded, "_load_time", return_value=2**62)
        with later, mock.patch.dict(sys.modules, {"library_of_a_test": library}):
            self.loaded.check_package(str(package))
            self.forget()
            package.rename(self.root / "old")
            other.rename(package)
            with self.assertRaises(self.loaded.ReplacedError) as caught:
                self.loaded.check_package(str(package))
        self.assertIn("loaded.so", str(caught.exception))

    def test_code_that_changes_after_the_first_look(self) -> None:
        def add(package: Path) -> None:
            (package / "new.py").touch()

        def rename(package: Path) -> None:
            (package / "other.py").rename(package / "another.py")

        def write(package: Path) -> None:
            (package / "other.py").write_text("def add(): return 'two'\n")

        def rename_another(package: Path) -> None:
            # No file of either changes.
            package.rename(self.root / "old")
            (self.root / "another").rename(package)

        for change in (add, rename, write, rename_another):
            with self.subTest(change.__name__):
                package = self.loaded_package()
                shutil.copytree(package, self.root / "another", dirs_exist_ok=True)
                with mock.patch.object(self.loaded, "_load_time", return_value=self.begin()):
                    self.loaded.check_package_again(str(package))
                os.link(package / "loaded.so", package / "link")
                os.link(package / "loaded.py", package / "link to a module")
                for _ in range(2):
                    self.loaded.check_package_again(str(package))
                change(package)
                for check in (self.loaded.check_package_again, self.loaded.check_package):
                    with self.assertRaises(self.loaded.ReplacedError):
                        check(str(package))

    def test_nothing_is_kept_of_a_compile_in_which_code_changed(self) -> None:
        import triton

        directory, package = str(Path(triton.__file__).parent), self.loaded_package()

        def replace() -> None:
            known = self.loaded._packages[directory]
            code = self.loaded._native.PackageCode(str(package))
            self.loaded._packages[directory] = known._replace(code=code)

        self.kernels.compiles.during = replace
        with self.assertLogs("opkeep", "WARNING") as logs:
            self.kernels.compile()
        self.assertIn("has changed", logs.output[0])
        self.kernels.compiles.during = lambda: None
        self.forget()
        self.kernels.compile()
        self.assert_compiled(2)
        self.kernels.compile()
        self.assert_compiled(0)

    def test_the_content_of_each_module_is_in_the_key(self) -> None:
        package = self.loaded_package()
        with (
            mock.patch.object(self.toolchain._stock, "directory", return_value=str(package)),
            mock.patch.object(self.loaded, "_load_time", return_value=2**62),
        ):
            before = self.key()
            self.forget()
            self.assertEqual(self.key(), before)
            (package / "other.py").write_text("changed")
            self.forget()
            self.assertNotEqual(self.key(), before)

    def test_the_time_of_a_child_with_a_later_one(self) -> None:
        begin = self.loaded._load_time()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                # As after loading `logging` again.
                module = self.loaded.logging
                module._startTime = time.time_ns() if isinstance(module._startTime, int) else time.time()
                os.write(writer, str(self.loaded._load_time()).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        found = int(os.read(reader, 100))
        os.close(reader)
        # A process's start has a second of tolerance.
        self.assertLessEqual(found, begin)
        self.assertGreater(found, begin - 3600 * 10**9)

    def test_the_time_of_a_child_whose_parent_has_ended(self) -> None:
        """As of a daemon: it is known by `logging`, whichever process loaded that, unless Triton was loaded before."""
        check = (
            "import triton; from opkeep.triton import _loaded;"
            "found = next(iter([_loaded._load_time()]), None); print(0 <= time.time_ns() - found < 60 * 10**9)"
        )
        programs = {
            "import logging, os, time": check,
            "import os, time": check,
            "import triton, os, time": "import importlib, logging; importlib.reload(logging)\n"
            f"try: {check}\nexcept _loaded.UnknownStartError as error: print('parent process that has ended' in str(error))",
        }
        for before, after in programs.items():
            with self.subTest(before):
                fork = "reader, writer = os.pipe()\nif os.fork(): os._exit(0)\nwhile os.getppid() == parent: time.sleep(0.01)"
                program = f"{before}\nparent = os.getpid()\n{fork}\n{after}"
                found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
                self.assertEqual(found.stdout.strip(), "True", found.stderr)

    def test_the_start_of_a_process(self) -> None:
        before = time.time_ns()
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
            after = time.time_ns()
            start = self.loaded._process_start(process.pid)
            process.communicate(b"\n")
        # The kernel counts in hundredths of a second. The start is never too late.
        self.assertLess(before - 100_000_000, start)
        self.assertLess(start, after)

    def test_a_module_whose_attributes_cannot_be_loaded(self) -> None:
        class Lazy(types.ModuleType):
            def __getattr__(self, name: str) -> object:
                raise ImportError("a library is missing")

        package = self.loaded_package()
        with mock.patch.dict(sys.modules, {"lazy": Lazy("lazy"), "no_module": object(), "none": None}):
            self.check_after(package, lambda: os.link(package / "other.py", package / "link"))

    def test_the_time_after_logging_was_loaded_again(self) -> None:
        program = (
            "import importlib, logging, time, triton; now = time.time_ns(); importlib.reload(logging);"
            "from opkeep.triton import _loaded; print(_loaded._load_time() < now)"
        )
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(found.stdout.strip(), "True", found.stderr)

    def test_a_module_of_a_backend_counts_as_loaded(self) -> None:
        package = self.loaded_package()
        for name in ("compiler.py", "driver.py"):
            (package / "other.py").rename(package / name)
            with self.assertRaises(self.loaded.ReplacedError):
                self.check_after(package, lambda: os.link(package / name, package / "link"))
            (package / "link").rename(package / "other.py")
            (package / name).unlink()

    def test_a_plug_in_that_gets_another_name(self) -> None:
        plug_in = self.program("plug.so", "one")
        with mock.patch.dict(os.environ, {"TRITON_PLUGIN_PATHS": str(plug_in)}):
            before = self.key()
            os.link(plug_in, self.root / "link")
            self.assertEqual(self.key(), before)
            # The same content again.
            plug_in.unlink()
            self.program("plug.so", "one")
            self.assertEqual(self.key(), before)
            stat = plug_in.stat()
            plug_in.write_text("two")
            os.utime(plug_in, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            with self.assertRaises(self.loaded.ReplacedError):
                self.key()

    def test_triton_was_not_replaced(self) -> None:
        import triton

        self.loaded.check_package(str(Path(triton.__file__).parent))

    def test_nothing_is_kept_after_triton_was_replaced(self) -> None:
        import triton

        directory = str(Path(triton.__file__).parent)
        self.kernels.compile()
        with (
            mock.patch.dict(self.loaded._replaced, {directory: f"{directory}/compiler/compiler.py"}),
            self.assertLogs("opkeep", "WARNING") as logs,
        ):
            self.kernels.compile(512)
            self.kernels.compile()
        self.assert_compiled(3)
        self.assertEqual(len(logs.output), 1, logs.output)
        self.assertIn("compiler.py has changed", logs.output[0])
        self.kernels.compile()
        self.assert_compiled(0)
        self.kernels.compile(512)
        self.assert_compiled(1)


if __name__ == "__main__":
    unittest.main()
