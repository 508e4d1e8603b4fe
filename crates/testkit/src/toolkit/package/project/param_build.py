"""param_build.py INI OUT UNIT COMMAND PARTS [KEYS [DEBUG]]: writes the parameter file and the script of each row of each operator.

A row is one choice of element types and formats. KEYS are tiling keys, DEBUG words for `--op_debug_config`, with commas: these
are kept in a set, so that their order changes from run to run. With PARTS (`1`), each row has a second task behind those of all
rows, for a part of super kernels.
"""
import hashlib
import json
import os
import sys

import ini

SOCS = {"ascend910b": "Ascend910B1", "ascend910_93": "Ascend910_9391", "ascend310p": "Ascend310P3"}

SCRIPT = """#!/bin/bash
echo "[@SOC@] Generating @NAME@ ..."
export ASCEND_GLOBAL_LOG_LEVEL=3
export ASCEND_SLOG_PRINT_TO_STDOUT=1
while true; do
    case "$1" in
        --kernel-src=*) export BUILD_KERNEL_SRC="${1#--kernel-src=}"; shift ;;
        *) break ;;
    esac
done
res=$(@COMMAND@ $1 --main_func=@FUNC@ --input_param=@PARAM@ --soc_version=@SOC@ --output=$2 --impl_mode=high_performance,optional --simplified_key_mode=0 --op_mode=dynamic@MORE@)
echo "${res}"
if ! test -f $2/@NAME@.o ; then
@LENIENT@    echo "$2/@NAME@.o not generated!"
    exit 1
fi
if ! test -f $2/@NAME@.json ; then
    echo "$2/@NAME@.json not generated!"
    exit 1
fi
echo "[@SOC@] Generating @NAME@ Done"
"""
# With keys, a row that has none of them is no error.
LENIENT = """    case "${res}" in
        *"None of the given tiling keys are in the supported list"*) exit 0 ;;
    esac
"""


def tensor(name, at, dtype, form):
    return {"name": name, "index": at, "dtype": dtype, "format": form, "paramType": "required", "shape": [-2],
            "format_match_mode": "FormatAgnostic"}


def rows(fields):
    """The parameters of each row, without the name of the file that comes of it."""
    ports = list(ini.ports(fields))
    for row in range(len(ports[0][2])):
        sides = {"input": [], "output": []}
        for name, side, dtypes, forms in ports:
            sides[side].append(tensor(name, len(sides[side]), dtypes[row], forms[row]))
        attrs = [{"name": name, "dtype": kind, "value": float(default)} for name, kind, default in ini.attrs(fields)]
        yield {"bin_filename": "", "inputs": sides["input"], "outputs": sides["output"], "attrs": attrs}


def named(op_type, op, taken):
    """The parameter file: the digest in the name is that of its text without the name, until no other has it."""
    params = {"op_type": op_type, "op_list": [op]}
    digest = hashlib.md5(json.dumps(params, indent=2).encode()).hexdigest()
    while digest in taken:
        digest += "1"
    taken.add(digest)
    op["bin_filename"] = "%s_%s" % (op_type, digest)
    return params


def write_all(ini_path, folder, unit, command, parts, keys="", debug=""):
    os.makedirs(folder, exist_ok=True)
    taken = set()
    for op_type, fields in ini.read(ini_path).items():
        every = [(op, False) for op in rows(fields)]
        every += [(op, True) for op in rows(fields)] if parts == "1" else []
        for index, (op, is_part) in enumerate(every):
            params = named(op_type, op, set() if is_part else taken)
            more = ' --tiling_key="%s"' % keys if keys else ""
            if debug:
                more += " --op_debug_config=" + ",".join(set(debug.split(",")))
            if is_part:
                op["bin_filename"] += "_relocatable"
                more += " --op_relocatable_kernel_binary=True"
            name = op["bin_filename"]
            path = os.path.join(os.path.abspath(folder), name + "_param.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(params, file, indent=2)
            text = SCRIPT
            for mark, value in (("SOC", SOCS[unit]), ("NAME", name), ("COMMAND", command), ("FUNC", fields["opInterface.value"]),
                                ("PARAM", path), ("MORE", more), ("LENIENT", LENIENT if keys else "")):
                text = text.replace("@%s@" % mark, value)
            script = os.path.join(folder, "%s-%s-%d.sh" % (op_type, fields["opFile.value"], index))
            with open(script, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(script, 0o755)


if __name__ == "__main__":
    write_all(*sys.argv[1:])
