"""What a kernel's source says of itself: tiling keys, kernel types, the tiling struct. It is read from preprocessed text."""
import itertools
import re

from asc_op_compile_base.asc_op_compiler import common_utility as utility
from asc_op_compile_base.asc_op_compiler import constants

NUMBER = r"\(?\s*(\d+)[uUlL]*\s*\)?"


class KernelInfo:
    """`keys` are in the order of the source; `arguments` are those of the template, by key."""

    def __init__(self):
        self.keys, self.arguments, self.types = [], {}, {}
        self.default_type, self.struct, self.selects = None, None, False

    def type_of(self, key):
        return self.types.get(key, self.default_type)


def preprocess(task):
    """Runs the preprocessor once for each kind of core, and reads what it wrote."""
    for side in task.sides():
        output = task.file("_%s.i" % side if side else ".i")
        command = utility.compiler() + utility.language(task.options) + [
            "-E", "-D" + constants.PRECOMPILE, "-includestdio.h", "-DASCENDC_TPL_PRE", "-DASCENDC_TPL_KERNEL",
            "--cce-aicore-arch=" + task.arch(side), "-std=c++17", task.source, "-o", output]
        utility.run(command)
    info = _read(_without_markers(utility.read(output)), task.func)
    if info.selects:
        _select_struct(task, info)
    return info


def _select_struct(task, info):
    """Structs that are chosen by key need one more run, which no ccache ever sees."""
    output = task.file("_struct.i")
    command = [utility.which("bisheng")] + utility.language(task.options) + [
        "-E", "-DASCENDC_TILING_SELECT", "--cce-aicore-arch=" + task.arch(task.sides()[-1]), "-std=c++17", task.source, "-o",
        output]
    utility.run(command)
    found = re.search(r"__ascendc_selected_struct\(\s*(\w+)\s*\)", _without_markers(utility.read(output)))
    info.struct = found and found.group(1)


def _without_markers(text):
    return "\n".join(line for line in text.splitlines() if not line.startswith("#"))


def _read(text, func):
    info = KernelInfo()
    for key in re.findall(r"__ascendc_tiling_key\(%s\)" % NUMBER, text):
        if int(key) not in info.keys:
            info.keys.append(int(key))
    default = re.search(r"__ascendc_kernel_type\(%s\)" % NUMBER, text)
    info.default_type = constants.NUMBERS.get(default.group(1)) if default else None
    for key, number in re.findall(r"__ascendc_kernel_type_of\(%s\s*,%s\)" % (NUMBER, NUMBER), text):
        info.types[int(key)] = constants.NUMBERS.get(number)
    struct = re.search(r"__ascendc_tiling_struct\(\s*(\w+)\s*\)", text)
    info.struct = struct and struct.group(1)
    info.selects = "__ascendc_tiling_select(" in text
    _read_template(text, info)
    if not info.keys:
        if func not in text:
            raise utility.CompileError("the source has no kernel %s" % func)
        info.keys = [0]
    return info


def _read_template(text, info):
    """A key is made of the arguments' values, each in as many bits as are declared."""
    declared = re.search(r"__ascendc_tpl_decl\((.*?)__ascendc_tpl_end", text, re.S)
    chosen = re.search(r"__ascendc_tpl_sel(.*?)__ascendc_tpl_end", text, re.S)
    if not declared or not chosen:
        return
    bits = {name: int(size) for name, size in re.findall(r"__ascendc_tpl_(?:uint|bool)\(\s*(\w+)\s*,\s*(\d+)\s*,", declared.group(1))}
    for row in re.findall(r"__ascendc_tpl_row(.*?)__ascendc_tpl_row_end", chosen.group(1), re.S):
        values = {name: [int(value) for value in listed.split(",")]
                  for name, listed in re.findall(r"__ascendc_tpl_values\(\s*(\w+)\s*,([\d\s,]*)\)", row)}
        for combination in itertools.product(*(values[name] for name in bits)):
            key, shift = 0, 0
            for size, value in zip(bits.values(), combination):
                key, shift = key | value << shift, shift + size
            if key not in info.keys:
                info.keys.append(key)
                info.arguments[key] = combination
