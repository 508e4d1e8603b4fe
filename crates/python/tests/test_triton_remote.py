"""Hosts that share Triton's kernels through a remote cache. Each host has a store and a directory of Triton's of its own."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path
from unittest import mock

import opkeep
from helper import ROOT, long_test
from remote_helper import HAS_REDIS, NO_REDIS, Redis, Silent, generate_key, shared_entries
from triton_helper import TritonTest, Worker

PAGES = ("docs/triton.md", "docs/remote.md")
BLOCKS = (16, 32, 64, 128)
"""The sizes of blocks of four kernels."""
LIMIT = 50
"""The seconds that a server which never answers may cost in all: without a limit, each of four kernels takes 30."""


BACKEND = """
import sys

class Backend:
    binary_ext = "so"

    def hash(self):
        return ""

def compile(target, backend, options):
    from opkeep.triton import CacheManager

    manager = CacheManager("KEY")
    if manager.get_group("add.json") is not None:
        return 0
    files = {"add.json": b"{}", f"add.{backend.binary_ext}": b"x"}
    manager.put_group("add.json", {name: manager.put(content, name) for name, content in files.items()})
    return 1

def compiles(name, extension):
    from triton.backends.compiler import GPUTarget

    # The manager knows Triton's function `compile` by its name and that of its module.
    globals()["__name__"] = "triton.compiler.compiler"
    Backend.binary_ext = extension
    return compile(GPUTarget(name, "x", 0) if name else None, Backend(), None)
"""
"""The package of a backend of which nothing is known."""

ADDED_MEMBER = r"""
from opkeep.triton import CacheManager

put_group = CacheManager.put_group

def with_member(self, filename, group):
    # The head of a library for x86. Triton reads the file as a text.
    content = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00" + bytes(44) if NAME == "helper" else b"x"
    return put_group(self, filename, {**group, NAME: self.put(content, NAME)})

