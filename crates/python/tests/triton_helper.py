"""What the tests of the Triton manager use."""

from __future__ import annotations

import ast
import atexit
import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import faults  # noqa: F401

HAS_TRITON = importlib.util.find_spec("triton") is not None
NO_TRITON = "Triton is not installed: see `cargo xtask frameworks`"

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

_work_dir = tempfile.TemporaryDirectory()
atexit.register(_work_dir.cleanup)
# The digests of compilers are those of these tests and their workers, not the user's.
os.environ["TMPDIR"] = _work_dir.name


class Worker:
    """A process that compiles on command."""

    def __init__(self, test: unittest.TestCase) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "triton_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent,
        )
        self.warnings = ""
        test.addCleanup(self.end)
        self._answer()

    def run(self, line: str) -> Any:
        """Run a line, and return its result."""
        self.begin(line)
        return self.result()

    def begin(self, line: str) -> None:
        """Begin to run a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def result(self) -> Any:
        """Return the result of the line that was begun."""
        answer = self._answer()
        assert answer != "failed", "see above"
        return ast.literal_eval(answer)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        limit = threading.Timer(60, self._process.kill)
        limit.start()
        answer = self._process.stdout.readline().strip()
        limit.cancel()
        assert answer, "the process ended, or took longer than a minute"
        return answer

    def leave(self) -> None:
        """End it as a program ends. Its warnings are kept, if it has a `log`."""
        self.warnings = str(self.run("log.getvalue() if 'log' in globals() else ''"))
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0

    def end(self) -> None:
        """Kill it, if it has not ended."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def _is_further(name: str) -> bool:
    return name.startswith("__grp__") or name.endswith(".opkeep")


@unittest.skipUnless(HAS_TRITON, NO_TRITON)
class TritonTest(unittest.TestCase):
    """A test with a store and a directory of kernels of its own, and our manager."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)
        self.kernels_dir = self.root / "kernels"
        self.store = self.root / "store"
        variables = {
            "OPKEEP_CACHE_DIR": str(self.store),
            "TRITON_CACHE_DIR": str(self.kernels_dir),
            "TRITON_CACHE_MANAGER": "opkeep.triton:CacheManager",
        }
        patch = mock.patch.dict(os.environ, variables)
        patch.start()
        self.addCleanup(patch.stop)
        import triton_kernels

        self.kernels = triton_kernels
        triton_kernels.compiles.count = 0
        self.addCleanup(setattr, triton_kernels.compiles, "during", lambda: None)
        from opkeep.triton import _log

        _log._warned.clear()

    def with_stock(self) -> Any:
        """Use Triton's own manager for a while."""
        environment = mock.patch.dict(os.environ)
        environment.start()
        del os.environ["TRITON_CACHE_MANAGER"]
        cache = sys.modules["triton.runtime.cache"]
        # Triton 3.2 remembers the manager.
        patches = [mock.patch.object(cache, name, None) for name in ("__cache_cls_nme",) if hasattr(cache, name)]
        if hasattr(cache, "__cache_cls"):
            patches.append(mock.patch.object(cache, "__cache_cls", cache.FileCacheManager))
        for patch in patches:
            patch.start()

        def end() -> None:
            for patch in patches:
                patch.stop()
            environment.stop()

        return end

    def load_inductor(self) -> None:
        """Go on as if PyTorch's Inductor was loaded, with its bundler."""
        names = ("torch._inductor", "torch._inductor.triton_bundler")
        patch = mock.patch.dict(sys.modules, {name: ModuleType(name) for name in names})
        patch.start()
        self.addCleanup(patch.stop)

    def assert_compiled(self, count: int) -> None:
        """Check how many kernels were compiled since the last check."""
        self.assertEqual(self.kernels.compiles.count, count)
        self.kernels.compiles.count = 0

    def directory(self, kernel: Any) -> Path:
        """Return the directory of a kernel's files."""
        from triton.runtime import cache

        encode = getattr(cache, "_base32", None) or cache._base64
        return self.kernels_dir / str(encode(kernel.hash))

    def files(self, kernel: Any) -> dict[str, bytes]:
        """Return the files in the directory of a kernel."""
        return {path.name: path.read_bytes() for path in self.directory(kernel).iterdir() if path.is_file()}

    def group(self, kernel: Any) -> dict[str, bytes]:
        """Return the files of a kernel, without Triton's list of them and our record."""
        return {name: content for name, content in self.files(kernel).items() if not _is_further(name)}

    def own_directory(self, kernel: Any) -> Path:
        """Return the directory of the paths that Triton got."""
        key = self.directory(kernel).name
        (directory,) = self.kernels_dir.glob(f"{key}.opkeep-*")
        return directory

    def new_store(self) -> None:
        """Go on with an empty store."""
        self.store = self.store.with_name(self.store.name + "_")
        os.environ["OPKEEP_CACHE_DIR"] = str(self.store)

    def empty_directory(self) -> None:
        """Remove all files that Triton reads."""
        shutil.rmtree(self.kernels_dir)
