"""The last link: from the code that the machine's compiler made to an object for a chip.

Its code is noise that differs with all that was linked. Constants, the metadata of kernels and debug information, if there is
any, stay as they are: paths that a source or an option brings into an object are in this one too.
"""
import hashlib
import struct
import sys

from opkeep_standin import elf, kernel
from opkeep_standin.elf import Section, Symbol

FAMILIES = {"dav-c220": "Ascend910B", "dav-m200": "Ascend310P", "dav-c100": "Ascend910", "dav-m300": "Ascend310B"}
META = ".ascend.meta."
HIDDEN = 2
GROUP_SECTION, GROUP_FLAG, COMDAT = 17, 0x200, 1


class Input:
    """A relocatable object: sections, and symbols as `(name, kind, binding, visibility, section)`."""

    def __init__(self, data):
        if data[:6] != b"\x7fELF\x02\x01":
            sys.exit("ld.lld: error: not an object file")
        table, = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        rows = [struct.unpack_from("<IIQQQQIIQQ", data, table + at * size) for at in range(count)]
        bodies = [b"" if row[1] in (0, elf.NOBITS) else data[row[4]:row[4] + row[5]] for row in rows]
        self.sections = [(_text(bodies[names], row[0]), row[1], row[6], body) for row, body in zip(rows, bodies)]
        self.symbols = []
        for (_, kind, link, body) in self.sections:
            if kind == elf.SYMTAB:
                for at in range(0, len(body), 24):
                    name, info, other, section, _, _ = struct.unpack_from("<IBBHQQ", body, at)
                    self.symbols.append((_text(bodies[link], name), info & 15, info >> 4, other & 3, section))

    def body(self, name):
        """The bytes of all sections of this name, one behind the other."""
        return b"".join(body for found, _, _, body in self.sections if found == name)

    def starting(self, prefix):
        return b"".join(body for found, _, _, body in self.sections if found.startswith(prefix))

    def kernels(self):
        """Functions that the loader can find: those that metadata describe."""
        described = {found[len(META):] for found, _, _, _ in self.sections if found.startswith(META)}
        return [name for name, kind, binding, visibility, section in self.symbols
                if kind == elf.FUNC and binding == elf.GLOBAL and visibility != HIDDEN and section and name in described]

    def seed(self):
        """A digest of all that becomes code: of relocations only whom they name."""
        digest = hashlib.sha256()
        for name, kind, _, body in self.sections:
            if kind == elf.RELA and not name.startswith(".rela.debug"):
                for at in range(0, len(body), 24):
                    _, info, addend = struct.unpack_from("<QQq", body, at)
                    digest.update(("%s %d %d\n" % (self.symbols[info >> 32][0], info & 0xFFFFFFFF, addend)).encode())
            elif kind == elf.PROGBITS and not name.startswith((".debug", ".comment", ".note")):
                digest.update(("%s %d\n" % (name, len(body))).encode() + body)
        return digest.hexdigest()


def _text(strings, at):
    return strings[at:strings.index(b"\0", at)].decode(errors="surrogateescape")


class Linked(kernel.Kernel):
    """The kernels of an input."""

    def __init__(self, found):
        targets = [text.split() for text in found.body(".cce.target").decode().split("\0") if text]
        archs = sorted({words[0] for words in targets if words})
        family = FAMILIES.get("-".join(archs[0].split("-")[:2]) if archs else "")
        if family is None:
            sys.exit("ld.lld: error: the stand-in writes no objects for `%s`" % ",".join(archs))
        stamps = [text for text in found.body(".comment").decode().split("\0") if text]
        self.found, self.names = found, found.kernels()
        if not self.names:
            sys.exit("ld.lld: error: no kernel is described")
        has_cube = any(arch.endswith("-cube") for arch in archs)
        mixed = any(name.endswith(("_mix_aic", "_mix_aiv")) for name in self.names)
        cores = ((1, 2) if has_cube else (0, 1)) if mixed else "VectorCore" if not has_cube and family == "Ascend910B" else "AiCore"
        super().__init__(family, self.names[0], cores, seed=found.seed(), stamp=stamps[0] if stamps else "", code_bytes=_code_bytes(found, self.names))

    def symbols(self):
        return self.names

    def part(self):
        """The bytes of a file that is yet to be linked into a super kernel."""
        return Making(self).partly_linked()

    def object(self):
        making = Making(self)
        if self.family == "Ascend910":
            return making.compiled()
        return making.linked_in_pages() if self.family == "Ascend310B" else making.linked()


