"""Which files other hosts may use.

A kernel of a device runs on each device of its target. Code for the processor does not: it may need instructions that another
host's processor lacks, and a library runs in the process that loads it. So a compile is shared only for the backends whose
compilers are in the key, and only if nothing that it made is for a processor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ._toolchain import COLLECT

if TYPE_CHECKING:
    from ._compile import Compile

_PROCESSORS = frozenset((2, 3, 8, 20, 21, 22, 40, 43, 62, 183, 243, 258))
"""The numbers in ELF files of the processors of hosts: of SPARC, x86, MIPS, Power, s390, Arm, RISC-V and LoongArch."""


def stays_here(compile: Compile) -> bool:
    """Whether no other host is asked for the files of a compile, or gets them."""
    return compile.target is None or compile.target.backend not in COLLECT


def has_host_code(files: Iterable[tuple[str, bytes]]) -> bool:
    """Whether one of the files is code for a processor: a library by its name, or an ELF file by its content."""
    return any(name.endswith(".so") or _is_for_processor(content) for name, content in files)


def _is_for_processor(content: bytes) -> bool:
    if not content.startswith(b"\x7fELF") or len(content) < 20:
        return False
    return int.from_bytes(content[18:20], "big" if content[5] == 2 else "little") in _PROCESSORS
