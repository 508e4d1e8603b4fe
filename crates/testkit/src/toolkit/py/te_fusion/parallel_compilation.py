"""What frameworks call: one request as JSON text, one answer."""
import json
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "opc_tool"))

import opc_api  # noqa: the path has to be set first


def compile_op(json_str):
    """Compiles a single operator below `./kernel_meta`; how it went, and where its `.json` is."""
    request = json.loads(json_str)
    soc, name = request["SocInfo"], request["fusion_op_name"]
    ops = [op for op in request["op_list"] if op.get("type") != "Data"]
    if len(ops) != 1:
        raise RuntimeError("the stand-in compiles single operators only")
    folder = os.path.abspath("kernel_meta")
    op = {"bin_filename": name, "inputs": _tensors(ops[0]["input_desc"]), "outputs": _tensors(ops[0]["output_desc"]),
          "attrs": [{key: attr[key] for key in ("name", "dtype", "value")} for attr in ops[0].get("attrs", [])]}
    options = {"soc_version": soc["socVersion"], "output": folder, "bin_filename": name,
               "core_type": soc.get("coreType") or None, "deterministic": soc.get("deterministic", "false"),
               "op_debug_level": int(soc.get("op_debug_level", 0)), "op_bank_path": soc.get("op_bank_path", "")}
    done = opc_api.compile_op({"op_type": ops[0]["type"], "op_list": [op]}, options)
    return {"status_code": 0 if done else 1, "op_res": json.dumps({"json_file_path": os.path.join(folder, name + ".json")})}


def _tensors(descs):
    return [desc and dict(desc, dtype=desc["data_type"]) for desc in descs]
