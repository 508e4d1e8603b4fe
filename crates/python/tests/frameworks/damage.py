"""Files of a group that are damaged between two starts."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from outcome import Result, check, describe
from processes import Setting, Start, Worker, workers

FIRST = 1000


def flip(path: Path) -> None:
    """Change one bit in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    """Keep the first half."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def empty(path: Path) -> None:
    """Keep no byte."""
    path.write_bytes(b"")


FAULTS: dict[str, Callable[[Path], None]] = {"flipped": flip, "cut": cut, "empty": empty, "missing": Path.unlink}


def cases(setting: Setting, column: str) -> Iterator[Result]:
    """A case for each fault of each file, and for files of two kernels that are mixed."""
    site = setting.site(column)
    with workers(site, 3) as (writer, *readers):
        names = sorted(path.name for path in Path(writer.compile(FIRST).directory).iterdir() if path.is_file())
        faults = [(fault, name) for fault in FAULTS for name in names if wanted(name)]
        faults = setting.some(faults, 3) + [("swapped", "")]
        kernels = [FIRST + 1 + turn for turn in range(len(faults))]
        setting.reference([FIRST, *kernels])
        for (fault, name), kernel in zip(faults, kernels, strict=True):
            directory = Path(writer.compile(kernel).directory)
            if fault == "swapped":
                swap(directory, Path(writer.compile(FIRST).directory))
            else:
                FAULTS[fault](directory / name)
        found = [[reader.compile(kernel) for kernel in kernels] for reader in readers]
        for (fault, name), kernel, *starts in zip(faults, kernels, *found, strict=True):
            yield result(setting, column, kernel, row(fault), extension(name), starts)
        if column == "opkeep":
            yield from store_cases(setting, writer, readers)


def wanted(name: str) -> bool:
    """Whether the file belongs to the group: ours may keep others beside it."""
    return name.startswith(("add.", "__grp__")) and not name.endswith(".opkeep")


def row(fault: str) -> str:
    """The name of the table's row."""
    return "`.json` with another kernel's object" if fault == "swapped" else f"a file is {fault}"


def extension(name: str) -> str:
    """A short name for a file of the group."""
    return "`__grp__`" if name.startswith("__grp__") else f"`{Path(name).suffix}`" if name else ""


def result(setting: Setting, column: str, kernel: int, group: str, item: str, starts: list[Start]) -> Result:
    """The cell; ours may compile once, at the first start."""
    reference = setting.references[kernel]
    wrong = check(starts, reference, compiles=1)
    if starts[-1].compiles:
        wrong.append("the second start compiled again")
    facts = {"states": [start.state(reference) for start in starts], "compiles": [start.compiles for start in starts]}
    return Result(group, item, column, describe(starts, reference), wrong, facts)


def swap(directory: Path, other: Path) -> None:
    """Put the object of another kernel of the same name in place of the kernel's own."""
    for name in ("add.cubin", "add.hsaco", "add.npubin"):
        if (other / name).exists():
            shutil.copy(other / name, directory / name)


def largest(files: set[Path]) -> Path:
    """The largest of the files that a compile wrote."""
    if not files:
        raise LookupError("the compile wrote no file")
    return max(files, key=lambda path: path.stat().st_size)


def store_cases(setting: Setting, writer: Worker, readers: list[Worker]) -> Iterator[Result]:
    """Damage of our own store, with the framework's directory gone, so that the store has to be read."""
    faults = list(FAULTS)
    kernels = [FIRST + 500 + turn for turn in range(len(faults))]
    setting.reference(kernels)
    for fault, kernel in zip(faults, kernels, strict=True):
        before = writer.site.files()
        directory = Path(writer.compile(kernel).directory)
        entry = largest(writer.site.files() - before)
        FAULTS[fault](entry)
        for kept in directory.parent.glob(f"{directory.name}*"):
            shutil.rmtree(kept)
    found = [[reader.compile(kernel) for kernel in kernels] for reader in readers]
    for fault, kernel, *starts in zip(faults, kernels, *found, strict=True):
        yield result(setting, "opkeep", kernel, "our entry is damaged, the files are gone", fault, starts)
