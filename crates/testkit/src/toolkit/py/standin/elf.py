"""Writes ELF64 little-endian files, section by section, as `opkeep_testkit::image` does."""
import struct

HEADER = 64
PROGRAM_HEADER = 56

PROGBITS, SYMTAB, STRTAB, RELA, NOTE, NOBITS = 1, 2, 3, 4, 7, 8
WRITE, ALLOC, EXECINSTR, MERGE, STRINGS, INFO_LINK, EXCLUDE = 1, 2, 4, 16, 32, 64, 0x80000000
LOCAL, GLOBAL, WEAK = 0, 1, 2
OBJECT, FUNC, SECTION, FILE = 1, 2, 3, 4
ABSOLUTE = 0xFFF1


class Section:
    """A section. `body` is bytes, a number of bytes in memory only, a list of symbols, or None for a string table."""

    def __init__(self, name, kind, body=b"", flags=0, address=0, offset=None, align=1, entry=0, link=0, info=0):
        self.name, self.kind, self.body, self.flags = name, kind, body, flags
        self.address, self.offset, self.align = address, offset, align
        self.entry, self.link, self.info = entry, link, info

    def rank(self):
        """Loaded sections stand first in the file, string tables last."""
        if self.flags & ALLOC:
            return 0
        return 2 if self.body is None else 1


class Symbol:
    """A symbol; local ones go first."""

    def __init__(self, name, kind, section, value, size, binding=GLOBAL):
        self.name, self.kind, self.section = name, kind, section
        self.value, self.size, self.binding = value, size, binding


def symbol_table(symbols, strings):
    """The section of these symbols, whose names are in section `strings`."""
    local = sum(1 for symbol in symbols if symbol.binding == LOCAL)
    return Section(".symtab", SYMTAB, list(symbols), align=8, entry=24, link=strings, info=local + 1)


class Strings:
    """A string table; each text is there once."""

    def __init__(self):
        self.data, self.known = bytearray(b"\0"), {"": 0}

    def add(self, text):
        if text not in self.known:
            self.known[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self.known[text]


def write(elf_type, machine, flags, sections, segments, names):
    """The file. The first section is number 1; `names` is the one that holds the names of all."""
    bodies, section_names = _bodies(sections, names)
    offsets, end = _place(sections, bodies, len(segments))
    table = _up(end, 8)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01" + bytes(9), elf_type, machine, 1, 0,
        HEADER if segments else 0, table, flags, HEADER, PROGRAM_HEADER if segments else 0, len(segments),
        64, len(sections) + 1, names)
    file = bytearray(head)
    for kind, rights, offset, address, size, align in segments:
        file += struct.pack("<IIQQQQQQ", kind, rights, offset, address, address, size, size, align)
    file += bytes(table - len(file))
    for body, offset in zip(bodies, offsets):
        file[offset:offset + len(body)] = body
    file += bytes(64)
    for section, body, offset, name in zip(sections, bodies, offsets, section_names):
        size = section.body if isinstance(section.body, int) else len(body)
        file += struct.pack("<IIQQQQIIQQ", name, section.kind, section.flags, section.address, offset, size,
                            section.link, section.info, section.align, section.entry)
    return bytes(file)


def _up(value, align):
    return -(-value // max(align, 1)) * max(align, 1)


def _bodies(sections, names):
    tables = {names: Strings()}
    section_names = [tables[names].add(section.name) for section in sections]
    bodies = []
    for section in sections:
        if isinstance(section.body, list):
            bodies.append(_symbols(section.body, tables.setdefault(section.link, Strings())))
        else:
            bodies.append(section.body if isinstance(section.body, bytes) else b"")
    for at, section in enumerate(sections):
        if section.body is None:
            bodies[at] = bytes(tables.get(at + 1, Strings()).data)
    return bodies, section_names


def _symbols(symbols, strings):
    rows = [bytes(24)]
    for symbol in symbols:
        info = symbol.binding << 4 | symbol.kind
        rows.append(struct.pack("<IBBHQQ", strings.add(symbol.name), info, 0, symbol.section, symbol.value, symbol.size))
    return b"".join(rows)


def _place(sections, bodies, segments):
    end = HEADER + PROGRAM_HEADER * segments
    offsets = [0] * len(sections)
    for at in sorted(range(len(sections)), key=lambda at: sections[at].rank()):
        section = sections[at]
        offsets[at] = _up(end, section.align) if section.offset is None else section.offset
        end = max(end, offsets[at] + len(bodies[at]))
    return offsets, end
