"""The object of a kernel, section by section, as `opkeep_testkit::ascend` writes it: the two are compared by a test.

Only the code is no code, but noise, which differs with all that the compiler was told.
"""
import struct

from opkeep_standin import elf
from opkeep_standin.elf import Section, Symbol

MACHINE = 0x1029
PAGE = 0x1000
STACK = 0x8000
ADDRSIG = 0x6FFF4C03
EXECUTABLE, RELOCATABLE = 2, 1
LOAD, PHDR, GNU_STACK = 1, 6, 0x6474E551
READ_EXECUTE, READ_WRITE, READ = 5, 6, 4
TO_RESERVED, TO_DATA = 0x123, 0x15C
DYNAMIC = (1 << 64) - 1
MASK = (1 << 64) - 1

SPLIT = ("Ascend910B", "Ascend910_93")
FAMILIES = ("Ascend910", "Ascend310P", "Ascend310B") + SPLIT

# What each kind of argument is in the metadata. Unlike the rest of the file, these words are big-endian.
ARGUMENTS = {
    "ffts": lambda _: [0x1000B],
    "input": lambda _: [0x10002, DYNAMIC],
    "inputs": lambda count: [0x30002, DYNAMIC, count],
    "output": lambda _: [0x10003, DYNAMIC],
    "workspace": lambda _: [0x10004],
    "tiling": lambda size: [0x10007, size],
}


class Kernel:
    """A kernel to be written. `cores` is `AiCore`, `VectorCore`, or the numbers of cube and vector cores of a mix;
    `keys` are tiling keys, none of them for a static kernel; `seed` is what the code differs with."""

    def __init__(self, family, name, cores="AiCore", keys=(), arguments=(), code_bytes=0x228, late=True, note=True,
                 seed="", stamp=""):
        self.family, self.name, self.cores, self.keys = family, name, cores, list(keys)
        self.arguments, self.code_bytes, self.late, self.note = list(arguments), code_bytes, late, note
        self.seed, self.stamp = seed, stamp

    def is_split(self):
        return self.family in SPLIT

    def is_mix(self):
        return not isinstance(self.cores, str)

    def has_cube(self):
        return self.cores == "AiCore" or (self.is_mix() and self.cores[0] > 0)

    def kernel_names(self):
        """The names as the `.json` has them."""
        if self.keys:
            return ["%s_%d" % (self.name, key) for key in self.keys]
        return [self.name] if self.is_mix() else [self.name + "__kernel0"]

    def symbols(self):
        """The symbols: two a name, where both sorts of cores take part."""
        if not self.is_mix():
            return self.kernel_names()
        sides = [suffix for count, suffix in zip(self.cores, ("_mix_aic", "_mix_aiv")) if count]
        return [name + side for name in self.kernel_names() for side in sides]

    def flags(self):
        if self.is_split():
            return 0x940000 if self.has_cube() else 0x930000
        return {"Ascend910": 0, "Ascend310P": 0x8A0000, "Ascend310B": 0x950000}[self.family]

    def kernel_type(self):
        if self.is_mix():
            return 4 if self.cores[0] else 5
        if not self.is_split():
            return 1
        return 2 if self.cores == "AiCore" else 3

    def all_arguments(self):
        return ([("ffts", 0)] if self.is_mix() else []) + self.arguments

    def metadata(self):
        """Records of a type, a length and a value."""
        records = struct.pack("<HHI", 1, 4, self.kernel_type())
        if self.is_mix():
            records += struct.pack("<HHHH", 3, 4, *self.cores)
        if self.family == "Ascend310B":
            return records
        inner = b""
        for kind, number in self.all_arguments():
            words = ARGUMENTS[kind](number)
            inner += struct.pack(">HH%dQ" % len(words), 5, len(words), *words)
        return records + struct.pack("<HH", 4, len(inner)) + inner

    def object(self):
        """The bytes of the file."""
        making = Making(self)
        if self.family == "Ascend910":
            return making.compiled()
        return making.linked_in_pages() if self.family == "Ascend310B" else making.linked()


