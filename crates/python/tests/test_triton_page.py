"""docs/triton.md, the examples of the modules, and kernels on a device."""

from __future__ import annotations

import ctypes
import doctest
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

from triton_helper import TritonTest

PAGE = Path(__file__).resolve().parents[3] / "docs/triton.md"


class PageTest(TritonTest):
    """The blocks of the page, in order: what they set holds for the later ones."""

    def test_the_page(self) -> None:
        # Those of several hosts are run by the test of the remote cache.
        sections = [part for part in PAGE.read_text().split("\n## ") if not part.startswith("Several hosts\n")]
        blocks = re.findall(r"^```(\w+)\n(.*?)^```$", "\n## ".join(sections), re.M | re.S)
        environment = {**os.environ, "HOME": str(self.root)}
        del environment["TRITON_CACHE_MANAGER"]
        ran = []
        for language, block in blocks:
            if language == "python":
                self.run_python(block, environment)
                continue
            self.assertEqual(language, "sh")
            for line in block.splitlines():
                variable = re.fullmatch(r"export (\w+)=(\S+)", line)
                if variable:
                    environment[variable[1]] = variable[2]
                else:
                    # The tests run where this was done before.
                    self.assertEqual(line, "pip install ./crates/python")
                    self.assertIsNotNone(importlib.util.find_spec("opkeep._native"))
                ran.append(line)
            # As the page says: it works now.
            compile = "import triton_kernels as k; k.compile(); print(k.compiles.count)"
            self.assertEqual([self.run_python(compile, environment) for _ in range(2)], ["1", "0"])
        self.assertEqual(len(ran), 2)
        start = " ".join((PAGE.parents[1] / "README.md").read_text().split("\n\n## ")[0].split())
        for line in ran:
            self.assertIn(f"`{line}`", start)

    def run_python(self, program: str, environment: dict[str, str]) -> str:
        directory = Path(__file__).parent
        program = program.replace('"store"', repr(str(self.store)))
        found = subprocess.run(
            [sys.executable, "-c", program], cwd=directory, env=environment, capture_output=True, text=True
        )
        self.assertEqual(found.returncode, 0, found.stderr)
        return found.stdout.strip()

    def test_the_examples(self) -> None:
        for name in ("_manager",):
            module = importlib.import_module(f"opkeep.triton.{name}")
            self.assertEqual(doctest.testmod(module).failed, 0)
            self.assertGreater(doctest.testmod(module).attempted, 0)


def devices() -> int:
    """Return the number of NVIDIA devices, as the driver counts them."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int()
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


@unittest.skipUnless(devices(), "there is no NVIDIA device")
@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch, which Triton needs to launch kernels, is not installed")
class DeviceTest(TritonTest):
    """Kernels that run."""

    PROGRAM = """
import torch, triton_kernels as k
x, y = torch.rand(1000, device="cuda"), torch.rand(1000, device="cuda")
out = torch.empty_like(x)
k.add[(1,)](x, y, out, 1000, BLOCK=1024)
assert torch.equal(out, x + y)
print(k.compiles.count)
"""

    def test_a_kernel_runs_from_the_cache(self) -> None:
        for compiles in (1, 0, 0):
            found = subprocess.run(
                [sys.executable, "-c", self.PROGRAM], cwd=Path(__file__).parent, capture_output=True, text=True
            )
            self.assertEqual(found.stdout.strip(), str(compiles), found.stderr)
            for path in self.kernels_dir.rglob("*.cubin"):
                path.write_bytes(b"damaged")


if __name__ == "__main__":
    unittest.main()
