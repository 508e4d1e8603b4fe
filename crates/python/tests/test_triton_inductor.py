"""Kernels of PyTorch's Inductor, which keeps graphs with their kernels in a cache of its own. They run on a device."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from test_triton_page import devices
from triton_helper import TritonTest

PROGRAM = """
import logging, torch
logging.basicConfig(level=logging.WARNING)

def function(x, y):
    a = torch.sin(x) * y + 1
    return torch.softmax(a, dim=-1).sum(dim=0), torch.cos(a) - y

x = torch.arange(64000, device="cuda", dtype=torch.float32).reshape(64, 1000) / 1000
y = x * 0.5 + 1
for found, wanted in zip(torch.compile(function)(x, y), function(x, y), strict=True):
    assert torch.allclose(found, wanted, atol=1e-5)
print("right")
"""


@unittest.skipUnless(devices(), "there is no NVIDIA device")
@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
class InductorTest(TritonTest):
    """A graph of two kernels, in new processes."""

    def setUp(self) -> None:
        super().setUp()
        self.inductor, self.calls = self.root / "inductor", self.root / "calls"
        # Inductor's processes compile, so the calls of the assembler are counted.
        assembler = self.root / "ptxas"
        assembler.write_text(f'#!/bin/sh\necho "$*" >> {self.calls}\nexec {self.assembler()} "$@"\n')
        assembler.chmod(0o755)
        self.environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(self.inductor),
            "TRITON_PTXAS_PATH": str(assembler),
        }
        # Inductor chooses a directory for each device.
        del self.environment["TRITON_CACHE_DIR"]
        self.run_graph(compiles=2)
        self.triton = self.inductor / "triton"

    def assembler(self) -> str:
        import triton.backends.nvidia.compiler as compiler

        tool = compiler.get_ptxas(90) if re.match(r"3\.[56789]", sys.modules["triton"].__version__) else compiler.get_ptxas()
        return str(tool.path)

    def run_graph(self, compiles: int, graphs_cached: bool = True) -> None:
        """Run the graph, and check how many kernels are compiled."""
        self.calls.write_text("")
        environment = dict(self.environment)
        if not graphs_cached:
            environment |= {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
        found = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
        self.assertEqual((found.returncode, found.stdout.strip()), (0, "right"), found.stderr)
        self.assertNotIn("opkeep", found.stderr)
        calls = [call for call in self.calls.read_text().splitlines() if "--version" not in call]
        self.assertEqual(len(calls), compiles, calls)

    def objects(self) -> list[Path]:
        """Return the kernels' objects, in both directories of each key."""
        found = sorted(self.triton.rglob("*.cubin"))
        self.assertEqual(len(found), 4)
        return found

    def cut_objects(self) -> None:
        for path in self.objects():
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(content[: len(content) // 2])

    def test_kernels_are_compiled_once(self) -> None:
        self.run_graph(compiles=0)
        self.run_graph(compiles=0, graphs_cached=False)

    def test_damaged_kernels_are_healed(self) -> None:
        intact = [path.read_bytes() for path in self.objects()]
        self.cut_objects()
        self.run_graph(compiles=0, graphs_cached=False)
        self.assertEqual([path.read_bytes() for path in self.objects()], intact)
        self.run_graph(compiles=0)

    def test_kernels_that_inductor_restores(self) -> None:
        shutil.rmtree(self.triton)
        self.run_graph(compiles=0)
        self.run_graph(compiles=0, graphs_cached=False)
        for directory in (self.triton, self.store):
            shutil.rmtree(directory)
        self.run_graph(compiles=0)
        # They are taken over with their records.
        self.run_graph(compiles=0, graphs_cached=False)
        shutil.rmtree(self.triton)
        self.run_graph(compiles=0, graphs_cached=False)


if __name__ == "__main__":
    unittest.main()
