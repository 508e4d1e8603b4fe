"""The content of a key: whatever decides a kernel or a launcher is in it, and nothing else."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
import types
import unittest
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from triton_helper import TritonTest

NEVER = 1 << 62
"""A time that no file has."""


class KeyTest(TritonTest):
    """A test of the parts of a key."""

    def setUp(self) -> None:
        super().setUp()
        from opkeep.triton import _loaded, _toolchain

        self.loaded, self.toolchain = _loaded, _toolchain
        self.forget()

    def forget(self) -> None:
        """Go on as a new process: nothing is loaded."""
        self.loaded._contents.clear()
        self.loaded._replaced.clear()
        self.loaded._packages.clear()
        self.toolchain._digests.clear()
        self.toolchain._version_of.cache_clear()

    def key(self, target: tuple[str, object, int] | None = None, backend: Any = None, options: Any = None) -> Any:
        """Return the key of a compile."""
        from opkeep.triton._compile import Compile

        chosen = None if target is None else self.kernels.GPUTarget(*target)
        return self.toolchain.toolchain_of(Compile(chosen, backend, options, False))

    def parts(self, key: Callable[[], object]) -> dict[str, str]:
        """Return the parts of a key: names, with paths or texts."""
        found: dict[str, str] = {}
        with (
            mock.patch.object(self.toolchain, "_add_file", lambda _, name, path, note="": found.update({name: path})),
            mock.patch.object(self.toolchain, "_add_text", lambda _, name, text: found.update({name: text})),
        ):
            key()
        return found

    def program(self, name: str, text: str = "") -> Path:
        """Write a program."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n# {text}\n")
        path.chmod(0o755)
        return path


class SettingsTest(KeyTest):
    """Variables and knobs."""

    def test_variables_that_decide_the_code_are_in_the_key(self) -> None:
        without = self.key()
        for name in (
            "TRITON_F32_DEFAULT",
            "TRITON_ALL_BLOCKS_PARALLEL",
            "TRITON_ENABLE_SANITIZER",
            "TRITON_DISABLE_FFTS",
            "TRITON_STORE_BINARY_ONLY",
            "TRITON_DUMP_MIR",
            "ENABLE_PRINT_UB_BITS",
            "AMDGCN_SCALARIZE_PACKED_FOPS",
            "AMDGCN_ANALYZE_SMALL_TENSOR_RANGE",
            "DISABLE_PTXAS_OPT",
            "DISABLE_LLVM_OPT",
            "DISABLE_MMA_V5",
            "PTXAS_OPTIONS",
            "LLVM_EXTRACT_DI_LOCAL_VARIABLES",
            "TRITON_OF_A_LATER_RELEASE",
        ):
            with self.subTest(name):
                with mock.patch.dict(os.environ, {name: "1"}):
                    one = self.key()
                with mock.patch.dict(os.environ, {name: "0"}):
                    self.assertNotIn(self.key(), (without, one))
                self.assertNotEqual(one, without)
                self.assertEqual(self.key(), without)

    def test_variables_that_differ_between_processes_of_a_job_are_not(self) -> None:
        without = self.key()
        for name in (
            "TRITON_CACHE_DIR",
            "TRITON_HOME",
            "TRITON_DUMP_DIR",
            "TRITON_KERNEL_DUMP",
            "TRITON_ALWAYS_COMPILE",
            "TRITON_PRINT_AUTOTUNING",
            "TRITON_CACHE_MANAGER",
            "TRITON_PTXAS_PATH",
            "MLIR_ENABLE_DUMP",
            "RANK",
            "PATH",
        ):
            with self.subTest(name), mock.patch.dict(os.environ, {name: "another"}):
                self.assertEqual(self.key(), without)

    def test_variables_of_any_bytes(self) -> None:
        keys = []
        for value in (b"\xff", b"\xfe"):
            with mock.patch.dict(os.environ, {"TRITON_F32_DEFAULT": os.fsdecode(value)}):
                keys.append(self.key())
        self.assertNotEqual(*keys)

    def test_an_environment_that_is_replaced(self) -> None:
        without = self.key()
        with mock.patch.object(os, "environ", {"TRITON_F32_DEFAULT": "ieee"}):
            self.assertNotEqual(self.key(), without)

    def test_explain_names_the_variable(self) -> None:
        import opkeep

        self.kernels.compile()
        with mock.patch.dict(os.environ, {"AMDGCN_OF_A_LATER_RELEASE": "1"}):
            self.kernels.compile()
            self.kernels.compile()
        self.assert_compiled(2)
        groups = opkeep.explain(framework="triton", kernel="add")["groups"]
        differences = [text for group in groups for text in group["differences"]]
        self.assertEqual(len(differences), 1, differences)
        self.assertIn("AMDGCN_OF_A_LATER_RELEASE", differences[0])

    def test_knobs_that_the_environment_has_not(self) -> None:
        try:
            from triton import knobs
        except ImportError:
            self.skipTest("this Triton has no knobs")
        with mock.patch.dict(os.environ, {"DISABLE_PTXAS_OPT": "1"}):
            by_variable = self.key()
        without = self.key()
        self.kernels.compile()
        self.addCleanup(vars(knobs.nvidia).pop, "disable_ptxas_opt", None)
        with mock.patch.object(knobs, "propagate_env", False):
            knobs.nvidia.disable_ptxas_opt = True
            self.assertEqual(self.key(), by_variable)
            self.kernels.compile()
            self.assert_compiled(2)
            knobs.nvidia.disable_ptxas_opt = None
            with mock.patch.dict(os.environ, {"DISABLE_PTXAS_OPT": "1"}):
                self.assertEqual(self.key(), without)
        vars(knobs.nvidia).pop("disable_ptxas_opt")
        self.kernels.compile()
        self.assert_compiled(0)


