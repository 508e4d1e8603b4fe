"""The cache manager for Triton: the copies in the directory of Triton's own key, which bundlers read."""

from __future__ import annotations

import json
import shutil
import unittest
from pathlib import Path
from unittest import mock

from triton_helper import TritonTest


class CopiesTest(TritonTest):
    """Copies, with Inductor loaded and without it."""

    def test_each_damage_of_each_copy_is_found(self) -> None:
        self.load_inductor()
        kernel = self.kernels.compile()
        files = self.files(kernel)
        own, copies = self.own_directory(kernel), self.directory(kernel)
        for name in files:
            self.assertTrue((own / name).samefile(copies / name))
        for directory in (own, copies):
            for name, content in files.items():
                path = directory / name
                # Not into the file, which has two names.
                path.unlink()
                path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
                with self.subTest(path):
                    self.assertEqual(self.kernels.compile().asm["cubin"], kernel.asm["cubin"])
                    self.assertEqual(self.files(kernel), files)
                    self.assertEqual({path.name: path.read_bytes() for path in own.iterdir()}, files)
        self.assert_compiled(1)

    def test_compilers_that_share_a_key_do_not_share_files(self) -> None:
        from opkeep.triton import CacheManager, _compile, _toolchain

        self.load_inductor()
        kernel = self.kernels.compile()
        files, key = self.group(kernel), self.directory(kernel).name
        target = self.kernels.GPUTarget("npu", "Ascend910B", 0)
        contents = {release: {"add.json": files["add.json"], "add.npubin": release.encode()} for release in ("8.2", "8.5")}

        def manager(release: str) -> CacheManager:
            collect = {"npu": lambda compile, parts, *_: parts.append(("bishengir-compile", None, release))}
            toolchain = mock.patch.dict(_toolchain.COLLECT, collect)
            toolchain.start()
            self.addCleanup(toolchain.stop)
            return CacheManager(key)

        device = mock.patch.object(_compile, "_current_target", return_value=target)
        device.start()
        self.addCleanup(device.stop)
        groups = {}
        for release, content in contents.items():
            one = manager(release)
            self.assertIsNone(one.get_group("add.json"))
            groups[release] = {name: one.put(data, name) for name, data in content.items()}
            one.put_group("add.json", groups[release])
        # Each has its paths, and then the other gets its own.
        for release in ("8.2", "8.5", "8.2"):
            found = manager(release).get_group("add.json")
            self.assertEqual(found, groups[release])
            for other, content in contents.items():
                for name, data in content.items():
                    self.assertEqual(Path(groups[other][name]).read_bytes(), data)
            copies = self.kernels_dir / key
            self.assertEqual((copies / "add.npubin").read_bytes(), release.encode())
            listed = json.loads((copies / "__grp__add.json").read_bytes())["child_paths"]
            self.assertEqual(listed, {name: str(copies / name) for name in contents[release]})

    def test_without_inductor_a_hit_does_not_look_at_copies(self) -> None:
        kernel = self.kernels.compile()
        files = self.files(kernel)
        own, copies = self.own_directory(kernel), self.directory(kernel)
        for name in ("__grp__add.json", "add.json.opkeep"):
            (own / name).unlink()
        shutil.rmtree(copies)
        self.assertEqual(self.kernels.compile().asm["cubin"], kernel.asm["cubin"])
        self.assertFalse(copies.exists())
        # A file that has to be written again is a reason to write all copies.
        (own / "add.ptx").unlink()
        self.kernels.compile()
        self.assertEqual(self.files(kernel), files)
        shutil.rmtree(copies)
        self.load_inductor()
        self.kernels.compile()
        self.assertEqual(self.files(kernel), files)
        self.assert_compiled(1)

    def test_a_hit_needs_no_copies(self) -> None:
        kernel = self.kernels.compile()
        cubin = self.directory(kernel) / "add.cubin"
        cubin.unlink()
        cubin.write_bytes(b"of another compiler")
        # As the stock manager leaves it with a umask of a group.
        self.directory(kernel).chmod(0o775)
        self.load_inductor()
        self.assertEqual(self.kernels.compile().asm["cubin"], kernel.asm["cubin"])
        self.assert_compiled(1)
        self.assertEqual(cubin.read_bytes(), b"of another compiler")


if __name__ == "__main__":
    unittest.main()
