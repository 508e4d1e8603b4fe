"""The kinds of binaries that the Triton manager knows, each with what makes and reads one."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any
from unittest import mock

from triton_helper import TritonTest

NPU = ("npu", "Ascend910B", 0)


class Kind(ABC):
    """A kind of binaries in one test."""

    target: tuple[str, Any, int]
    suffix: str
    """The end of the name of the binary."""
    name: str
    """The name of the target in the store."""
    has_rules: bool
    """Whether the manager judges binaries before it keeps them."""

    def __init__(self, test: TritonTest) -> None:
        self.test = test

    @property
    def is_here(self) -> bool:
        """Whether this Triton can make one."""
        return True

    @abstractmethod
    def compile(self) -> dict[str, Any]:
        """Compile the kernel, unless it is kept. Return its files by suffix, as Triton reads them."""

    @property
    @abstractmethod
    def key(self) -> str:
        """Triton's key of the kernel, which was compiled before."""

    @abstractmethod
    def take_compiles(self) -> int:
        """Return the number of compiles since the last call."""

    @property
    def own_directory(self) -> Path:
        """The directory of the paths that Triton got."""
        (directory,) = self.test.kernels_dir.glob(f"{self.key}.opkeep-*")
        return directory

    @property
    def entry(self) -> Path:
        """The kernel's entry in the store."""
        (entry,) = self.entries()
        return entry

    def entries(self) -> set[Path]:
        """Return all entries for the target."""
        return set((self.test.store / "v1" / self.name / "entries").rglob("*.kern"))


class Compiled(Kind):
    """What this Triton compiles."""

    _kernel: Any = None
    has_rules = True

    def compile(self) -> dict[str, Any]:
        self._kernel = self.test.kernels.compile(target=self.target)
        return dict(self._kernel.asm)

    @property
    def key(self) -> str:
        return str(self.test.directory(self._kernel).name)

    def take_compiles(self) -> int:
        count = int(self.test.kernels.compiles.count)
        self.test.kernels.compiles.count = 0
        return count


class Cuda(Compiled):
    target, suffix, name = ("cuda", 90, 32), "cubin", "cuda-sm_90"


class Hip(Compiled):
    target, suffix, name = ("hip", "gfx942", 64), "hsaco", "hip-gfx942"

    @property
    def is_here(self) -> bool:
        return bool(self.test.kernels.HAS_HIP_LINKER)


class Npu(Kind):
    """What triton-ascend compiles, which does what this does with the manager."""

    target, suffix, name = NPU, "npubin", "npu-Ascend910B"
    has_rules = False
    key = "KEY"
    FILES = {
        "add.json": json.dumps({"name": "add", "shared": 0}).encode(),
        "add.ttir": b"module {}\n",
        "add.npubin": b"\x7fELF" + bytes(range(256)) * 8,
    }

    def __init__(self, test: TritonTest) -> None:
        super().__init__(test)
        self._compiles = 0
        from opkeep.triton import _compile, _toolchain

        target = test.kernels.GPUTarget(*self.target)
        collect = {"npu": lambda compile, parts, settings: parts.append(("bishengir-compile", None, "8.5"))}
        for patch in (
            mock.patch.object(_compile, "_current_target", return_value=target),
            mock.patch.dict(_toolchain.COLLECT, collect),
        ):
            patch.start()
            test.addCleanup(patch.stop)

    def compile(self) -> dict[str, Any]:
        from opkeep.triton import CacheManager

        manager = CacheManager(self.key)
        group = manager.get_group("add.json")
        if group is None:
            self._compiles += 1
            group = {name: manager.put(content, name) for name, content in self.FILES.items()}
            manager.put_group("add.json", group)
        return {Path(name).suffix[1:]: Path(path).read_bytes() for name, path in group.items()}

    def take_compiles(self) -> int:
        count, self._compiles = self._compiles, 0
        return count


KINDS: dict[str, type[Kind]] = {kind.target[0]: kind for kind in (Cuda, Hip, Npu)}
"""The kinds by Triton's name of the backend."""