class ContentTest(KeyTest):
    """Files that a compile reads, runs or loads."""

    def test_bitcode_libraries(self) -> None:
        library = self.root / "my.bc"
        options = SimpleNamespace(extern_libs=(("my", str(library)),))
        backend = type("Other", (), {"hash": lambda self: ""})()
        for target in (self.kernels.CUDA, ("other", "x", 0)):
            library.write_text("add")
            before = self.key(target, backend, options)
            library.write_text("multiply")
            self.assertNotEqual(self.key(target, backend, options), before)

    def test_the_linker_of_rocm(self) -> None:
        linker = self.program("ld.lld", "one")
        module = types.ModuleType("triton.backends.amd.compiler")
        module.HIPBackend = SimpleNamespace(path_to_rocm_lld=lambda: linker)  # type: ignore[attr-defined]
        with mock.patch.object(self.toolchain, "_module", return_value=module):
            before = self.key(self.kernels.HIP)
            self.program("ld.lld", "another")
            self.assertNotEqual(self.key(self.kernels.HIP), before)

    def test_libraries_of_the_address_sanitizer(self) -> None:
        with mock.patch.dict(os.environ, {"TRITON_ENABLE_ASAN": "1"}):
            module = types.ModuleType("triton.backends.amd.compiler")
            module.__file__ = str(self.root / "compiler.py")
            library = self.program("lib/asanrtl.bc", "one")
            with mock.patch.object(self.toolchain, "_module", return_value=module):
                before = self.key(self.kernels.HIP)
                library.write_text("another")
                self.assertNotEqual(self.key(self.kernels.HIP), before)

    def test_plug_ins(self) -> None:
        for variable in ("LLVM_PASS_PLUGIN_PATH", "TRITON_PLUGIN_PATHS"):
            plug_in = self.program(f"{variable}/plug.so", "one")
            with self.subTest(variable), mock.patch.dict(os.environ, {variable: str(plug_in)}):
                before = self.key()
                self.program(f"{variable}/plug.so", "another")
                with self.assertRaises(self.loaded.ReplacedError):
                    self.key()
                self.forget()
                self.assertNotEqual(self.key(), before)

    def test_the_compiler_of_ascend_is_the_one_that_runs(self) -> None:
        running, other = self.program("npu/npuc", "one"), self.program("home/bin/bishengir-compile", "one")
        module = types.ModuleType("ascend")
        module.__file__ = str(self.root / "compiler.py")
        module._get_npucompiler_path = lambda: str(running)  # type: ignore[attr-defined]
        target = ("npu", "Ascend910_9579", 0)
        with (
            mock.patch.object(self.toolchain, "_module", return_value=module),
            mock.patch.dict(os.environ, {"ASCEND_HOME_PATH": str(self.root / "home")}),
        ):
            before = self.key(target)
            self.program("home/bin/bishengir-compile", "another")
            self.assertEqual(self.key(target), before)
            self.program("npu/npuc", "another")
            self.assertNotEqual(self.key(target), before)
            for file in ("home/version.info", "version.info", "triton-adapter-opt"):
                before = self.key(target)
                (self.root / file).write_text("another toolkit")
                self.assertNotEqual(self.key(target), before, file)
            del module._get_npucompiler_path
            with mock.patch.dict(os.environ, {"PATH": str(other.parent)}):
                self.assertIn("bishengir-compile", self.parts(lambda: self.key(target)))

    def other_backend(self) -> tuple[Any, Path]:
        """Return a backend of a package, and its directory."""
        directory = Path(tempfile.mkdtemp(dir=self.root)) / "package_of_a_backend"
        directory.mkdir()
        (directory / "__init__.py").touch()
        (directory / "compiler.py").write_text("class Backend:\n    def hash(self): return ''\n")
        names: dict[str, Any] = {}
        code = compile((directory / "compiler.py").read_text(), str(directory / "compiler.py"), "exec")
        exec(code, names)
        return names["Backend"](), directory

    def test_the_code_of_other_backends(self) -> None:
        with mock.patch.object(self.loaded, "_load_time", return_value=NEVER):
            backend, directory = self.other_backend()
            before = self.key(("xpu", "x", 0), backend)
            (directory / "passes.so").write_text("one")
            # It is loaded already.
            self.assertEqual(self.key(("xpu", "x", 0), backend), before)
            self.forget()
            self.assertNotEqual(self.key(("xpu", "x", 0), backend), before)
        self.forget()
        with self.assertRaises(self.loaded.ReplacedError):
            self.key(("xpu", "x", 0), backend)
        with self.assertRaises(LookupError):
            self.key(("xpu", "x", 0), None)

    def test_a_module_of_another_name(self) -> None:
        # Before Triton 3.3, the module of the backend is called `nvidia`, as is the package of CUDA's wheels.
        backend = type("CUDABackend", (), {"__module__": "nvidia"})()
        with mock.patch.dict(sys.modules, {"nvidia": types.ModuleType("nvidia")}):
            self.assertIn("ptxas", self.parts(lambda: self.key(self.kernels.CUDA, backend)))

    def test_the_tools_of_the_processor(self) -> None:
        with mock.patch.object(self.loaded, "_load_time", return_value=NEVER):
            backend, _ = self.other_backend()
            tools = {"MLIR_ROOT": ("bin/mlir-opt", "bin/mlir-translate"), "LLVM_ROOT": ("bin/llvm-link", "bin/llc")}
            for variable, names in tools.items():
                for name in names:
                    with mock.patch.dict(os.environ, {variable: str(self.root)}):
                        self.program(name, "one")
                        before = self.key(("cpu", "x", 0), backend)
                        self.program(name, "another")
                        self.assertNotEqual(self.key(("cpu", "x", 0), backend), before, name)


