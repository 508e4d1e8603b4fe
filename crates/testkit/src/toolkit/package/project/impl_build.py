"""impl_build.py INI OPTIONS UNIT OUT NAMES: writes the Python of each operator, with its compile options in it.

Lines of OPTIONS are `type or ALL,unit or nothing,option option ...`. NAMES is `type` or `file`: after what files are named.
"""
import os
import sys

import ini

HERE = os.path.dirname(os.path.abspath(__file__))


def options_of(path, op_type, unit):
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, of, words = line.rstrip("\n").split(",", 2)
            if name in ("ALL", op_type) and of in ("", unit):
                found += words.split()
    return found


def write_all(ini_path, options_path, unit, folder, names):
    with open(os.path.join(HERE, "operator.py.template"), encoding="utf-8") as file:
        template = file.read()
    os.makedirs(folder, exist_ok=True)
    for op_type, fields in ini.read(ini_path).items():
        ports = [(name, side) for name, side, _, _ in ini.ports(fields)]
        attrs = ["%s=%s" % (name, default) for name, _, default in ini.attrs(fields)]
        tensors = [name for name, _ in ports]
        text = template
        for mark, value in (
                ("TYPE", op_type), ("FILE", fields["opFile.value"]), ("FUNCTION", fields["opInterface.value"]),
                ("PORTS", repr(ports)), ("OPTIONS", repr(options_of(options_path, op_type, unit))),
                ("DETERMINISTIC", str(fields.get("deterministic.flag") == "true")),
                ("PARAMS", "".join(word + ", " for word in tensors + attrs)), ("TENSORS", ", ".join(tensors))):
            text = text.replace("@%s@" % mark, value)
        stem = op_type if names == "type" else fields["opFile.value"]
        path = os.path.join(folder, stem + ".py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    write_all(*sys.argv[1:])
