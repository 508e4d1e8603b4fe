"""The cache manager for Triton: what it keeps."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import opkeep
from triton_helper import TritonTest


class HitTest(TritonTest):
    """Hits and misses."""

    def test_a_kernel_is_compiled_once(self) -> None:
        first = self.kernels.compile()
        self.assert_compiled(1)
        files = self.files(first)
        again = self.kernels.compile()
        self.assert_compiled(0)
        self.assertEqual(again.asm["cubin"], first.asm["cubin"])
        self.assertEqual(again.asm.keys(), first.asm.keys())
        self.assertEqual(self.files(first), files)
        others = [("cuda", 80, 32)] + ([self.kernels.HIP] if self.kernels.HAS_HIP_LINKER else [])
        for target in others:
            self.kernels.compile(target=target)
            self.assert_compiled(1)
            self.kernels.compile(target=target)
            self.assert_compiled(0)
        stored = sorted(path.name for path in (self.store / "v1").iterdir() if path.is_dir())
        self.assertEqual(stored, ["cuda-sm_80", "cuda-sm_90", "hip-gfx942"][: 1 + len(others)])

    def test_the_directory_is_as_with_the_stock_manager(self) -> None:
        files = self.files(self.kernels.compile())
        self.empty_directory()
        self.assertEqual(self.files(self.kernels.compile()), files)
        self.assert_compiled(1)
        self.empty_directory()
        end = self.with_stock()
        try:
            stock = self.files(self.kernels.compile())
        finally:
            end()
        self.assertEqual(stock.keys() | {"add.json.opkeep"}, files.keys())
        self.assertEqual(stock["__grp__add.json"], files["__grp__add.json"])

    def test_files_that_the_stock_manager_left_are_not_trusted(self) -> None:
        end = self.with_stock()
        try:
            kernel = self.kernels.compile()
        finally:
            end()
        right = self.files(kernel)
        cubin = self.directory(kernel) / "add.cubin"
        cubin.write_bytes(b"\x00" * 100)
        self.assert_compiled(1)
        again = self.kernels.compile()
        self.assert_compiled(1)
        self.assertEqual(again.asm["cubin"], right["add.cubin"])

    def test_a_damaged_entry_of_the_store_is_compiled_again(self) -> None:
        kernel = self.kernels.compile()
        self.assert_compiled(1)
        entry = max((self.store / "v1" / "cuda-sm_90" / "entries").rglob("*"), key=lambda path: path.stat().st_size)
        content = entry.read_bytes()

        def damage(place: int) -> None:
            entry.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])

        # Nothing is used of the bytes behind the head: the files in the directory have the digests that the head states.
        damage(len(content) // 2)
        self.assertEqual(self.kernels.compile().asm["cubin"], kernel.asm["cubin"])
        self.assert_compiled(0)
        self.assertNotEqual(opkeep.verify(self.store)["exit_code"], 0)
        # But if a file of the directory is needed, all of it is compiled again.
        (self.own_directory(kernel) / "add.json").unlink()
        self.assertEqual(self.kernels.compile().asm["cubin"], kernel.asm["cubin"])
        self.assert_compiled(1)
        self.assertEqual(opkeep.verify(self.store)["exit_code"], 0)
        damage(100)
        self.assertEqual(self.kernels.compile().asm["cubin"], kernel.asm["cubin"])
        self.assert_compiled(1)
        self.kernels.compile()
        self.assert_compiled(0)

    def test_another_build_of_the_compiler_of_the_same_version_is_another_key(self) -> None:
        import triton

        bin_dir = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
        variables = {}
        for name in ("ptxas", "ptxas-blackwell"):
            if (bin_dir / name).exists():
                copy = self.root / name
                shutil.copy(bin_dir / name, copy)
                variables[f"TRITON_{name.upper().replace('-', '_')}_PATH"] = str(copy)
        program = "import triton_kernels as k; k.compile(); print(k.compiles.count)"

        def compiles() -> int:
            environment = {**os.environ, **variables}
            output = subprocess.run(
                [sys.executable, "-c", program], env=environment, capture_output=True, text=True, cwd=Path(__file__).parent
            )
            return int(output.stdout or output.stderr)

        self.assertEqual([compiles(), compiles()], [1, 0])
        for path in variables.values():
            with open(path, "ab") as file:
                file.write(b"\0")
        self.assertEqual([compiles(), compiles()], [1, 0])

    def test_always_compile_replaces_what_is_stored(self) -> None:
        kernel = self.kernels.compile()
        with mock.patch.dict(os.environ, {"TRITON_ALWAYS_COMPILE": "1"}):
            self.kernels.compile()
            self.kernels.compile()
        self.assert_compiled(3)
        self.assertEqual(self.kernels.compile().asm["cubin"], kernel.asm["cubin"])
        self.assert_compiled(0)

    def test_a_put_without_a_get(self) -> None:
        from opkeep.triton import CacheManager

        kernel = self.kernels.compile()
        self.new_store()
        manager = CacheManager(self.directory(kernel).name)
        group = {name: manager.put(content, name) for name, content in self.group(kernel).items()}
        manager.put_group("add.json", group)
        found = CacheManager(manager.key).get_group("add.json") or {}
        self.assertEqual(found.keys(), group.keys())
        for name, path in found.items():
            self.assertEqual(Path(path).read_bytes(), Path(group[name]).read_bytes())

    def test_a_group_without_triton_s_frame_is_judged_as_a_kernel(self) -> None:
        from opkeep.triton import CacheManager, _compile

        kernel = self.kernels.compile()
        files = self.group(kernel)
        key = self.directory(kernel).name
        target = self.kernels.GPUTarget(*self.kernels.CUDA)
        with mock.patch.object(_compile, "_current_target", return_value=target):
            for object, is_kept in ((files["add.cubin"], True), (b"no object", False)):
                self.new_store()
                manager = CacheManager(key)
                self.assertIsNone(manager.get_group("add.json"))
                contents = {**files, "add.cubin": object}
                group = {name: manager.put(content, name) for name, content in contents.items()}
                manager.put_group("add.json", group)
                found = CacheManager(key).get_group("add.json")
                self.assertEqual(found, group if is_kept else None)

    def test_a_group_with_a_file_of_another_compile_is_not_kept(self) -> None:
        from opkeep.triton import CacheManager

        kernel = self.kernels.compile()
        self.new_store()
        manager = CacheManager(self.directory(kernel).name)
        files = self.group(kernel)
        group = {name: manager.put(content, name) for name, content in files.items() if name != "add.ptx"}
        manager.put_group("add.json", group | {"add.ptx": str(self.directory(kernel) / "add.ptx")})
        self.assertIsNone(CacheManager(manager.key).get_group("add.json"))

    def test_an_overridden_architecture_is_that_of_the_rules(self) -> None:
        if not self.kernels.HAS_HIP_LINKER:
            self.skipTest("this Triton needs a linker of ROCm")
        with mock.patch.dict(os.environ, {"TRITON_OVERRIDE_ARCH": "gfx90a"}):
            self.kernels.compile(target=self.kernels.HIP)
            self.kernels.compile(target=self.kernels.HIP)
        self.assert_compiled(1)
        with mock.patch.dict(os.environ, {"TRITON_OVERRIDE_ARCH": "sm80"}):
            self.kernels.compile()
            self.kernels.compile()
        self.assert_compiled(1)

    def test_intermediate_code_is_kept_too(self) -> None:
        import triton

        kernel = self.kernels.compile()
        source = self.root / "add.ttgir"
        source.write_text(kernel.asm["ttgir"])
        self.assert_compiled(1)
        target = self.kernels.GPUTarget(*self.kernels.CUDA)
        first = triton.compile(str(source), target=target)
        files = self.files(first)
        self.assertTrue(any(name.startswith("@") for name in files))
        self.empty_directory()
        again = triton.compile(str(source), target=target)
        self.assertEqual(self.files(again), files)
        self.assertEqual(again.asm["cubin"], first.asm["cubin"])


class StockTest(TritonTest):
    """What Triton's own manager does."""

    def test_override_and_dump_are_the_stock_managers(self) -> None:
        from opkeep.triton import CacheManager
        from triton.runtime.cache import FileCacheManager

        variables = {"TRITON_DUMP_DIR": str(self.root / "dump"), "TRITON_OVERRIDE_DIR": str(self.root / "override")}
        with mock.patch.dict(os.environ, variables):
            self.assertIs(type(CacheManager("KEY", dump=True)), FileCacheManager)
            self.assertIs(type(CacheManager("KEY", override=True)), FileCacheManager)
            self.assertEqual(CacheManager("KEY", dump=True).cache_dir, str(self.root / "dump" / "KEY"))

    def test_an_overridden_kernel_is_not_kept(self) -> None:
        right = self.kernels.compile()
        dump, override = self.root / "dump", self.root / "override"
        variables = {"TRITON_KERNEL_DUMP": "1", "TRITON_DUMP_DIR": str(dump), "TRITON_ALWAYS_COMPILE": "1"}
        with mock.patch.dict(os.environ, variables):
            self.kernels.compile()
        shutil.copytree(dump, override)
        for path in override.rglob("*"):
            if path.suffix == ".ptx":
                path.write_text(path.read_text().replace("add.f32", "sub.f32"))
            elif path.is_file():
                path.unlink()
        with mock.patch.dict(os.environ, {"TRITON_KERNEL_OVERRIDE": "1", "TRITON_OVERRIDE_DIR": str(override)}):
            overridden = self.kernels.compile()
        self.assertNotEqual(overridden.asm["cubin"], right.asm["cubin"])
        self.assertEqual(self.kernels.compile().asm["cubin"], right.asm["cubin"])

    def test_files_that_are_not_kept_are_where_no_other_process_writes(self) -> None:
        program = (
            "import os, pathlib, triton_kernels as k; k.compile();"
            "from opkeep.triton import CacheManager; import opkeep.triton._compile as c;"
            "c._current_target = lambda: None; m = CacheManager('KEY'); n = CacheManager('KEY');"
            "print(m.put(b'one', 'a.ttir')); print(n.put(b'two', 'a.ttir'));"
            "print(pathlib.Path(m._paths['a.ttir']).read_text())"
        )
        found = subprocess.run(
            [sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, text=True
        )
        one, two, content = found.stdout.splitlines()
        self.assertNotEqual(Path(one).parent, Path(two).parent, found.stderr)
        self.assertNotEqual(Path(one).parent, self.kernels_dir / "KEY")
        self.assertEqual(content, "one")
        # They are gone with their process. What others left is removed a day later.
        self.assertFalse(Path(one).parent.exists() or Path(two).parent.exists())
        left = {hours: self.kernels_dir / f"KEY.opkeep-unkept-{hours:016x}" for hours in (1, 25)}
        left[26] = self.kernels_dir / "other.opkeep-unkept-not-ours"
        for hours, directory in left.items():
            (directory / "inner").mkdir(parents=True)
            os.utime(directory, (time.time() - hours * 3600,) * 2)
        subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parent, capture_output=True, check=True)
        self.assertEqual([directory.exists() for directory in left.values()], [True, False, True])

    def test_a_forked_child_has_files_of_its_own(self) -> None:
        program = (
            "import os, sys, pathlib, triton; import opkeep.triton._compile as c; c._current_target = lambda: None;"
            "from opkeep.triton import CacheManager; m = CacheManager('KEY'); path = m.put(b'one', 'a.ttir');\n"
            "if os.fork() == 0: m.put(b'two', 'a.ttir'); sys.exit()\n"
            "assert os.wait()[1] == 0; print(pathlib.Path(path).read_text())"
        )
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(found.stdout.strip(), "one", found.stderr)
        self.assertEqual(list(self.kernels_dir.glob("*unkept*")), [])

    def test_files_that_are_not_kept_are_where_inductor_reads_its_own(self) -> None:
        """Whatever the reason is: Inductor would take the files of another compile, which lie there."""
        from opkeep.triton import CacheManager, _compile, _manager
        from opkeep.triton._loaded import ReplacedError

        self.load_inductor()
        reasons: dict[str, contextlib.AbstractContextManager[object]] = {
            "no target": mock.patch.object(_manager.CacheManager, "_place_of", side_effect=LookupError),
            "an override": mock.patch.object(_compile.Compile, "is_overridden", True),
            "another compiler": mock.patch.object(_manager.CacheManager, "_is_same", return_value=False),
            "replaced code": mock.patch.object(_manager, "toolchain_after", side_effect=ReplacedError("triton.py")),
            "a full store": mock.patch.object(_manager.CacheManager, "_publish", return_value=False),
            "a file of another compile": contextlib.nullcontext(),
        }
        for number, (reason, patch) in enumerate(reasons.items()):
            with self.subTest(reason):
                manager = CacheManager(f"KEY{number}")
                shared = Path(manager.cache_dir)
                shared.mkdir(parents=True)
                (shared / "a.ttir").write_bytes(b"of another compile")
                with mock.patch.object(_compile, "_current_target", return_value=None), patch:
                    self.assertIsNone(manager.get_group("a.json"))
                    group = {name: manager.put(text, name) for name, text in {"a.json": "{}", "a.ttir": "one"}.items()}
                    if reason == "a file of another compile":
                        group["a.ptx"] = str(shared / "a.ptx")
                    manager.put_group("a.json", group)
                self.assertEqual((shared / "a.ttir").read_text(), "one")
                # What Triton opens lies where no other process writes.
                for path in group.values():
                    self.assertEqual(Path(path).parent == shared, path.endswith(".ptx"))
                paths = {name: str(shared / name) for name in group}
                self.assertEqual(json.loads((shared / "__grp__a.json").read_text()), {"child_paths": paths})
                self.assertIsNone(CacheManager(manager.key).get_group("a.json"))

    def test_a_directory_of_inductor_that_cannot_be_written_fails_as_without_this_manager(self) -> None:
        from opkeep.triton import CacheManager, _manager

        self.load_inductor()
        manager = CacheManager("KEY")
        with (
            mock.patch.object(_manager.CacheManager, "_place_of", side_effect=LookupError),
            self.assertLogs("opkeep", "WARNING"),
            self.assertRaises(OSError),
        ):
            group = {"a.json": manager.put("{}", "a.json")}
            with mock.patch("opkeep._native.Directory", side_effect=PermissionError):
                self.kernels_dir.joinpath("KEY").write_text("in the way")
                manager.put_group("a.json", group)

    def test_further_attributes_are_those_of_the_stock_manager(self) -> None:
        from opkeep.triton import CacheManager

        manager = CacheManager("KEY")
        self.assertEqual(manager.cache_dir, str(self.kernels_dir / "KEY"))
        self.assertEqual(manager.lock_path, str(self.kernels_dir / "KEY" / "lock"))
        self.assertEqual(manager._make_path("a"), str(self.kernels_dir / "KEY" / "a"))
        with self.assertRaises(AttributeError):
            manager.no_such_name
        with self.assertRaises(AttributeError):
            manager._no_such_name

    def test_the_directory_of_a_user_without_variables(self) -> None:
        from opkeep.triton import CacheManager

        del os.environ["TRITON_CACHE_DIR"]
        program = "from opkeep.triton import CacheManager; import triton; print(CacheManager('KEY').cache_dir)"
        with mock.patch.dict(os.environ, {"HOME": str(self.root)}):
            output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(output.stdout.strip(), str(self.root / ".triton" / "cache" / "KEY"), output.stderr)
        self.assertTrue(os.path.isabs(CacheManager("KEY").cache_dir))

    def test_a_directory_that_cannot_be_made_fails_as_without_this_manager(self) -> None:
        (self.root / "file").write_text("in the way")
        place = self.root / "file" / "kernels"
        os.environ["TRITON_CACHE_DIR"] = str(place)
        with self.assertLogs("opkeep", "WARNING") as logs, self.assertRaises(NotADirectoryError) as caught:
            self.kernels.compile()
        self.assertIn(str(place), str(caught.exception.filename))
        self.assertEqual(len(logs.output), 1, logs.output)

    def test_the_mark_of_a_failed_compile_is_ignored(self) -> None:
        from opkeep.triton import CacheManager

        # triton-ascend gives up if the file is there and the group is not.
        (self.kernels_dir / "KEY").mkdir(parents=True)
        (self.kernels_dir / "KEY" / "add.ttir").write_text("left by a process that was killed")
        manager = CacheManager("KEY")
        self.assertIsNone(manager.get_group("add.json"))
        self.assertFalse(manager.has_file("add.ttir"))
        manager.put("code", "add.ttir")
        self.assertTrue(manager.has_file("add.ttir"))

    def test_importing_it_does_not_import_triton(self) -> None:
        program = "import sys, opkeep.triton; print('triton' in sys.modules)"
        output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(output.stdout.strip(), "False", output.stderr)


