"""JAX with the store, in processes of its own. Skipped where JAX is not installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import unittest
from importlib.metadata import Distribution
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import opkeep
import opkeep.jax._hooks
from opkeep import _native
from opkeep.jax import _cache, _toolchain
from opkeep.jax._toolchain import _content, is_known, packages, toolchain
from helper import at_most

HAS_JAX = importlib.util.find_spec("jax") is not None
WORKER = Path(__file__).with_name("jax_worker.py")


@unittest.skipUnless(HAS_JAX, "JAX is not installed: `cargo xtask frameworks` installs it")
class JaxTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = os.path.join(directory.name, "store")

    def start(self, root: str | None = None) -> subprocess.Popen[str]:
        """Start a process that uses the store, or that of another host."""
        process = subprocess.Popen(
            [sys.executable, str(WORKER), root or self.root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.addCleanup(_end, process)
        self.assertEqual(_read(process), "ready")
        return process

    def entries(self) -> list[Path]:
        return sorted(Path(self.root).rglob("*.kern"))

    def test_one_of_eight_processes_compiles(self) -> None:
        processes = [self.start() for _ in range(8)]
        for process in processes:
            _send(process, "compute 7")
        answers = [_read(process).split(" ", 1) for process in processes]
        self.assertEqual(sum(int(compiles) for compiles, _ in answers), 1, answers)
        self.assertEqual({result for _, result in answers}, {"[0.0, 8.0, 30.0, 66.0]"})

    def test_a_later_process_compiles_nothing(self) -> None:
        self.assertEqual(_ask(self.start(), "compute 3"), "1 [0.0, 4.0, 14.0, 30.0]")
        later = self.start()
        self.assertEqual(_ask(later, "compute 3"), "0 [0.0, 4.0, 14.0, 30.0]")
        self.assertEqual(_ask(later, "compute 4"), "1 [0.0, 5.0, 18.0, 39.0]")
        kernels = opkeep.verify(self.root)
        self.assertEqual((kernels["refused"], kernels["unusable"]), (0, 0), kernels)
        # The parts of the toolchain are named, so that a miss after an upgrade can be explained.
        (group, *_) = opkeep.explain(framework="jax", cache_dir=self.root)["groups"]
        parts = {part["name"]: part["note"] for part in group["toolchain"]}
        for package in ("jax", "jaxlib"):
            self.assertEqual(parts[package], importlib.metadata.version(package))
        self.assertEqual(parts["cpu"], platform.machine())

    def test_the_second_host_compiles_nothing(self) -> None:
        shared = Path(self.root + "-shared")
        shared.mkdir()
        with mock.patch.dict(os.environ, OPKEEP_REMOTE=f"file://{shared}"):
            one = self.start()
            self.assertEqual(_ask(one, "compute 3"), "1 [0.0, 4.0, 14.0, 30.0]")
            one.communicate()
            self.assertEqual(_ask(self.start(self.root + "-two"), "compute 3"), "0 [0.0, 4.0, 14.0, 30.0]")
            two = self.start(self.root + "-two")
            self.assertEqual(_ask(two, "compute 4")[0], "1")

    def test_a_damaged_entry_is_compiled_once_more(self) -> None:
        self.assertEqual(_ask(self.start(), "compute 3")[0], "1")
        for damage in (lambda data: data[: len(data) // 2], lambda data: b"", lambda data: data[:-9] + b"\0" + data[-8:]):
            for entry in self.entries():
                entry.write_bytes(damage(entry.read_bytes()))
            self.assertEqual(_ask(self.start(), "compute 3"), "1 [0.0, 4.0, 14.0, 30.0]")
            self.assertEqual(_ask(self.start(), "compute 3"), "0 [0.0, 4.0, 14.0, 30.0]")

    def test_a_failed_compile_keeps_nobody_waiting(self) -> None:
        failing, other = self.start(), self.start()
        # While it runs, others wait for it; when it has failed, not even those that keep the exception.
        self.assertEqual(_ask(failing, "fail 5"), "failed with 1 held, then 0")
        with at_most(10):
            self.assertEqual(_ask(other, "compute 5")[0], "1")
        self.assertEqual(_ask(failing, "compute 5")[0], "0")

    def test_a_killed_compile_passes_to_a_waiter(self) -> None:
        hanging, other = self.start(), self.start()
        self.assertEqual(_ask(hanging, "hang 5"), "hangs")
        _send(other, "compute 5")
        hanging.kill()
        with at_most(10):
            self.assertEqual(_read(other)[0], "1")


def modules_of_jax(**changed: object) -> dict[str, ModuleType]:
    """Return modules as those of a later JAX, some of them changed: a name by a value, or by None if it is missing."""

    def compile_or_get_cached(backend: object, devices: object, host_callbacks: object) -> None: ...

    present: dict[str, dict[str, object]] = {
        "jax": {"__version__": "99.0"},
        "jax._src": {},
        "jax._src.compiler": {"compile_or_get_cached": compile_or_get_cached},
        "jax._src.compilation_cache": dict.fromkeys(
            ("get_file_cache", "get_executable_and_time", "put_executable_and_time", "reset_cache")
        ),
        "jax._src.compilation_cache_interface": {"CacheInterface": object},
    }
    made = {}
    for name, content in present.items():
        made[name] = ModuleType(name)
        vars(made[name]).update(content)
        for path, value in changed.items():
            module, _, attribute = path.rpartition(".")
            if module == name and value is None:
                delattr(made[name], attribute)
            elif module == name:
                setattr(made[name], attribute, value)
    return made


class InterfaceTest(unittest.TestCase):
    def test_without_jax_the_text_says_so(self) -> None:
        if HAS_JAX:
            self.skipTest("JAX is installed")
        with self.assertRaisesRegex(opkeep.Error, "JAX is not installed"):
            opkeep.jax.enable("store")

    def test_keys_have_no_paths_of_this_machine(self) -> None:
        path, seen = "xla_gpu_per_fusion_autotune_cache_dir", []
        debug = SimpleNamespace(**{path: "/home/user/store-xla"})
        options = SimpleNamespace(executable_build_options=SimpleNamespace(debug_options=debug))

        def get(module: object, devices: object, compile_options: Any) -> str:
            seen.append(getattr(compile_options.executable_build_options.debug_options, path))
            if module is None:
                raise ZeroDivisionError
            return "key"

        key = opkeep.jax._hooks._key_without_paths(get)
        self.assertEqual(key("module", (), options), "key")
        with self.assertRaises(ZeroDivisionError):
            key(None, (), compile_options=options)
        # XLA gets the path nevertheless.
        self.assertEqual((seen, getattr(debug, path)), (["", ""], "/home/user/store-xla"))

    def test_only_computations_that_jax_keeps_are_waited_for(self) -> None:
        class Devices(list[SimpleNamespace]):
            def flatten(self) -> Devices:
                return self

        def is_shared(processes: tuple[int, ...] = (0, 0), callbacks: tuple[object, ...] = (), own: int = 0) -> bool:
            devices = Devices(SimpleNamespace(process_index=process) for process in processes)
            compiler = SimpleNamespace(distributed=SimpleNamespace(global_state=SimpleNamespace(process_id=own)))
            return opkeep.jax._hooks._is_shared({"devices": devices, "host_callbacks": callbacks}, compiler)

        self.assertTrue(is_shared())
        self.assertFalse(is_shared(processes=(0, 1)))
        self.assertFalse(is_shared(callbacks=(print,)))
        self.assertFalse(is_shared(own=1))

    def test_a_private_interface_that_moved_is_named(self) -> None:
        def other(backend: object) -> None: ...

        for path, value, named in (
            ("jax._src.compiler.compile_or_get_cached", None, "compile_or_get_cached"),
            ("jax._src.compilation_cache.get_file_cache", None, "get_file_cache"),
            ("jax._src.compilation_cache_interface.CacheInterface", None, "CacheInterface"),
            ("jax._src.compiler.compile_or_get_cached", other, "parameter `devices`"),
        ):
            with self.subTest(named), mock.patch.dict(sys.modules, modules_of_jax(**{path: value})):
                with self.assertRaisesRegex(opkeep.Error, "JAX 99.0 has no .*" + named) as caught:
                    opkeep.jax.enable("store")
                self.assertIn("0.10", str(caught.exception))
                self.assertTrue(caught.exception.help)

    def test_a_release_that_was_not_tested_is_named(self) -> None:
        with mock.patch.dict(sys.modules, modules_of_jax()), self.assertLogs("opkeep", "WARNING") as logs:
            opkeep.jax._hooks._modules()
        self.assertRegex(logs.output[0], r"tested with JAX 0\.10; JAX 99\.0 may")
        with mock.patch.dict(sys.modules, modules_of_jax(**{"jax.__version__": "0.10.99"})), self.assertNoLogs("opkeep"):
            opkeep.jax._hooks._modules()


class ToolchainTest(unittest.TestCase):
    """The compilers in the key. This does not need JAX."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)

    def program(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def test_programs_of_cuda_outside_of_the_packages(self) -> None:
        variables = {
            "PATH": str(self.root / "bin"),
            "CUDA_ROOT": str(self.root),
            "CUDA_HOME": str(self.root),
            "XLA_FLAGS": f"--xla_a=1 --xla_gpu_cuda_data_dir={self.root} --xla_b=2",
        }
        for variable, value in variables.items():
            with self.subTest(variable), mock.patch.dict(os.environ, {"PATH": "", variable: value}):
                for name in ("ptxas", "nvlink"):
                    self.program(name, "one")
                    before = toolchain("gpu"), toolchain("cpu")
                    self.assertEqual(toolchain("gpu"), before[0])
                    self.program(name, "another one")
                    self.assertNotEqual(toolchain("gpu"), before[0])
                    self.assertEqual(toolchain("cpu"), before[1])
        library = self.root / "nvvm/libdevice/libdevice.10.bc"
        library.parent.mkdir(parents=True)
        with mock.patch.dict(os.environ, {"PATH": "", "CUDA_ROOT": str(self.root)}):
            library.write_text("one")
            one = toolchain("gpu")
            library.write_text("another one")
            self.assertNotEqual(toolchain("gpu"), one)

    def test_a_program_that_changes_during_the_compile(self) -> None:
        cache = _cache.SharedCache(str(self.root / "store"), None, "0.10", {})

        def get_executable_and_time() -> bytes | None:
            return cache.get("add-key")

        with mock.patch.dict(os.environ, {"PATH": str(self.root / "bin")}):
            self.program("ptxas", "one")
            with _cache.Compile("gpu", is_shared=True):
                self.assertIsNone(get_executable_and_time())
                self.program("ptxas", "another one")
                cache.put("add-key", b"by the other one")
            for text in ("one", "another one"):
                self.program("ptxas", text)
                with _cache.Compile("gpu", is_shared=True):
                    self.assertIsNone(get_executable_and_time(), text)
                    cache.put("add-key", text.encode())
                with _cache.Compile("gpu", is_shared=True):
                    self.assertEqual(get_executable_and_time(), text.encode())

    def test_code_that_changes_after_the_installation(self) -> None:
        for name in ("pkg/lib.so", "pkg/lib.so.12", "pkg/bin/ptxas", "pkg/nvvm/libdevice.10.bc"):
            with self.subTest(name):
                site = Path(tempfile.mkdtemp(dir=self.root))
                info = site / "pkg-1.dist-info"
                (site / name).parent.mkdir(parents=True)
                info.mkdir()
                (site / name).write_text("one")
                (info / "METADATA").write_text("Name: pkg\nVersion: 1\n")
                (info / "RECORD").write_text(f"{name},,\npkg-1.dist-info/RECORD,,\n")
                before = _content(Distribution.at(info))
                self.assertEqual(_content(Distribution.at(info)), before)
                while (site / name).stat().st_ctime_ns <= (info / "RECORD").stat().st_ctime_ns:
                    (site / name).write_text("another")
                self.assertNotEqual(_content(Distribution.at(info)), before)

    def test_only_what_all_compilers_in_the_key_made_is_shared(self) -> None:
        libraries = Path(tempfile.mkdtemp(dir=self.root))
        of_cuda = ("nvidia-cuda-nvcc-cu12", "nvidia-cudnn-cu12")
        cases = [
            ("cpu", (), True),
            ("cuda", of_cuda, True),
            ("gpu", of_cuda, True),
            # A CUDA, a cuDNN or a ROCm of the system.
            ("gpu", of_cuda[:1], False),
            ("gpu", of_cuda[1:], False),
            ("gpu", (), False),
            ("rocm", of_cuda, False),
            ("tpu", ("libtpu",), True),
            ("tpu", (), False),
            ("unknown", (), False),
        ]
        shared = Path(tempfile.mkdtemp(dir=self.root))
        for number, (platform_name, names, is_shared) in enumerate(cases):
            parts = tuple((name, bytes(32), "1") for name in names)
            with (
                self.subTest(platform_name, names=names),
                mock.patch.object(_toolchain, "packages", lambda: parts),
                mock.patch.dict(os.environ, LD_LIBRARY_PATH=str(libraries)),
            ):
                self.assertEqual(is_known(platform_name), is_shared)
                remote = {"remote": f"file://{shared}", "remote_namespace": f"case-{number}"}
                cache = _cache.SharedCache(str(self.root / f"store-{number}"), None, "0.10", remote)
                with _cache.Compile(platform_name, is_shared=True) as compile:
                    cache.put("add-key", b"code")
                    cache._cache(compile).close()
                self.assertEqual((shared / f"v1/case-{number}").exists(), is_shared)
                # Nor does the command send it later.
                pushed = self.push(self.root / f"store-{number}", f"file://{shared}", f"later-{number}")
                self.assertEqual(pushed, (1, 0) if is_shared else (0, 1))
        (libraries / "libcudnn.so.9").touch()
        with (
            mock.patch.object(_toolchain, "packages", lambda: tuple((name, bytes(32), "1") for name in of_cuda)),
            mock.patch.dict(os.environ, LD_LIBRARY_PATH=f"/nonexistent:{libraries}"),
        ):
            self.assertEqual([is_known(name) for name in ("gpu", "cpu")], [False, True])

    def push(self, store: Path, url: str, namespace: str) -> tuple[int, int]:
        """Send all of a store by the command. Return the numbers of entries that were sent, and that stay here."""
        arguments = ["remote", "push", url, "--all", f"--op_compiler_cache_dir={store}", f"--remote-namespace={namespace}"]
        text, _, error = _native.run(arguments, lambda level, text: None)
        self.assertIsNone(error)
        (target,) = json.loads(text)["targets"]
        return target["sent"], target["skipped"]

    def test_an_unexpected_exception_fails_no_compile(self) -> None:
        cache = _cache.SharedCache(str(self.root / "store"), None, "0.10", {})

        def get_executable_and_time() -> bytes | None:
            return cache.get("add-key")

        with _cache.Compile("cpu", is_shared=True), self.assertLogs("opkeep", "WARNING") as logs:
            with mock.patch.object(_cache, "toolchain", side_effect=ValueError("no package")):
                self.assertIsNone(get_executable_and_time())
                cache.put("add-key", b"code")
        self.assertEqual(len(logs.output), 2, logs.output)
        with (
            _cache.Compile("cpu", is_shared=True),
            # As that of a signal handler of the program.
            mock.patch.object(opkeep.Cache, "get_or_begin", side_effect=ZeroDivisionError),
            self.assertRaises(ZeroDivisionError),
        ):
            get_executable_and_time()

    def test_arguments(self) -> None:
        for arguments, kind, text in (
            ({"timeout": "x"}, opkeep.ArgumentError, "timeout: expected a number of seconds, found `str`"),
            ({"timeout": -1}, opkeep.ArgumentValueError, "timeout: expected 0 seconds or more, found -1"),
            ({"timeout": float("nan")}, opkeep.ArgumentValueError, "timeout: expected 0 seconds or more"),
            ({"root": 3}, opkeep.ArgumentError, "root: expected a path, found `int`"),
            ({"root": ""}, opkeep.ArgumentValueError, "root: expected a path, found an empty text"),
            ({"remote": 3}, opkeep.ArgumentError, "remote: expected a text, found `int`"),
            ({"remote": "ftp://host"}, opkeep.SettingsError, "^remote: "),
            ({"trusted_keys": "none"}, opkeep.SettingsError, "^trusted_keys: "),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(kind, text):
                opkeep.jax.enable(**arguments)

    @unittest.skipUnless(HAS_JAX, "JAX is not installed: `cargo xtask frameworks` installs it")
    def test_disabling_gives_jax_its_settings_back(self) -> None:
        jax: Any = importlib.import_module("jax")
        names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")

        def settings() -> list[object]:
            return [getattr(jax.config, name) for name in names]

        self.addCleanup(opkeep.jax.disable)
        before = settings()
        for store in ("one", "two"):
            opkeep.jax.enable(self.root / store)
            self.assertEqual(settings(), [f"{self.root / store}-xla", 0.0])
        opkeep.jax.disable()
        self.assertEqual(settings(), before)
        opkeep.jax.disable()
        # What the program sets stays.
        for name, value in zip(names, before):
            self.addCleanup(jax.config.update, name, value)
        opkeep.jax.enable(self.root / "one", timeout=0)
        jax.config.update(names[0], str(self.root / "own"))
        opkeep.jax.disable()
        self.assertEqual(settings(), [str(self.root / "own"), before[1]])

    @unittest.skipUnless(HAS_JAX, "JAX is not installed: `cargo xtask frameworks` installs it")
    def test_the_directory_of_xla_lies_beside_the_store(self) -> None:
        jax: Any = importlib.import_module("jax")
        self.addCleanup(opkeep.jax.disable)
        for root, directory in ((f"{self.root}/store/", self.root / "store-xla"), (".", f"{os.getcwd()}-xla")):
            opkeep.jax.enable(root)
            self.assertEqual(jax.config.jax_compilation_cache_dir, str(directory))

    @unittest.skipUnless(HAS_JAX, "JAX is not installed: `cargo xtask frameworks` installs it")
    def test_a_failure_while_it_is_enabled_leaves_jax_as_it_was(self) -> None:
        jax: Any = importlib.import_module("jax")
        modules = [importlib.import_module(f"jax._src.{name}") for name in ("compiler", "compilation_cache")]

        def state() -> list[object]:
            names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
            functions = [modules[0].compile_or_get_cached, modules[1].get_file_cache]
            return [getattr(jax.config, name) for name in names] + functions

        hooks, before = opkeep.jax._hooks, state()
        for target, name in ((hooks, "_shared_compile"), (hooks, "_file_cache"), (modules[1], "reset_cache")):
            with self.subTest(name):
                failing = mock.patch.object(target, name, side_effect=[ZeroDivisionError, None])
                with failing, self.assertRaises(ZeroDivisionError):
                    opkeep.jax.enable(self.root / "store")
                self.assertEqual(state(), before)

    @unittest.skipUnless(HAS_JAX, "JAX is not installed: `cargo xtask frameworks` installs it")
    def test_the_packages_are_those_of_the_moment_when_it_was_enabled(self) -> None:
        packages.cache_clear()
        self.addCleanup(opkeep.jax.disable)
        opkeep.jax.enable(self.root / "store")
        self.assertEqual(packages.cache_info().currsize, 1)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _send(process: subprocess.Popen[str], command: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{command}\n")
    process.stdin.flush()


def _read(process: subprocess.Popen[str]) -> str:
    """Return the next answer; an empty text if there is none within a minute."""
    assert process.stdout is not None
    limit = threading.Timer(60, process.kill)
    limit.start()
    try:
        return process.stdout.readline().strip()
    finally:
        limit.cancel()


def _ask(process: subprocess.Popen[str], command: str) -> str:
    _send(process, command)
    return _read(process)


if __name__ == "__main__":
    unittest.main()
