"""The names of targets, which the manager and the commands derive from the same compile."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import opkeep
from triton_helper import HAS_TRITON, NO_TRITON


@unittest.skipUnless(HAS_TRITON, NO_TRITON)
class NameTest(unittest.TestCase):
    """The names of targets."""

    def test_the_commands_know_the_targets_of_the_manager(self) -> None:
        cases: list[tuple[str, Any, Any, str]] = [
            ("cuda", 90, "sm90", "cuda-sm_90"),
            ("cuda", "90", None, "cuda-sm_90"),
            ("cuda", "90a", None, "cuda-90a"),
            ("cuda", "\u0669\u0660", None, "cuda-__"),
            ("hip", "gfx942", None, "hip-gfx942"),
            ("hip", "gfx942", "", "hip-gfx942"),
            ("hip", "gfx942", "gfx90a", "hip-gfx90a"),
            ("hip", "gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-", "hip-gfx90a_sramecc__xnack-"),
            ("npu", "Ascend910B", "other", "npu-Ascend910B"),
            ("other", 7, None, "other-7"),
            ("..a b", "\u00fc/1", None, "a_b-__1"),
            ("long", "x" * 200, None, "long-" + "x" * 95),
        ]
        for case in cases:
            backend, arch, override, name = case
            with self.subTest(case=case):
                self.assertEqual(self.of_manager(backend, arch, override), name)
                self.assertEqual(self.of_command(backend, arch, override), name)

    def of_manager(self, backend: str, arch: Any, override: Any) -> str:
        """Return the manager's name of the target."""
        from opkeep.triton import _compile

        target = SimpleNamespace(backend=backend, arch=arch)
        return _compile.Compile(target, None, SimpleNamespace(arch=override), False).target_name

    def of_command(self, backend: str, arch: Any, override: Any) -> str:
        """Return the name of the target in the directory of a kernel, as `opkeep explain` states it."""
        metadata = {"name": "add", "target": {"backend": backend, "arch": arch, "warp_size": 32}, "arch": override}
        with tempfile.TemporaryDirectory() as root:
            directory = Path(root, "kernels", "A" * 52)
            directory.mkdir(parents=True)
            (directory / "add.json").write_text(json.dumps(metadata))
            (directory / "__grp__add.json").write_text(json.dumps({"child_paths": {"add.json": "add.json"}}))
            with opkeep.Cache(f"{root}/store", "cuda-sm_90"):
                explained: Any = opkeep.explain(directory, cache_dir=f"{root}/store")
        (found,) = explained["directories"]
        return str(found["target"])
