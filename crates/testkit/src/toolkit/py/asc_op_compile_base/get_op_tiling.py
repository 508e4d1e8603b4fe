"""The header with the tiling data of an operator: from a struct in its source, or from the package's host library."""
import ctypes
import glob
import json
import os
import struct
import subprocess

from asc_op_compile_base.asc_op_compiler import common_utility as utility

SIZES = {"uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4, "float": 4, "uint64_t": 8,
         "int64_t": 8}

ISOLATED = """import ctypes, json, sys
library = ctypes.CDLL(sys.argv[1])
library.OpTilingStruct.restype = ctypes.c_char_p
text = library.OpTilingStruct(sys.argv[2].encode())
json.dump(text and text.decode(), open(sys.argv[3], "w"))
"""


class Tiling:
    """`text` is the header; `size` is that of the data, if it is known before the compile; `version` is the library's."""

    def __init__(self, text, size=None, version=None):
        self.text, self.size, self.version = text, size, version


def tiling_of(task, name):
    """The header for the struct `name` of the source, or, without one, for what a library says."""
    if name is not None:
        return Tiling("#pragma once\n#define ASCENDC_TILING_STRUCT %s\n" % name)
    library, described = _of_libraries(task)
    if described is None:
        raise utility.CompileError("no tiling struct of %s is found" % task.op_type)
    name, *fields = described.split(";")
    lines = ["#pragma once", "#define ASCENDC_TILING_STRUCT %s" % name, "struct %s {" % name]
    lines += ["    %s;" % field for field in fields] + ["};"]
    version = utility.dump(library, ".ascendc.api.version").split(b"\0")[0].decode()
    return Tiling("\n".join(lines) + "\n", sum(SIZES[field.split()[0]] for field in fields), version)


def _of_libraries(task):
    """The first library that knows the operator: the project's own, then those of packages that are installed."""
    folder = os.path.dirname(task.python)
    if os.path.basename(task.python) == task.op_type + ".py":
        own = os.path.join(folder, "../customize/op_impl/ai_core/tbe/op_tiling/liboptiling.so")
        if os.path.exists(own):
            return own, _ask(own, task.op_type)
    own = os.path.join(folder, "../../op_tiling/liboptiling.so")
    if os.path.exists(own):
        return own, _ask_apart(task, own)
    for library in _installed():
        found = _ask(library, task.op_type)
        if found is not None:
            return library, found
    return None, None


def _ask(path, op_type):
    library = ctypes.CDLL(os.path.realpath(path))
    library.OpTilingStruct.restype = ctypes.c_char_p
    text = library.OpTilingStruct(op_type.encode())
    return text and text.decode()


def _ask_apart(task, path):
    """In a process of its own, so that the library of one package does not stay."""
    answer = os.path.join(task.folder, "%s_isolate_tiling_%d.json" % (task.op_type, os.getpid()))
    subprocess.run(["python3", "-c", ISOLATED, os.path.realpath(path), task.op_type, answer], check=True)
    text = json.loads(utility.read(answer))
    os.remove(answer)
    return text


def _installed():
    opp = os.environ.get("ASCEND_OPP_PATH", "")
    roots = [entry for entry in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if entry]
    roots += sorted(glob.glob(os.path.join(opp, "vendors", "*")))
    for root in roots:
        path = os.path.join(root, "op_impl/ai_core/tbe/op_tiling/liboptiling.so")
        if os.path.exists(path):
            yield path
    yield from sorted(glob.glob(os.path.join(opp, "built-in/op_impl/ai_core/tbe/op_host/**/*.so"), recursive=True))


def size_of(path):
    """The size that the compiler wrote into an object, of a struct that only the source knows."""
    data = utility.dump(path, ".ascendc_tiling")
    return struct.unpack_from("<Q", data)[0] if len(data) >= 8 else 0