class FileTest(TritonTest):
    """Files of their own: launchers, results of tuning."""

    def manager(self, key: str = "SINGLE") -> Any:
        from opkeep.triton import CacheManager

        return CacheManager(key)

    def test_a_file_is_kept(self) -> None:
        for name in ("add.autotune.json", "launcher.cpython-311-x86_64-linux-gnu.so", "precompiled.h"):
            with self.subTest(name):
                manager = self.manager()
                self.assertIsNone(manager.get_file(name))
                path = manager.put(b"content", name)
                self.assertEqual(self.manager().get_file(name), path)
                Path(path).write_bytes(b"damaged")
                self.assertEqual(self.manager().get_file(name), path)
                self.assertEqual(Path(path).read_bytes(), b"content")
                self.empty_directory()
                self.assertEqual(self.manager().get_file(name), path)
                self.assertEqual(Path(path).read_bytes(), b"content")
                # A library that cannot be loaded is built again.
                self.manager().put(b"not asked for", name)
                manager = self.manager()
                manager.get_file(name)
                manager.put(b"other content", name)
                self.empty_directory()
                self.assertEqual(Path(self.manager().get_file(name)).read_bytes(), b"other content")

    def test_a_file_that_stock_left_is_not_found(self) -> None:
        (self.kernels_dir / "SINGLE").mkdir(parents=True)
        (self.kernels_dir / "SINGLE" / "a.so").write_bytes(b"stale")
        self.assertIsNone(self.manager().get_file("a.so"))

    def test_a_launcher_is_kept_for_its_compiler(self) -> None:
        compiler = self.root / "gcc"
        compiler.write_text("#!/bin/sh\n# one\nexec gcc \"$@\"\n")
        compiler.chmod(0o755)
        with mock.patch.dict(os.environ, {"CC": str(compiler)}):
            self.manager().get_file("a.so")
            manager = self.manager()
            manager.get_file("a.so")
            manager.put(b"built by one", "a.so")
            self.assertIsNotNone(self.manager().get_file("a.so"))
            compiler.write_text("#!/bin/sh\n# two\nexec gcc \"$@\"\n")
            self.assertIsNone(self.manager().get_file("a.so"))

    @unittest.skipUnless(shutil.which("gcc"), "gcc is not installed")
    def test_a_launcher_is_built_once(self) -> None:
        try:
            from triton.runtime.build import compile_module_from_src
        except ImportError:
            self.skipTest("this Triton builds launchers in its drivers")
        calls = self.root / "calls"
        compiler = self.root / "gcc"
        compiler.write_text(f"#!/bin/sh\ncase \"$*\" in *-shared*) echo >> {calls};; esac\nexec gcc \"$@\"\n")
        compiler.chmod(0o755)
        source = """
            #include <Python.h>
            static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "opkeep_test", 0, -1, 0};
            PyMODINIT_FUNC PyInit_opkeep_test(void) { return PyModule_Create(&module); }
        """
        from triton.runtime import build

        with mock.patch.dict(os.environ, {"CC": str(compiler)}):
            # In some releases, it is remembered.
            find_compiler: Any = getattr(build, "_find_compiler", mock.Mock())
            find_compiler.cache_clear()
            self.addCleanup(find_compiler.cache_clear)
            for _ in range(3):
                self.assertEqual(compile_module_from_src(source, "opkeep_test").__name__, "opkeep_test")
                shutil.rmtree(self.kernels_dir)
        self.assertEqual(len(calls.read_text()), 1)

    def test_names_with_any_letter(self) -> None:
        # With a device, there would be rules for the objects of its architecture.
        patch = mock.patch("opkeep.triton._compile._current_target", return_value=None)
        patch.start()
        self.addCleanup(patch.stop)
        for stem in ("@add", "größe", "a--b", "a b", '"quoted"', "x" * 150):
            with self.subTest(stem):
                manager = self.manager()
                self.assertIsNone(manager.get_group(f"{stem}.json"))
                contents = {f"{stem}.json": json.dumps({"name": stem}), f"{stem}.ttir": f"code of {stem}"}
                group = {name: manager.put(content, name) for name, content in contents.items()}
                manager.put_group(f"{stem}.json", group)
                grp = Path(manager.cache_dir, f"__grp__{stem}.json").read_bytes()
                self.empty_directory()
                self.assertEqual(self.manager().get_group(f"{stem}.json"), group)
                self.assertEqual(Path(group[f"{stem}.ttir"]).read_text("utf-8"), f"code of {stem}")
                self.assertEqual(Path(manager.cache_dir, f"__grp__{stem}.json").read_bytes(), grp)


if __name__ == "__main__":
    unittest.main()
