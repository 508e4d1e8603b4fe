"""The cache manager for Triton: damage of each kind of binary that it knows, in its directory, in the store, and by the compile."""

from __future__ import annotations

import sys
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import opkeep
from triton_helper import TritonTest
from triton_kinds import KINDS, Kind


def damages(content: bytes, foreign: bytes) -> dict[str, bytes]:
    """Return damaged contents of a file. `foreign` is a valid file of something else."""
    places = {"first": 0, "middle": len(content) // 2, "last": len(content) - 1}
    flipped = {
        f"its {name} byte is flipped": content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        for name, place in places.items()
    }
    cut = {f"it is cut to {size} bytes": content[:size] for size in (len(content) - 1, len(content) // 2, 1)}
    return {**flipped, **cut, "it is longer": content + b"\0", "it is empty": b"", "it is another file": foreign}


def writes(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def replace_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


REPLACED: dict[str, Callable[[Path], object]] = {
    "it is missing": Path.unlink,
    "it is a link": replace_by_link,
    "it is a directory": replace_by_directory,
}


class DamageTest(TritonTest):
    """Damage is never served: the file is taken from the store, or compiled again, and right from then on."""

    def kinds(self) -> Iterator[Kind]:
        """Yield each kind that this Triton can make, in a store and a directory of its own."""
        for kind in (kind(self) for kind in KINDS.values()):
            if kind.is_here:
                yield kind
                self.new_store()
                self.empty_directory()

    def test_every_kind_that_the_manager_knows_is_here(self) -> None:
        from opkeep.triton import _compile, _toolchain

        self.assertEqual(KINDS.keys(), _toolchain.COLLECT.keys() | _compile._OBJECTS.keys())
        for backend, suffix in _compile._OBJECTS.items():
            self.assertEqual((KINDS[backend].suffix, KINDS[backend].has_rules), (suffix, True))

    def test_each_damage_of_each_file_is_found(self) -> None:
        for kind in self.kinds():
            right = kind.compile()
            self.assertEqual(kind.take_compiles(), 1)
            self.assertIn(kind.suffix, right)
            own = kind.own_directory
            files = {path.name: path.read_bytes() for path in own.iterdir()}
            group = {name: files[name] for name in files if name.startswith("add.") and not name.endswith(".opkeep")}
            self.assertEqual({Path(name).suffix[1:] for name in group}, right.keys() | {"json"})
            for name, content in group.items():
                foreign = next(other for other in group.values() if other != content)
                written = {damage: writes(bad) for damage, bad in damages(content, foreign).items()}
                for damage, make in {**written, **REPLACED}.items():
                    with self.subTest(f"{kind.name}, {name}: {damage}"):
                        make(own / name)
                        self.assertEqual(kind.compile(), right)
                        self.assertEqual(kind.take_compiles(), 0)
                        self.assertEqual({path.name: path.read_bytes() for path in own.iterdir()}, files)

    def test_each_damage_of_an_entry_is_found(self) -> None:
        for kind in self.kinds():
            right = kind.compile()
            self.assertEqual(kind.take_compiles(), 1)
            entry = kind.entry
            content = entry.read_bytes()
            with opkeep.Cache(self.store, kind.name, framework="another") as cache:
                cache.publish(bytes(32), {f"add.{kind.suffix}": b"of another framework"})
            (other,) = kind.entries() - {entry}
            for damage, bad in damages(content, other.read_bytes()).items():
                with self.subTest(f"{kind.name}: {damage}"):
                    # What has the name of the entry, also as a second name of the same file.
                    entry.unlink()
                    entry.write_bytes(bad)
                    self.empty_directory()
                    self.assertEqual(kind.compile(), right)
                    self.assertEqual(kind.take_compiles(), 1)
                    self.assertEqual(opkeep.verify(self.store)["exit_code"], 0)
                    self.empty_directory()
                    self.assertEqual(kind.compile(), right)
                    self.assertEqual(kind.take_compiles(), 0)

    def test_a_binary_that_is_not_valid_is_not_kept(self) -> None:
        host = Path(sys.executable).resolve().read_bytes()
        for kind in self.kinds():
            right = kind.compile()
            kind.take_compiles()
            binary = right[kind.suffix]
            bad = {
                "it is empty": (b"", True),
                "it is a head": (b"\x7fELF", kind.has_rules),
                "it is cut": (binary[: len(binary) // 2], kind.has_rules),
                "it is for the processor": (host, kind.has_rules),
                "it has another kernel": (binary.replace(b"add", b"sub"), kind.has_rules),
            }
            for damage, (content, is_refused) in bad.items():
                with self.subTest(f"{kind.name}: {damage}"):
                    self.new_store()
                    self.empty_directory()
                    with self.put_instead(f".{kind.suffix}", content):
                        try:
                            kind.compile()
                        except Exception:  # Triton cannot read it, since it is that of the compile.
                            pass
                    self.assertEqual(kind.take_compiles(), 1)
                    served = kind.compile()
                    self.assertEqual(kind.take_compiles(), 1 if is_refused else 0)
                    self.assertEqual(served[kind.suffix], binary if is_refused else content)

    def put_instead(self, suffix: str, bad: bytes) -> mock._patch[object]:
        """Have a compile put another binary."""
        from opkeep.triton import CacheManager, _log

        _log._warned.clear()
        put = CacheManager.put

        def replaced(manager: CacheManager, data: object, name: str, binary: bool = True) -> str:
            return put(manager, bad if name.endswith(suffix) else data, name, binary)

        return mock.patch.object(CacheManager, "put", replaced)


if __name__ == "__main__":
    unittest.main()
