"""The commands that run in this process."""

from __future__ import annotations

import json
import logging
import os
import pydoc
import re
import shutil
import signal
import tempfile
import threading
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict
from unittest import mock

import opkeep
from helper import FILES, KEY, ROOT, CacheTest, at_most
from opkeep import _native, commands, results

LENET = ROOT / "fixtures/networks/lenet/model.onnx"

RESULTS: dict[str, Any] = {
    "build": results.BuildResult,
    "diff": results.DiffResult,
    "explain": results.ExplainResult,
    "inspect": results.InspectResult,
    "ls": results.ListResult,
    "stats": results.StatsResult,
    "verify": results.VerifyResult,
}


class CommandTest(CacheTest):
    def build(self, *models: Any, **flags: Any) -> results.BuildResult:
        flags = {"cache_dir": self.root, "target": "cpu", "no_kernel_meta": True, **flags}
        return opkeep.build(*(models or [LENET]), **flags)

    def test_build_and_explain(self) -> None:
        first = self.build()
        self.assertEqual((first["exit_code"], first["failed"], first["reused"]), (0, 0, 0))
        self.assertEqual(first["compiled"], first["kernels"])
        again = self.build()
        self.assertEqual((again["compiled"], again["reused"]), (0, first["kernels"]))
        self.assert_typed(first, results.BuildResult)
        self.cache.publish(KEY, FILES, kernel="add")
        stored = opkeep.explain(framework="python", kernel="add", cache_dir=self.root)
        self.assertEqual([group["framework_key"] for group in stored["groups"]], [KEY.hex()])
        self.assert_typed(stored, results.ExplainResult)
        explained = opkeep.explain(LENET, target="cpu", cache_dir=self.root)
        self.assertEqual({kernel["outcome"] for kernel in explained["kernels"]}, {"hit"})
        self.assert_typed(explained, results.ExplainResult)
        self.assert_typed(opkeep.stats(cache_dir=self.root, by="kernel"), results.StatsResult)
        self.assert_typed(opkeep.verify(self.root), results.VerifyResult)
        (entry, *_) = Path(self.root).rglob("*.kern")
        inspected = opkeep.inspect(entry)
        self.assert_typed(inspected, results.InspectResult)
        self.assertTrue(inspected["files"][0]["valid"])
        with tempfile.TemporaryDirectory() as directory:
            self.build(no_kernel_meta=False, kernel_meta=directory)
            (kernel, *_) = Path(directory).rglob("*.o")
            inspected = opkeep.inspect(kernel)
        self.assert_typed(inspected, results.InspectResult)
        symbols = inspected["files"][0]["object"]["symbols"]
        self.assertTrue(any(symbol["name"].endswith("__kernel0") for symbol in symbols), symbols)

    def test_a_missing_kernel_was_stored_before(self) -> None:
        self.build()
        entries = sorted(Path(self.root).rglob("*.kern"))
        entries[0].unlink()
        explained = opkeep.explain(LENET, target="cpu", cache_dir=self.root)
        self.assert_typed(explained, results.ExplainResult)
        (cause,) = explained["causes"]
        self.assertEqual((cause["cause"], len(cause["kernels"])), ("removed", 1))
        former = explained["kernels"][cause["kernels"][0]]["former"]
        self.assertEqual((former["state"], former["compiled"]) if former else None, ("removed", True))
        again = self.build(explain=True)
        self.assert_typed(again, results.BuildResult)
        self.assertEqual([one["cause"] for one in again["causes"]], ["removed"])

    def test_a_missing_kernel_was_not_kept(self) -> None:
        self.build()
        (entry, *_) = Path(self.root).rglob("*.kern")
        shard = entry.parent
        for other in shard.iterdir():
            other.unlink()
        shard.rmdir()
        shard.write_text("a file")
        self.build()
        shard.unlink()
        explained = opkeep.explain(LENET, target="cpu", cache_dir=self.root)
        self.assert_typed(explained, results.ExplainResult)
        self.assertEqual([one["cause"] for one in explained["causes"]], ["not-kept"])

    def test_ls_and_diff(self) -> None:
        built = self.build()
        listed = opkeep.ls(cache_dir=self.root, operator="conv2d", sort="size", limit=1)
        self.assert_typed(listed, results.ListResult)
        self.assertEqual((len(listed["kernels"]), listed["kernels"][0]["op_type"]), (1, "Conv2D"))
        self.assertEqual(opkeep.ls(cache_dir=self.root)["kernels_count"], built["kernels"])
        none = opkeep.ls(cache_dir=self.root, state="imported", unused="1d", min_size="1M", framework="triton")
        self.assertEqual((none["exit_code"], none["kernels"]), (0, []))
        same = opkeep.diff(self.root, self.root)
        self.assertEqual((same["exit_code"], same["kind"], same["equal"]), (0, "stores", built["kernels"]))
        one, two = sorted(Path(self.root).rglob("*.kern"))[:2]
        differing = opkeep.diff(one, two)
        self.assert_typed(differing, results.DiffResult)
        self.assertEqual((differing["exit_code"], differing["same"]), (1, False))
        self.assertIn("key", [change["field"] for change in differing["changes"]])
        with tempfile.TemporaryDirectory() as directory:
            os.mkfifo(Path(directory, "pipe.o"))
            piped = opkeep.diff(directory, directory)
        self.assert_typed(piped, results.DiffResult)
        self.assertEqual(piped["not_compared"], [{"name": "pipe.o", "reason": "a pipe"}])
        with self.assertRaisesRegex(opkeep.CommandError, "missing"):
            opkeep.diff(one, "missing.o")

    def test_builds_share_a_remote_cache(self) -> None:
        """Two stores are two hosts; the second takes what the first signed, and compiles without a trusted signature."""
        with tempfile.TemporaryDirectory() as directory, mock.patch.dict(os.environ, XDG_STATE_HOME=directory):
            shared = Path(directory, "shared")
            shared.mkdir()
            keys = {name: self.generate_key(Path(directory, name), name) for name in ("one", "two")}

            def build(host: str, trusted: list[str], **flags: Any) -> results.BuildResult:
                flags.update(cache_dir=Path(directory, f"store-{host}"), remote=f"file://{shared}")
                return self.build(remote_namespace="tests", trusted_keys=trusted, **flags)

            first = build("first", [keys["one"]], sign_key=Path(directory, "one"))
            self.assertEqual((first["compiled"], first["from_remote"]), (first["kernels"], 0))
            second = build("second", list(keys.values()), remote_mode="read")
            self.assertEqual((second["compiled"], second["from_remote"]), (0, first["kernels"]))
            self.assert_typed(second, results.BuildResult)
            third = build("third", [keys["two"]], remote_mode="read")
            self.assertEqual((third["compiled"], third["from_remote"]), (first["kernels"], 0))

    def generate_key(self, file: Path, name: str) -> str:
        """Write a secret key to a file, and return its public key."""
        text, code, error = _native.run(["key", "generate", f"--out={file}", name], lambda level, text: None)
        self.assertEqual((code, error), (0, None))
        return str(json.loads(text)["public_key"])

    def test_problems_are_a_result(self) -> None:
        self.cache.publish(KEY, FILES)
        (entry,) = Path(self.root).rglob("*.kern")
        content = bytearray(entry.read_bytes())
        content[-1] ^= 1
        entry.write_bytes(content)
        with self.assertNoLogs("opkeep", logging.CRITICAL):
            result = opkeep.verify(self.root)
        self.assertEqual((result["exit_code"], result["checked"], result["refused"]), (1, 1, 1))
        self.assert_typed(result, results.VerifyResult)

    def test_errors(self) -> None:
        with (
            self.assertLogs("opkeep", logging.ERROR),
            self.assertRaisesRegex(opkeep.CommandError, "missing") as raised,
        ):
            self.build("missing.onnx")
        self.assertEqual(raised.exception.exit_code, 2)
        self.assertIn("missing.onnx", json.dumps(raised.exception.result))
        with self.assertRaisesRegex(opkeep.UsageError, "invalid value 'few' for `jobs=N`"):
            self.build(jobs="few")
        for call in (opkeep.inspect, opkeep.explain, lambda: opkeep.stats(by="x")):  # type: ignore[arg-type]
            with self.assertRaises(opkeep.UsageError) as usage:
                call()
            self.assertNotRegex(str(usage.exception), r"Usage|--|\n")
            self.assertRegex(str(usage.exception), "required arguments|possible values: framework, kernel")
            self.assertRegex(usage.exception.help[-1], r"help\(opkeep\.\w+\)")
        with self.assertRaisesRegex(opkeep.ArgumentError, "paths: expected a path, found `int`"):
            opkeep.inspect(3)  # type: ignore[arg-type]
        Path(self.root, "file").write_text("")
        with self.assertRaises(opkeep.CommandError) as other:
            opkeep.stats(cache_dir=Path(self.root, "file"))
        self.assertIn("cache_dir=DIR or OPKEEP_CACHE_DIR chooses another store", other.exception.help)
        with self.assertRaisesRegex(opkeep.CommandError, "which cache_dir names") as no_store:
            opkeep.stats(cache_dir=f"{self.root}/none")
        self.assertNotIn("--", "".join([str(no_store.exception), *no_store.exception.help]))
        with self.assertRaises(opkeep.CommandError) as raised:
            self.build(target="Ascend910B1", cann="/nonexistent")
        self.assertTrue(str(raised.exception))

    def test_what_is_not_stored_is_a_result(self) -> None:
        self.cache.publish(KEY, FILES, kernel="add")
        result = opkeep.explain(framework="python", kernel="ad", cache_dir=self.root)
        self.assertEqual((result["exit_code"], result["groups"], result["near"]), (1, [], ["add"]))
        self.assert_typed(result, results.ExplainResult)
        found = opkeep.explain(KEY.hex(), cache_dir=self.root)
        self.assertEqual([group["kernel"] for group in found["groups"]], ["add"])
        self.assert_typed(found, results.ExplainResult)

    def test_an_unknown_keyword(self) -> None:
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'tarjet'"):
            opkeep.explain(LENET, tarjet="cpu")  # type: ignore[call-arg]
        with self.assertRaises(TypeError):
            opkeep.inspect(LENET, jobs=2)  # type: ignore[call-arg]

    def test_flags(self) -> None:
        def line(command: str, *paths: Any, **flags: Any) -> list[str]:
            defaults: dict[str, Any] = getattr(commands, command).__kwdefaults__ or {}
            return commands._arguments(command, paths, {**defaults, **flags})

        self.assertEqual(line("inspect", "-x", b"y", Path("z")), ["inspect", "--", "-x", "y", "z"])
        self.assertEqual(
            line("build", fail_fast=True, replace=False, jobs=None, nice=-1, op_debug_level=0),
            ["build", "--fail-fast", "--nice=-1", "--op_debug_level=0", "--"],
        )
        self.assertEqual(line("stats", cache_dir="~/x"), ["stats", f"--cache-dir={Path.home()}/x", "--"])
        with self.assertRaisesRegex(opkeep.ArgumentError, "cache_dir: expected a path, found `int`"):
            opkeep.stats(cache_dir=3)  # type: ignore[arg-type]
        self.assertEqual(
            line(
                "build",
                dim={"batch": 1, "x:0": 2},
                option={"deterministic": True},
                toolchain_input=["a", Path("b")],
            ),
            [
                *("build", "--dim=batch=1", "--dim=x:0=2", "--option=deterministic=true"),
                *("--toolchain-input=a", "--toolchain-input=b", "--"),
            ],
        )
        self.assertEqual(
            line("build", sign_key=Path("~/secret"), trusted_keys=["one:AA==", "@list"]),
            ["build", f"--sign-key={Path.home()}/secret", "--trusted-keys=one:AA== @list", "--"],
        )

    def test_every_flag_of_a_command_is_a_keyword(self) -> None:
        for command, known in commands.FLAGS.items():
            help, code, error = _native.run([command, "--help"], lambda level, text: None)
            self.assertEqual((code, error), (0, None))
            # Descriptions, which may begin a line with a flag, are indented further.
            flags = re.findall(r"^ {2,6}(?:-\w, )?--([\w-]+)", json.loads(help)["text"], re.M)
            # Python has no terminal, and gets all messages and results.
            others = ("all", "color", "config", "format", "help", "quiet", "verbose", "version")
            flags = [flag.replace("-", "_") for flag in flags if flag not in others]
            flags = [flag.replace("op_compiler_cache_", "cache_") for flag in flags]
            self.assertEqual(sorted(flags), sorted(known), command)
            function = getattr(opkeep, command)
            described = re.findall(r"^ *- `(\w+)`: ", function.__doc__, re.M)
            self.assertEqual(sorted(described), sorted(known), command)
            # As `help(opkeep.build)` shows it.
            shown = pydoc.plain(pydoc.render_doc(function))
            for flag in known:
                self.assertIn(f" {flag}: ", shown)

    def test_the_types_are_those_of_the_documentation(self) -> None:
        text = (ROOT / "docs/json.md").read_text()
        for command, kind in RESULTS.items():
            documented: set[str] = set()
            for title, table in re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", text, re.M | re.S):
                if title.split(" ")[0] != command:
                    continue
                for field in re.findall(r"^\| `([^`]*)`", table, re.M):
                    documented |= set(alternatives(field))
            typed = {"".join(path) for path in fields(kind)} - {"schema", "warnings", "exit_code"}
            # What is typed is documented, and what is documented is typed down to where the type is `Any`.
            open_ended = {path.removesuffix("*") for path in typed if path.endswith("*")}
            documented = {
                path for path in documented if not any(path.startswith(start) for start in open_ended)
            }
            typed = {path for path in typed if not path.endswith("*")}
            self.assertEqual(typed, documented, command)

    def assert_typed(self, value: Any, kind: Any, path: str = "") -> None:
        """Check a value by its type, with all keys that it may and must have."""
        if is_typeddict(kind):
            hints = get_type_hints(kind)
            self.assertLessEqual(set(value), set(hints), path)
            self.assertLessEqual(kind.__required_keys__, set(value), path)
            for key, one in value.items():
                self.assert_typed(one, hints[key], f"{path}.{key}")
        elif get_origin(kind) is list:
            self.assertIsInstance(value, list, path)
            for one in value:
                self.assert_typed(one, get_args(kind)[0], f"{path}[]")
        elif get_origin(kind) is dict:
            self.assertIsInstance(value, dict, path)
        elif kind is float:
            self.assertIsInstance(value, (int, float), path)
        elif type(None) in get_args(kind):
            if value is not None:
                self.assert_typed(value, get_args(kind)[0], path)
        elif isinstance(kind, type):
            self.assertIsInstance(value, kind, path)

    def test_messages_go_to_the_log(self) -> None:
        with self.assertLogs("opkeep", logging.DEBUG) as logs:
            self.build()
        self.assertTrue(logs.output)
        self.assertEqual(
            {record.levelname for record in logs.records} - {"INFO", "DEBUG"}, set(), logs.output
        )

    def test_the_exception_of_a_logging_filter_ends_a_command(self) -> None:
        def refuse(record: logging.LogRecord) -> bool:
            raise ZeroDivisionError

        logger = logging.getLogger("opkeep")
        logger.addFilter(refuse)
        self.addCleanup(logger.removeFilter, refuse)
        with self.assertRaises(ZeroDivisionError):
            self.build("missing.onnx")

    def test_ctrl_c_ends_a_build(self) -> None:
        slow = Path(tempfile.mkdtemp()) / "cc"
        self.addCleanup(shutil.rmtree, slow.parent)
        slow.write_text("#!/bin/sh\nexec sleep 60\n")
        slow.chmod(0o755)
        with mock.patch.dict(os.environ, {"CC": str(slow)}):
            timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
            with at_most(10), self.assertRaises(KeyboardInterrupt):
                timer.start()
                self.build()
                timer.join()

    def test_two_threads_build_at_once(self) -> None:
        done: list[results.BuildResult] = []
        threads = [threading.Thread(target=lambda: done.append(self.build())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([result["failed"] for result in done], [0, 0])


def alternatives(field: str) -> list[str]:
    """Return the fields that a cell such as `targets[].{a,b}` stands for."""
    match = re.fullmatch(r"(.*?)\{([^}]*)\}(.*)", field)
    if match is None:
        return [field]
    before, names, after = match.groups()
    return [path for name in names.split(",") for path in alternatives(f"{before}{name}{after}")]


def fields(kind: Any, path: str = "") -> list[str]:
    """Return the paths of a type's fields, as docs/json.md writes them."""
    if get_origin(kind) is list:
        return fields(get_args(kind)[0], f"{path}[]")
    if is_typeddict(kind):
        found: list[str] = []
        for name, one in get_type_hints(kind).items():
            own = f"{path}.{name}" if path else name
            found += [own, *fields(one, own)]
        return found
    if get_origin(kind) is dict:
        return [f"{path}.*"]
    if type(None) in get_args(kind):
        return fields(get_args(kind)[0], path)
    return []
