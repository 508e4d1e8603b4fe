"""opc_cmd_build.py INI OUT UNIT IMPL_MODE BUILD [MORE [DEBUG]]: writes a parameter file for each row, and `opc_cmd.sh`, a line for each.

The lines are run by a shell as they are: neither spaces nor quotes in an option survive. The folder is removed first.
"""
import hashlib
import json
import os
import shutil
import sys

import ini
import param_build


def write_all(ini_path, folder, unit, mode, build, more="", debug=""):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    lines = []
    for op_type, fields in ini.read(ini_path).items():
        name = fields["opFile.value"]
        for index, op in enumerate(param_build.rows(fields)):
            # The names in these files are written by hand, once for all units; the mode is appended.
            digest = hashlib.md5(json.dumps(op, sort_keys=True).encode()).hexdigest()
            op["bin_filename"] = "%s_%s_%s" % (op_type, digest, mode)
            path = os.path.join(folder, "%s_binary_%s.json_%d" % (name, mode, index))
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"op_type": op_type, "op_list": [op]}, file, indent=2)
            words = ["asc_opc", os.path.join(build, "tbe/dynamic", name + ".py"), "--main_func=" + fields["opInterface.value"],
                     "--input_param=" + path, "--soc_version=" + param_build.SOCS[unit],
                     "--output=" + os.path.join(build, "binary", unit, "bin", unit, name) + "/",
                     "--impl_mode=%s,optional" % mode, "--simplified_key_mode=0", "--op_mode=dynamic"]
            if debug:
                words.append("--op_debug_config=" + debug)
            lines.append(" ".join(words + more.split()))
    with open(os.path.join(folder, "opc_cmd.sh"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_all(*sys.argv[1:])
