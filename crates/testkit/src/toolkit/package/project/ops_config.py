"""ops_config.py BIN UNIT: writes the indexes of a package from the `.json` of its kernels.

`config/<unit>/<op>.json` for each operator, and `binary_info_config.json`.
Nothing here reads an object.
"""
import json
import os
import sys


def write_indexes(folder, unit):
    config, every = os.path.join(folder, "config", unit), {}
    os.makedirs(config, exist_ok=True)
    for op in sorted(os.listdir(os.path.join(folder, unit))):
        entries, types = [], set()
        for name in sorted(os.listdir(os.path.join(folder, unit, op))):
            if not name.endswith(".json"):
                continue
            with open(os.path.join(folder, unit, op, name), encoding="utf-8") as file:
                support = json.load(file)["supportInfo"]
            support["binInfo"] = {"jsonFilePath": "%s/%s/%s" % (unit, op, name)}
            entries.append(support)
            types.add(name.split("_")[0])
        for op_type in types:
            every[op_type] = {"dynamicRankSupport": True, "simplifiedKeyMode": 0, "binaryList": [
                {"coreType": 0, "simplifiedKey": entry.get("simplifiedKey"), "binPath": entry["binInfo"]["jsonFilePath"][:-4] + "o",
                 "jsonPath": entry["binInfo"]["jsonFilePath"]} for entry in entries]}
        write(os.path.join(config, op + ".json"), {"binList": entries})
    write(os.path.join(config, "binary_info_config.json"), every)


def write(path, content):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)


if __name__ == "__main__":
    write_indexes(*sys.argv[1:])