class LauncherTest(KeyTest):
    """Libraries that are built for this machine."""

    def manager(self) -> Any:
        from opkeep.triton import CacheManager

        return CacheManager("KEY")

    def test_a_compiler_that_is_replaced_while_it_runs(self) -> None:
        with mock.patch.dict(os.environ, {"CC": str(self.program("cc", "old"))}):
            manager = self.manager()
            self.assertIsNone(manager.get_file("a.so"))
            self.program("cc", "new")
            manager.put(b"built by the new one", "a.so")
            self.assertFalse(manager.has_ticket)
            self.program("cc", "old")
            self.assertIsNone(self.manager().get_file("a.so"))

    def test_a_compiler_that_is_gone(self) -> None:
        with mock.patch.dict(os.environ, {"CC": str(self.program("cc", "old"))}):
            manager = self.manager()
            manager.get_file("a.so")
            with mock.patch.object(self.toolchain, "_version_of", side_effect=FileNotFoundError("cc")):
                with self.assertLogs("opkeep", "WARNING"):
                    path = manager.put(b"built", "a.so")
            self.assertEqual(Path(path).read_bytes(), b"built")
            self.assertFalse(manager.has_ticket)
            self.assertIsNone(self.manager().get_file("a.so"))

    def test_variables_of_the_compiler(self) -> None:
        without = self.toolchain.host_toolchain(True)
        for name in (
            "CC",
            "CXX",
            "CPATH",
            "C_INCLUDE_PATH",
            "CPLUS_INCLUDE_PATH",
            "LIBRARY_PATH",
            "TRITON_CUDACRT_PATH",
            "TRITON_CUDART_PATH",
            "TRITON_LIBCUDA_PATH",
        ):
            with self.subTest(name), mock.patch.dict(os.environ, {name: "/opt/one"}):
                self.assertNotEqual(self.toolchain.host_toolchain(True), without)

    def test_what_a_library_is_built_for(self) -> None:
        without = self.toolchain.host_toolchain(True)
        for module, function, value in (
            (self.toolchain.platform, "libc_ver", ("glibc", "2.99")),
            (self.toolchain.sysconfig, "get_config_var", "cpython-399-x86_64-linux-gnu"),
            (self.toolchain._stock, "version", "99.0"),
        ):
            with self.subTest(function), mock.patch.object(module, function, return_value=value):
                self.assertNotEqual(self.toolchain.host_toolchain(True), without)

    def test_a_compiler_that_is_a_function_of_the_program(self) -> None:
        try:
            from triton import knobs

            knobs.build.impl  # noqa: B018
        except (ImportError, AttributeError):
            self.skipTest("this Triton has no such setting")
        manager = self.manager()
        manager.get_file("a.so")
        manager.put(b"built by a compiler", "a.so")
        self.addCleanup(vars(knobs.build).pop, "impl", None)
        knobs.build.impl = lambda *_: ""
        manager = self.manager()
        self.assertIsNone(manager.get_file("a.so"))
        self.assertEqual(Path(manager.put(b"built by the function", "a.so")).read_bytes(), b"built by the function")
        del knobs.build.impl
        self.assertEqual(Path(self.manager().get_file("a.so")).read_bytes(), b"built by a compiler")

    def test_each_compiler_that_may_run(self) -> None:
        for name in ("gcc", "g++", "clang", "clang++"):
            with mock.patch.dict(os.environ, {"PATH": str(self.root)}):
                self.program(name, "15")
                before = self.toolchain.host_toolchain(True)
                self.program(name, "18")
                self.assertNotEqual(self.toolchain.host_toolchain(True), before, name)

    def test_a_compiler_behind_a_script(self) -> None:
        version = self.root / "version"
        script = self.root / "cc"
        script.write_text(f"#!/bin/sh\nexec cat {version}\n")
        script.chmod(0o755)
        with mock.patch.dict(os.environ, {"CC": str(script)}):
            version.write_text("15")
            before = self.toolchain.host_toolchain(True)
            version.write_text("18")
            self.assertEqual(self.toolchain.host_toolchain(True), before, "the script was run again")
            # As before a launcher is published.
            self.toolchain.forget_versions()
            self.assertNotEqual(self.toolchain.host_toolchain(True), before)

    def test_a_compiler_behind_a_script_that_changes_meanwhile(self) -> None:
        from opkeep.triton import CacheManager

        version, script = self.root / "version", self.root / "cc"
        script.write_text(f"#!/bin/sh\nexec cat {version}\n")
        script.chmod(0o755)
        with mock.patch.dict(os.environ, {"CC": str(script)}):
            version.write_text("15")
            manager = CacheManager("KEY")
            self.assertIsNone(manager.get_file("a.so"))
            version.write_text("18")
            manager.put(b"of 15 or 18", "a.so")
            version.write_text("15")
            self.forget()
            manager = CacheManager("KEY")
            self.assertIsNone(manager.get_file("a.so"))
            manager.put(b"of 15", "a.so")
            self.assertIsNotNone(CacheManager("KEY").get_file("a.so"))

    def test_only_a_compiler_that_runs_another_is_run(self) -> None:
        for real, runs in (("gcc-12", 0), ("clang-14", 0), ("ccache", 1)):
            shutil.copy(shutil.which("true") or "/bin/true", self.root / real)
            link = self.root / "gcc"
            link.symlink_to(real)
            self.forget()
            with mock.patch.dict(os.environ, {"PATH": str(self.root)}):
                for variable in ("CC", "CXX"):
                    os.environ.pop(variable, None)
                with mock.patch.object(self.toolchain.subprocess, "run", wraps=self.toolchain.subprocess.run) as run:
                    self.toolchain.host_toolchain(True)
            self.assertEqual(run.call_count, runs, real)
            link.unlink()

    def test_headers_of_ascend(self) -> None:
        for package in ("torch", "torch_npu"):
            (self.root / package).mkdir()
            (self.root / package / "__init__.py").touch()
            (self.root / package / "version.py").write_text("1")
        (self.root / "version.info").write_text("1")
        with (
            mock.patch.object(sys, "path", [str(self.root), *sys.path]),
            mock.patch.dict(sys.modules, {"triton.backends.ascend": types.ModuleType("ascend")}),
            mock.patch.dict(os.environ, {"ASCEND_HOME_PATH": str(self.root)}),
        ):
            for name in ("torch", "torch_npu"):
                sys.modules.pop(name, None)
            for file in ("torch/version.py", "torch_npu/version.py", "version.info"):
                before = self.toolchain.host_toolchain(True)
                (self.root / file).write_text("2, another")
                self.assertNotEqual(self.toolchain.host_toolchain(True), before, file)

    def test_they_never_leave_the_machine(self) -> None:
        import opkeep

        manager = self.manager()
        manager.get_file("a.so")
        manager.put(b"content", "a.so")
        self.kernels.compile()
        groups = [opkeep.inspect(path)["files"][0]["fields"] for path in self.store.rglob("*.kern")]
        self.assertEqual({fields["name"]: "local" in fields for fields in groups}, {"a.so": True, "add.json": False})