def _code_bytes(found, names):
    return max(0x228, elf._up(len(found.starting(".text")) // len(names), 4))


class Making(kernel.Making):
    """The file of these kernels."""

    def metadata(self):
        return [Section(META + name, elf.NOTE, self.kernel.found.body(META + name), align=4) for name, _ in self.symbols]

    def arguments(self, name):
        """How many there are: records of type 5, big-endian, in the one of type 4."""
        records, at, count = self.kernel.found.body(META + name), 0, 0
        while at + 4 <= len(records):
            kind, size = struct.unpack_from("<HH", records, at)
            inner = at + 4
            while kind == 4 and inner < at + 4 + size:
                _, words = struct.unpack_from(">HH", records, inner)
                inner, count = inner + 4 + 8 * words, count + 1
            at += 4 + size
        return count

    def constants(self, start):
        """Loaded behind the code."""
        body = self.kernel.found.starting(".rodata")
        if not body:
            return self.text_bytes
        address = elf._up(self.text_bytes, 16)
        self.add(Section(".rodata", elf.PROGBITS, body, elf.ALLOC, address, start + address, 16))
        return address + len(body)

    def further(self):
        """Debug information is not loaded."""
        for name, kind, _, body in self.kernel.found.sections:
            if name.startswith(".debug") and kind == elf.PROGBITS:
                self.add(Section(name, elf.PROGBITS, body))

    def partly_linked(self):
        """By the linker, to be linked again: each piece of reserved memory is in a group, and kernels have no metadata."""
        text = self.text()
        self.sections[text - 1].align = 512
        relocations = self.add(Section(".rela.text", elf.RELA))
        stack = self.add(Section(".ascend.stack.size.record", elf.NOTE, struct.pack("<Q", kernel.STACK) * len(self.symbols)))
        pairs = []
        for name in self.reserved_names():
            group = self.add(Section(".group", GROUP_SECTION, align=4))
            flags = elf.ALLOC | elf.WRITE | GROUP_FLAG
            pairs.append((name, group, self.add(Section(".bl.uninit." + name, elf.PROGBITS, bytes(8), flags, align=8))))
        comment = self.comment([self.kernel.stamp])
        self.further()
        table = self.add(Section(".llvm_addrsig", kernel.ADDRSIG, flags=elf.EXCLUDE))
        self.add(Section(".note.GNU-stack", elf.PROGBITS))
        numbers = [text, stack] + [number for pair in pairs for number in pair[1:]] + [table, comment]
        self.local.extend(kernel.section_symbol(number) for number in numbers)
        self.functions(text)
        for name, group, section in pairs:
            self.globals.append(Symbol(name, elf.OBJECT, section, 0, 8, elf.WEAK))
            found = self.sections[group - 1]
            found.body, found.entry, found.info = struct.pack("<II", COMDAT, section), 4, len(self.local) + len(self.globals)
        names = self.finish()
        self.relocate(text, relocations)
        for _, group, _ in pairs:
            self.sections[group - 1].link = len(self.sections) - 2
        return self.write(kernel.RELOCATABLE, [], names)


def main(arguments):
    """Links the one input to the output, which may be the same file. With `--weaken`, a part of a super kernel comes of it."""
    inputs, output, words = [], None, iter(arguments)
    for word in words:
        if word == "-o":
            output = next(words, None)
        elif not word.startswith("-"):
            inputs.append(word)
    is_part = "--weaken" in arguments
    if is_part and len(inputs) == 1:
        output = inputs[0]
    if len(inputs) != 1 or output is None:
        sys.exit("ld.lld: error: one input and one output, not %s" % " ".join(arguments))
    try:
        with open(inputs[0], "rb") as file:
            data = file.read()
    except OSError as problem:
        sys.exit("ld.lld: error: cannot open %s: %s" % (inputs[0], problem.strerror))
    linked = Linked(Input(data))
    made = linked.part() if is_part else linked.object()
    with open(output, "wb") as file:
        file.write(made)