def noise(name, size):
    """Bytes that look like nothing, and differ from name to name."""
    state = 0x9E3779B97F4A7C15
    for byte in name.encode():
        state = ((state ^ byte) * 0x100000001B3) & MASK
        state = (state << 7 | state >> 57) & MASK
    state |= 1
    words = []
    for _ in range(-(-size // 8)):
        state ^= state << 13 & MASK
        state ^= state >> 7
        state ^= state << 17 & MASK
        words.append(struct.pack("<Q", state))
    return b"".join(words)[:size]


class Making:
    """A file in the making."""

    def __init__(self, kernel):
        self.kernel, self.sections, self.local = kernel, [], []
        self.symbols = [(name, at * kernel.code_bytes) for at, name in enumerate(kernel.symbols())]
        self.text_bytes = len(self.symbols) * kernel.code_bytes
        self.globals = []

    def add(self, section):
        self.sections.append(section)
        return len(self.sections)

    def write(self, elf_type, segments, names):
        return elf.write(elf_type, MACHINE, self.kernel.flags(), self.sections, segments, names)

    def compiled(self):
        """By the compiler alone, without a linker: the first generation."""
        strings = self.add(Section(".strtab", elf.STRTAB, None))
        text = self.text()
        self.comment([self.kernel.stamp])
        self.add(Section(".note.GNU-stack", elf.PROGBITS))
        self.add(Section(".llvm_addrsig", ADDRSIG, flags=elf.EXCLUDE))
        self.local.append(Symbol("-", elf.FILE, elf.ABSOLUTE, 0, 0, elf.LOCAL))
        self.functions(text)
        self.add(elf.symbol_table(self.local + self.globals, strings))
        return self.write(RELOCATABLE, [], strings)

    def linked_in_pages(self):
        """By the linker, headers and code in pages of their own: 310B. Both segments start at address 0."""
        text = self.text(PAGE)
        pages = elf._up(self.text_bytes, PAGE)
        for at, section in enumerate(self.metadata()):
            section.offset = None if at else PAGE + pages
            self.add(section)
        self.comment(["Linker: LLD 15.0.5", self.kernel.stamp])
        self.add(Section(".debug_frame", elf.PROGBITS, noise("frame", 0x40), align=8))
        reserved = self.reserved()
        self.functions(text)
        self.globals[1:1] = reserved
        names = self.finish()
        headers = 4 * elf.PROGRAM_HEADER
        return self.write(EXECUTABLE, [
            (PHDR, READ, elf.HEADER, elf.HEADER, headers, 8),
            (LOAD, READ, 0, 0, elf.HEADER + headers, PAGE),
            (LOAD, READ_EXECUTE, PAGE, 0, pages, PAGE),
            (GNU_STACK, READ_WRITE, 0, 0, 0, 0),
        ], names)

    def linked(self):
        """By the linker: 310P, 910B and their kin."""
        kernel = self.kernel
        start = elf.HEADER + 3 * elf.PROGRAM_HEADER
        text = self.text(start)
        loaded = self.constants(start)
        address = elf._up(loaded, PAGE)
        data = self.add(Section(".data", elf.PROGBITS, bytes(8), elf.ALLOC | elf.WRITE, address, start + address, 256))
        split = kernel.is_split()
        relocations = self.add(Section(".rela.text", elf.RELA)) if split and kernel.late else None
        record = elf.NOTE if kernel.late else elf.PROGBITS
        if split:
            stack = self.add(Section(".ascend.stack.size.record", record, struct.pack("<Q", STACK) * len(self.symbols)))
        metadata, sizes, comment = self.notes(record)
        self.further()
        reserved = self.reserved()
        if split and kernel.late:
            self.local.append(section_symbol(text))
            self.local.append(section_symbol(stack))
            self.local.append(section_symbol(data, address))
            numbers = metadata[:1] + [sizes] + metadata[1:] + [comment]
            self.local.extend(section_symbol(number) for number in numbers)
        self.functions(text)
        if sizes:
            self.sizes_of_arguments(sizes)
        # What it stands for is larger than its section: the loader provides it.
        configuration = Symbol("g_opSystemRunCfg", elf.OBJECT, data, address, 256)
        self.globals[1:1] = reserved + [configuration]
        names = self.finish()
        if relocations:
            self.relocate(text, relocations)
        return self.write(EXECUTABLE, [
            (LOAD, READ_EXECUTE, start, 0, loaded, PAGE),
            (LOAD, READ_WRITE, start + address, address, 8, PAGE),
            (GNU_STACK, READ_WRITE, 0, 0, 0, 0),
        ], names)

    def text(self, offset=None):
        code = b"".join(noise(self.kernel.seed + name, self.kernel.code_bytes) for name, _ in self.symbols)
        return self.add(Section(".text", elf.PROGBITS, code, elf.ALLOC | elf.EXECINSTR, offset=offset, align=4))

    def constants(self, _):
        """What is loaded behind the code; where all of it ends."""
        return self.text_bytes

    def further(self):
        """Sections that are not loaded."""

    def arguments(self, _):
        """How many a kernel takes."""
        return len(self.kernel.all_arguments())

    def comment(self, lines):
        text = b"".join(line.encode() + b"\0" for line in lines)
        return self.add(Section(".comment", elf.PROGBITS, text, elf.MERGE | elf.STRINGS, entry=1))

    def metadata(self):
        kind = elf.NOTE if self.kernel.note else elf.PROGBITS
        records = self.kernel.metadata()
        return [Section(".ascend.meta." + name, kind, records, align=4) for name, _ in self.symbols]

    def notes(self, record):
        """A newer linker has the first kernel's metadata before the others and the rest behind."""
        sections, late, sizes = self.metadata(), [], None
        if self.kernel.late and self.kernel.is_split():
            sections, late = sections[:1], sections[1:]
        numbers = [self.add(section) for section in sections]
        if self.kernel.is_split():
            size = b"".join(struct.pack("<I", 8 * self.arguments(name)) for name, _ in self.symbols)
            sizes = self.add(Section("__CCE_KernelArgSize", record, size, align=4))
        lines = ["Linker: LLD 15.0.5", self.kernel.stamp]
        comment = self.comment(lines[::-1] if self.kernel.late else lines)
        return numbers + [self.add(section) for section in late], sizes, comment

    def reserved_names(self):
        pipe = "g_tPipePtr"
        if self.kernel.is_split():
            pipe = "g_cubeTPipePtr" if self.kernel.has_cube() else "g_vecTPipePtr"
        return ["g_sysWorkspaceReserved", pipe]

    def reserved(self):
        """Memory that is neither in the file nor loaded, and its symbols."""
        section = self.add(Section(".bl_uninit", elf.NOBITS, 16, align=8 if self.kernel.note else 1))
        return [Symbol(name, elf.OBJECT, section, 8 * at, 8, elf.WEAK) for at, name in enumerate(self.reserved_names())]

    def functions(self, text):
        size = self.kernel.code_bytes
        self.globals += [Symbol(name, elf.FUNC, text, at, size) for name, at in self.symbols]

    def sizes_of_arguments(self, section):
        """The symbol of the size of each kernel's arguments, right behind the kernel's own."""
        functions, self.globals = self.globals, []
        for at, function in enumerate(functions):
            size = Symbol(function.name + "__", elf.OBJECT, section, 4 * at, 4, elf.WEAK)
            self.globals += [function, size]

    def finish(self):
        """Adds the tables of symbols and names; the number of that of sections' names."""
        self.add(elf.symbol_table(self.local + self.globals, len(self.sections) + 3))
        names = self.add(Section(".shstrtab", elf.STRTAB, None))
        self.add(Section(".strtab", elf.STRTAB, None))
        return names

    def relocate(self, text, relocations):
        """Each kernel reads the reserved memory and the data."""
        symbols = self.local + self.globals
        targets = [(number, TO_DATA if symbol.name == "g_opSystemRunCfg" else TO_RESERVED)
                   for number, symbol in enumerate(symbols, 1)
                   if symbol.kind == elf.OBJECT and symbol.name.startswith("g_")]
        rows = b""
        for _, start in self.symbols:
            for step, (number, kind) in enumerate(targets):
                rows += struct.pack("<QQq", start + 0x18 + 0x24 * step, number << 32 | kind, 0)
        section = self.sections[relocations - 1]
        section.body, section.entry, section.info, section.align = rows, 24, text, 8
        section.link, section.flags = len(self.sections) - 2, elf.INFO_LINK


def section_symbol(number, address=0):
    return Symbol("", elf.SECTION, number, address, 0, elf.LOCAL)
