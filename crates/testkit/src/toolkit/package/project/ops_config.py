"""ops_config.py BIN UNIT: writes the indexes of a package from the `.json` of its kernels.

`config/<unit>/<op>.json` for each operator, and `binary_info_config.json`; parts of super kernels are in
`relocatable_kernel_info_config.json` instead.
Nothing here reads an object.
"""
import json
import os
import sys

CORES = {"MIX": 0, "AiCore": 1, "VectorCore": 2}


def write_indexes(folder, unit):
    config, every, parts = os.path.join(folder, "config", unit), {}, {}
    os.makedirs(config, exist_ok=True)
    for op in sorted(os.listdir(os.path.join(folder, unit))):
        entries = []
        for name in sorted(os.listdir(os.path.join(folder, unit, op))):
            if not name.endswith(".json"):
                continue
            with open(os.path.join(folder, unit, op, name), encoding="utf-8") as file:
                fields = json.load(file)
            support = fields["supportInfo"]
            path = "%s/%s/%s" % (unit, op, name)
            support["binInfo"] = {"jsonFilePath": path}
            is_part = name.endswith("_relocatable.json")
            if not is_part:
                entries.append(support)
            listed = (parts if is_part else every).setdefault(name.split("_")[0], {
                "dynamicRankSupport": True, "simplifiedKeyMode": 0, "binaryList": []})
            listed["binaryList"].append({"coreType": CORES.get(fields.get("coreType"), -1),
                                         "simplifiedKey": support.get("simplifiedKey"),
                                         "binPath": path[:-4] + "o", "jsonPath": path})
        write(os.path.join(config, op + ".json"), {"binList": entries})
    write(os.path.join(config, "binary_info_config.json"), every)
    if parts:
        write(os.path.join(config, "relocatable_kernel_info_config.json"), parts)


def write(path, content):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)


if __name__ == "__main__":
    write_indexes(*sys.argv[1:])