class KeptTest(KeyTest):
    """Kernels that are not kept."""

    def test_knobs_that_no_key_can_state(self) -> None:
        try:
            from triton import knobs
        except ImportError:
            self.skipTest("this Triton has no knobs")
        listener, other = mock.Mock(), mock.Mock()
        with mock.patch.dict(vars(knobs.compilation), {"listener": listener}):
            self.kernels.compile()
        with mock.patch.dict(vars(knobs.compilation), {"of_a_later_release": other}):
            with self.assertLogs("opkeep", "WARNING") as logs:
                self.kernels.compile()
                self.kernels.compile()
        self.assertIn("knobs.compilation.of_a_later_release", logs.output[0])
        self.assert_compiled(3)
        self.kernels.compile()
        self.assert_compiled(0)

    def test_a_hook_that_changes_the_steps_of_a_compile(self) -> None:
        settings = importlib.import_module("opkeep.triton._settings")
        try:
            from triton import knobs
        except ImportError:
            self.skipTest("this Triton has no knobs")
        with mock.patch.dict(vars(knobs.runtime), {"add_stages_inspection_hook": mock.Mock()}):
            with mock.patch.object(settings, "_is_in_key", return_value=True):
                settings.settings_of_kernels()
            with mock.patch.object(settings, "_is_in_key", return_value=False):
                with self.assertRaises(settings.SettingError):
                    settings.settings_of_kernels()
        release = tuple(int(part) for part in sys.modules["triton"].__version__.split(".")[:2])
        self.assertEqual(settings._is_in_key("add_stages_inspection_hook"), release >= (3, 7))

    def test_an_override_of_one_kernel(self) -> None:
        import triton
        from triton.backends.nvidia.compiler import CUDAOptions

        if not hasattr(CUDAOptions, "ir_override"):
            self.skipTest("this Triton has no overrides of one kernel")
        right = self.kernels.compile()
        override = self.root / "mine.ptx"
        override.write_text(right.asm["ptx"].replace("add.f32", "sub.f32"))
        source = right.src
        for _ in range(2):
            kernel = triton.compile(
                source, target=self.kernels.GPUTarget(*self.kernels.CUDA), options={"ir_override": str(override)}
            )
            self.assertNotEqual(kernel.asm["cubin"], right.asm["cubin"])
        self.assert_compiled(3)

    def test_swapped_machine_code(self) -> None:
        try:
            from triton import knobs

            knobs.amd.swap_mir  # noqa: B018
        except (ImportError, AttributeError):
            self.skipTest("this Triton does not swap machine code")
        from opkeep.triton._compile import compile_in, frame_of_compile

        names: dict[str, Any] = {"__name__": "triton.compiler.compiler", "sys": sys}
        exec("def compile(target, backend, options):\n    return sys._getframe()", names)
        for target, is_overridden in ((self.kernels.HIP, True), (self.kernels.CUDA, False)):
            with mock.patch.dict(os.environ, {"TRITON_SWAP_MIR": str(self.root)}):
                frame = frame_of_compile(names["compile"](self.kernels.GPUTarget(*target), None, None))
                self.assertEqual(compile_in(frame).is_overridden, is_overridden)

    def test_a_function_of_this_name_elsewhere_is_no_compile(self) -> None:
        from opkeep.triton._compile import frame_of_compile

        for module, is_compile in (("triton.compiler.compiler", True), ("torch.compiler.compiler", False), ("__main__", False)):
            names: dict[str, Any] = {"__name__": module, "sys": sys}
            exec("def compile():\n    return sys._getframe()", names)
            self.assertEqual(frame_of_compile(names["compile"]()) is not None, is_compile, module)

    def test_an_object_that_is_none(self) -> None:
        from opkeep.triton import CacheManager, _manager
        from opkeep.triton._compile import Compile

        for target, suffix in ((self.kernels.HIP, "hsaco"), (self.kernels.CUDA, "cubin")):
            compile = Compile(self.kernels.GPUTarget(*target), SimpleNamespace(binary_ext=suffix), None, False)
            with (
                self.subTest(suffix),
                mock.patch.object(_manager, "compile_in", return_value=compile),
                mock.patch.object(_manager, "toolchain_of", return_value=self.key()),
                mock.patch.object(_manager, "toolchain_after", return_value=self.key()),
                self.assertLogs("opkeep", "WARNING") as logs,
            ):
                from opkeep.triton import _log

                _log._warned.clear()
                manager = CacheManager(suffix)
                self.assertIsNone(manager.get_group("add.json"))
                files = {"add.json": b'{"name": "add"}', f"add.{suffix}": b"\x7fELF, and no object"}
                manager.put_group("add.json", {name: manager.put(content, name) for name, content in files.items()})
                self.assertFalse(manager.has_ticket)
                self.assertIn("is not kept", logs.output[0])
                self.assertIsNone(CacheManager(suffix).get_group("add.json"))


if __name__ == "__main__":
    unittest.main()