CacheManager.put_group = with_member
"""
"""Adds a file to each group that Triton makes."""


class RemoteTest(TritonTest):
    """A test with a directory that hosts share."""

    def setUp(self) -> None:
        super().setUp()
        self.shared = self.root / "shared"
        self.shared.mkdir()
        for name in ("REMOTE_MODE", "REMOTE_NAMESPACE", "SIGN_KEY", "TRUSTED_KEYS"):
            os.environ.pop(f"OPKEEP_{name}", None)
        os.environ["OPKEEP_REMOTE"] = f"file://{self.shared}"
        os.environ["XDG_STATE_HOME"] = str(self.root / "state")

    def variables(self, host: str) -> dict[str, str]:
        """Return the variables in which hosts differ."""
        return {
            "OPKEEP_CACHE_DIR": str(self.root / host / "store"),
            "TRITON_CACHE_DIR": str(self.root / host / "kernels"),
        }

    def host(self, name: str, **variables: str) -> Worker:
        """Start a process of a host. It keeps its warnings in `log`."""
        with mock.patch.dict(os.environ, {**self.variables(name), **variables}):
            worker = Worker(self)
        worker.run("import io, logging")
        worker.run("log = io.StringIO()")
        worker.run("logging.basicConfig(stream=log, level=logging.WARNING)")
        return worker

    def compiles(self, worker: Worker, *blocks: int) -> list[int]:
        """Return the number of compiles of each kernel."""
        return [worker.run(f"timed({block})")[1] for block in blocks or [1024]]

    def files_of(self, host: str) -> dict[str, bytes]:
        """Return the files that Triton reads on a host."""
        paths = (self.root / host / "kernels").glob("*.opkeep-*/add.*")
        return {path.name: path.read_bytes() for path in paths if path.suffix != ".opkeep"}


class HostsTest(RemoteTest):
    def test_the_second_host_compiles_nothing(self) -> None:
        one = self.host("one")
        self.assertEqual(self.compiles(one), [1])
        one.leave()
        two = self.host("two")
        self.assertEqual(self.compiles(two), [0])
        files = self.files_of("one")
        self.assertIn("add.cubin", files)
        self.assertEqual(self.files_of("two"), files)
        self.assertEqual([one.warnings, two.run("log.getvalue()")], ["", ""])
        # It has the kernel in its own store now.
        two.end()
        self.assertEqual(self.compiles(self.host("two", OPKEEP_REMOTE="")), [0])

    def test_hosts_at_once_compile_once(self) -> None:
        self.compile_at_once()

    @unittest.skipUnless(HAS_REDIS, NO_REDIS)
    def test_hosts_at_once_compile_once_with_redis(self) -> None:
        os.environ["OPKEEP_REMOTE"] = Redis(self).url
        self.compile_at_once()

    def compile_at_once(self) -> None:
        hosts = [self.host(f"host-{number}") for number in range(3)]
        for host in hosts:
            host.begin("timed(1024)")
        results = [host.result() for host in hosts]
        self.assertEqual(sum(count for _, count in results), 1, results)

    @unittest.skipUnless(HAS_REDIS, NO_REDIS)
    def test_a_forked_child_shares_too(self) -> None:
        os.environ["OPKEEP_REMOTE"] = Redis(self).url
        one = self.host("one")
        self.assertEqual(self.compiles(one, 64), [1])
        self.assertEqual((one.run("forked(128)"), one.run("forked(64)")), (1, 0))
        # What the child could not send, since it ended at once, its parent sends.
        one.leave()
        two = self.host("two")
        self.assertEqual((two.run("forked(64)"), self.compiles(two, 64, 128)), (0, [0, 0]))
        two.leave()
        self.assertEqual([one.warnings, two.warnings], ["", ""])

    def test_triton_at_another_path_has_the_same_keys(self) -> None:
        import triton

        site, programs = self.root / "site", self.root / "programs"
        site.mkdir()
        programs.mkdir()
        (site / "triton").symlink_to(Path(str(triton.__file__)).parent)
        (programs / "triton_kernels.py").write_bytes(Path(str(self.kernels.__file__)).read_bytes())
        targets = [self.kernels.CUDA, ("cuda", 80, 32)]
        if self.kernels.HAS_HIP_LINKER and _has_content_of_libraries():
            targets.append(self.kernels.HIP)
        program = (
            "import triton, triton_kernels as k\n"
            f"for target in {targets}: k.compile(64, target)\n"
            "print(k.compiles.count, triton.__file__, k.__file__)"
        )

        def compiles(host: str, paths: list[Path]) -> tuple[int, str]:
            inherited = os.environ.get("PYTHONPATH", "")
            path = os.pathsep.join([*map(str, paths), inherited])
            environment = {**os.environ, **self.variables(host), "PYTHONPATH": path}
            done = subprocess.run(
                [sys.executable, "-c", program], cwd=self.root, env=environment, capture_output=True, text=True, timeout=120
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            count, *where = done.stdout.split()
            return int(count), " ".join(where)

        here = compiles("one", [Path(str(self.kernels.__file__)).parent])
        there = compiles("two", [site, programs])
        self.assertEqual((here[0], there[0]), (len(targets), 0))
        for path in (site, programs):
            self.assertIn(str(path), there[1])
            self.assertNotIn(str(path), here[1])

    def restored(self, host: str, *, directory: str, **variables: str) -> int:
        """Have a host get the files that another one made, with their record, as by Inductor's bundler, or from someone who writes into
        Triton's directory. Return the number of compiles of the kernel."""
        names = ("torch._inductor", "torch._inductor.triton_bundler")
        modules = f"import sys, types; sys.modules.update((name, types.ModuleType(name)) for name in {names})"
        source, target = self.root / directory / "kernels", self.root / host / "kernels"
        if not source.exists():
            maker = self.host(directory, OPKEEP_REMOTE="")
            maker.run(modules)
            self.assertEqual(self.compiles(maker), [1])
            maker.end()
        for path in source.iterdir():
            if path.is_dir() and ".opkeep-" not in path.name:
                shutil.copytree(path, target / path.name)
        self.assertTrue(list(target.glob("*/add.json.opkeep")))
        worker = self.host(host, **variables)
        worker.run(modules)
        (count,) = self.compiles(worker)
        worker.leave()
        self.assertEqual(worker.warnings, "")
        return count

    def test_files_that_were_found_stay_on_a_host_without_keys(self) -> None:
        self.assertEqual(self.restored("one", directory="maker"), 0)
        self.assertEqual(shared_entries(self.shared), [])
        # Nor does a later process send them.
        later = self.host("one")
        self.assertEqual(self.compiles(later, 1024, 64), [0, 1])
        later.leave()
        self.assertEqual(len(shared_entries(self.shared)), 1)

    def test_files_that_were_found_are_compiled_on_a_host_with_keys(self) -> None:
        public, secret = generate_key(self.root / "secret"), str(self.root / "secret")
        keys = [{"OPKEEP_SIGN_KEY": secret}, {"OPKEEP_TRUSTED_KEYS": public}]
        for number, variables in enumerate([*keys, keys[0] | keys[1]]):
            with self.subTest(number):
                shared = self.root / f"shared-{number}"
                shared.mkdir()
                remote = f"file://{shared}"
                self.assertEqual(self.restored(f"one-{number}", directory="maker", OPKEEP_REMOTE=remote, **variables), 1)
                # What it compiled itself is there, if it signs.
                entries = [path.read_bytes() for path in shared_entries(shared)]
                self.assertEqual(len(entries), int("OPKEEP_SIGN_KEY" in variables))
                self.assertFalse(any(b"restored by Inductor" in entry for entry in entries))

    def test_files_of_this_machine_stay_here(self) -> None:
        silent = Silent(self)
        program = (
            "from opkeep.triton import CacheManager\n"
            "manager = CacheManager('KEY')\n"
            "for name in ('add.so', 'add.autotune.json'):\n"
            "    assert manager.get_file(name) is None\n"
            "    manager.put(b'x', name)\n"
            "    assert open(CacheManager('KEY').get_file(name), 'rb').read() == b'x'\n"
        )
        one = self.host("one", OPKEEP_REMOTE=silent.url)
        one.run(f"exec({program!r})")
        one.leave()
        self.assertEqual((silent.connections, one.warnings), (0, ""))
        two = self.host("two")
        two.run(f"exec({program!r})")
        # A kernel shows that the host does send.
        self.assertEqual(self.compiles(two), [1])
        two.leave()
        (entry,) = shared_entries(self.shared)
        self.assertIn("cuda-sm_90", str(entry))

    def test_kernels_of_backends_that_are_not_known_stay_here(self) -> None:
        silent = Silent(self)
        package = self.root / "packages/unknown_backend"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(BACKEND)
        path = os.pathsep.join([str(package.parent), os.environ.get("PYTHONPATH", "")])
        for backend, extension in (("cpu", "so"), ("xpu", "bin"), ("", "bin")):
            with self.subTest(backend):
                variables = {"PYTHONPATH": path, "OPKEEP_REMOTE": silent.url}
                for count in (1, 0):
                    one = self.host(f"one-{backend}", **variables)
                    one.run("import unknown_backend")
                    self.assertEqual(one.run(f"unknown_backend.compiles({backend!r}, {extension!r})"), count)
                    one.leave()
                    self.assertEqual((silent.connections, one.warnings), (0, ""))

    def test_kernels_with_code_for_the_processor_stay_here(self) -> None:
        for name, is_shared in (("helper.so", False), ("helper", False), ("helper.bin", True)):
            with self.subTest(name):
                shared = self.root / f"shared-{name}"
                shared.mkdir()
                os.environ["OPKEEP_REMOTE"] = f"file://{shared}"
                one = self.host(f"one-{name}")
                one.run(f"exec({ADDED_MEMBER!r}, {{'NAME': {name!r}}})")
                self.assertEqual(self.compiles(one), [1])
                one.leave()
                self.assertEqual((len(shared_entries(shared)), one.warnings), (int(is_shared), ""))
                self.assertEqual(self.compiles(self.host(f"one-{name}", OPKEEP_REMOTE="")), [0])

    def test_the_pages(self) -> None:
        for number, page in enumerate(PAGES):
            blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)
            (block,) = (block for block in blocks if "OPKEEP_REMOTE" in block)
            self.assertEqual(len(block.splitlines()), 2, block)
            shared = self.root / f"page-{number}"
            shared.mkdir()
            block = block.replace("/mnt/kernels", str(shared))
            compile = f"import triton_kernels as k; k.compile({BLOCKS[number]}); print(k.compiles.count)"
            counts = []
            for host in ("one", "two"):
                environment = {**os.environ, **self.variables(f"page-{number}-{host}")}
                del environment["TRITON_CACHE_MANAGER"], environment["OPKEEP_REMOTE"]
                command = ["sh", "-euc", f'{block}exec "$0" -c "$1"', sys.executable, compile]
                done = subprocess.run(
                    command, cwd=Path(__file__).parent, env=environment, capture_output=True, text=True, timeout=120
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                counts.append(done.stdout.strip())
            self.assertEqual(counts, ["1", "0"], page)


def _has_content_of_libraries() -> bool:
    """Whether the keys of Triton's kernels for AMD's devices have the content of bitcode libraries, and not their paths."""
    from triton.backends.amd.compiler import HIPOptions

    return "file_hash" in inspect.getsource(HIPOptions.hash)


class FaultTest(RemoteTest):
    """Remote caches that do not work, or lie."""

    @long_test(2)
    def test_a_server_that_never_answers_costs_one_warning_and_some_seconds(self) -> None:
        silent = Silent(self)
        one = self.host("one", OPKEEP_REMOTE=silent.url)
        begin = time.monotonic()
        self.assertEqual(self.compiles(one, *BLOCKS), [1] * 4)
        one.leave()
        self.assertLess(time.monotonic() - begin, LIMIT)
        self.assertEqual(one.warnings.count("\n"), 1, one.warnings)

    def test_a_kernel_in_the_store_asks_for_nothing(self) -> None:
        self.assertEqual(self.compiles(self.host("one", OPKEEP_REMOTE="")), [1])
        silent = Silent(self)
        one = self.host("one", OPKEEP_REMOTE=silent.url)
        self.assertEqual(self.compiles(one), [0])
        # Also when its files are written again.
        (path,) = (self.root / "one/kernels").glob("*.opkeep-*/add.cubin")
        path.write_bytes(b"damaged")
        self.assertEqual(self.compiles(one), [0])
        one.leave()
        self.assertEqual((silent.connections, one.warnings), (0, ""))

    def test_a_setting_that_is_not_valid_leaves_the_store(self) -> None:
        secret = "hunter2"
        for variable, value in (("REMOTE", f"redis://user:{secret}@host:99999"), ("REMOTE_MODE", "sometimes")):
            with self.subTest(variable):
                for count in (1, 0):
                    one = self.host(variable, **{f"OPKEEP_{variable}": value})
                    self.assertEqual(self.compiles(one), [count])
                    one.leave()
                    self.assertIn(f"no remote cache is used: OPKEEP_{variable}", one.warnings)
                    self.assertEqual(one.warnings.count("\n"), 1, one.warnings)
                    self.assertNotIn(secret, one.warnings)
        # Without valid keys, it is not known what may be used: nothing is.
        for _ in range(2):
            one = self.host("keys", OPKEEP_TRUSTED_KEYS="none")
            self.assertEqual(self.compiles(one), [1])
            one.leave()
            self.assertIn("OPKEEP_TRUSTED_KEYS: ", one.warnings)

    def forged(self, files: dict[str, bytes]) -> bytes:
        """Return an entry under the key of the only kernel in the store of the host `one`, which has these files."""
        (group,) = opkeep.explain(framework="triton", cache_dir=self.root / "one/store")["groups"]
        toolchain = [(part["name"], bytes.fromhex(part["digest"]), part["note"]) for part in group["toolchain"]]
        shared = self.root / "forged"
        shared.mkdir()
        with opkeep.Cache(
            self.root / "forger",
            group["target"],
            framework="triton",
            toolchain=toolchain,
            remote=f"file://{shared}",
        ) as cache:
            ticket = cache.get_or_begin(group["framework_key"], name=group["name"])
            assert isinstance(ticket, opkeep.Ticket)
            self.assertEqual(ticket.key, group["key"])
            ticket.publish(files)
        (entry,) = shared_entries(shared)
        return entry.read_bytes()

    def test_what_is_wrong_is_refused_and_replaced(self) -> None:
        one = self.host("one")
        self.assertEqual(self.compiles(one), [1])
        one.leave()
        (entry,) = shared_entries(self.shared)
        good = entry.read_bytes()
        other = self.host("other")
        self.assertEqual(self.compiles(other, 64), [1])
        other.leave()
        (another,) = set(shared_entries(self.shared)) - {entry}
        changed = bytearray(good)
        changed[len(changed) * 3 // 4] ^= 1
        forged = self.forged({**self.files_of("one"), "add.cubin": b"harmful"})
        for number, wrong in enumerate((b"not an entry", good[:-1], bytes(changed), another.read_bytes(), forged)):
            with self.subTest(number):
                entry.write_bytes(wrong)
                reader = self.host(f"reader-{number}")
                self.assertEqual(self.compiles(reader), [1])
                reader.leave()
                self.assertEqual(reader.warnings.count("\n"), 1, reader.warnings)
                self.assertEqual(self.files_of(f"reader-{number}")["add.cubin"], self.files_of("one")["add.cubin"])
                # The host that refused it has replaced it.
                self.assertNotEqual(entry.read_bytes(), wrong)
        self.assertEqual(self.compiles(self.host("after")), [0])

    def test_only_what_a_trusted_key_signed_is_used(self) -> None:
        keys = {name: generate_key(self.root / name) for name in ("good", "evil")}
        signed = self.host("signs", OPKEEP_SIGN_KEY=str(self.root / "evil"))
        self.assertEqual(self.compiles(signed), [1])
        signed.leave()
        self.assertEqual(self.compiles(self.host("trusts", OPKEEP_TRUSTED_KEYS=keys["good"])), [1])
        self.assertEqual(self.compiles(self.host("other", OPKEEP_TRUSTED_KEYS=keys["evil"])), [0])


if __name__ == "__main__":
    unittest.main()
