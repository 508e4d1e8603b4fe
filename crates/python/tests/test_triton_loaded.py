"""Code that is replaced while a process has it loaded."""

from __future__ import annotations

import importlib.util
import mmap
import os
import py_compile
import shutil
import sys
import tempfile
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
                now = max(path.stat().st_ctime_ns for path in self.root.rglob("*.[ps]*"))
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

    def check_after(self, package: Path, change: Callable[[], object]) -> None:
        """Check a package that was changed after it was loaded."""
        begin = max(path.stat().st_ctime_ns for path in package.rglob("*"))
        probe = self.root / "probe"
        probe.touch()
        while probe.stat().st_ctime_ns <= begin:
            probe.unlink()
            probe.touch()
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
