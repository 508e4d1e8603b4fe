"""The parameter file: what is in it, made whole."""
import hashlib
import json

from tbe.common.utils import log as logger

import op_info_store

TENSOR_KEYS = (
    "shape", "ori_shape", "format", "sub_format", "ori_format", "dtype", "range", "ori_range", "addr_type",
    "const_value", "use_L1_workspace", "L1_addr_flag", "L1_fusion_type", "split_index", "L1_workspace_size",
    "L1_addr_offset", "L1_valid_size", "is_first_layer", "slice_offset", "valid_shape", "total_shape",
)


def load(path):
    """The file's content, or none if it is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            params = json.load(file)
    except (OSError, ValueError) as problem:
        logger.error("load file[%s] failed, reason: %s.", path, problem)
        return None
    return check(params, path)


def check(params, what="params"):
    if not isinstance(params, dict):
        logger.error("File content of [%s] is not dict.", what)
        return None
    if "op_list" not in params:
        logger.error("There is no op_list in json file[%s].", what)
        return None
    return params


def check_placeholders(params):
    """Where placeholders are to be made, every port has to be there."""
    info = op_info_store.find(params.get("op_type"))
    if info is None:
        return True
    op = params["op_list"][0]
    for side, ports in (("inputs", info.inputs), ("outputs", info.outputs)):
        if len(op.get(side) or []) != len(ports):
            logger.error("Op[type=%s] invalid %s nums[%d], which should be equal to nums[%d] in op store.",
                         params.get("op_type"), side[:-1], len(op.get(side) or []), len(ports))
            return False
    return True


def tensors(op, side):
    """The descriptions that the function takes."""
    return [[_tensor(item) for item in tensor] if isinstance(tensor, list) else _tensor(tensor)
            for tensor in op[side]]


def _tensor(desc):
    if desc is None:
        return None
    found = {key: desc[key] for key in TENSOR_KEYS if desc.get(key) is not None}
    if not found or found.get("format") == "FORMAT_RESERVED" or found.get("dtype") == "undefined":
        return None
    if found.get("shape") == []:
        found["shape"] = [1]
    found.setdefault("ori_format", found.get("format"))
    found.setdefault("ori_shape", found.get("shape"))
    for key in ("range", "ori_range"):
        if key in found:
            found[key] = [[None if bound == -1 else bound for bound in row] for row in found[key]]
    shape = found.get("shape")
    if isinstance(shape, list) and len(shape) != len(found.get("range") or []):
        found["range"] = [[dim if dim > 0 else 1, dim if dim > 0 else None] for dim in shape]
    return found


def attrs(op, op_type):
    """The attributes that the function takes, in its order. Those that it does not know are dropped, and those that
    are missing filled in, but only where any are given at all: without any, the kernel's name lands in their place."""
    given = [_attr(attr, op) for attr in op["attrs"]]
    info = op_info_store.find(op_type)
    if not given or info is None:
        return given
    by_name = {attr["name"]: attr for attr in given if attr is not None}
    found = []
    for name, spec in info.attrs:
        attr = by_name.pop(name, None)
        if attr is None and spec.get("paramType") == "optional":
            attr = {"name": name, "dtype": op_info_store.attr_type(spec), "value": op_info_store.attr_default(spec)}
            logger.warn("%s and attr %s by op info store.", op_type, name)
        found.append(attr)
    for name in by_name:
        logger.warn("%s delete input attr [%s]. op info store does not have this attr.", op_type, name)
    return [attr for attr in found if attr is not None]


def _attr(attr, op):
    if attr is None:
        return None
    if not isinstance(attr, dict):
        raise RuntimeError("type of attr should be dict, but it is [%s]." % type(attr))
    for key in ("name", "dtype"):
        if attr.get(key) is None:
            raise RuntimeError("Attr key:[%s] is not exist in json." % key)
    kinds = [key for key in ("value", "value_list", "value_range") if key in attr]
    if len(kinds) != 1:
        raise KeyError("Only support one of [value,value_range,value_list] in attr dict, please check input param.")
    if kinds[0] != "value" and op.get("simplified_key") in (None, ""):
        raise ValueError("When configuring [value_range,value_list] in attr dict, simplified_key need be configured.")
    if kinds[0] == "value_range" and "range_mode" not in attr:
        raise RuntimeError("Attr key:[value_range] exist but [range_mode] not exist in json.")
    return {key: attr[key] for key in ("name", "dtype", "range_mode", kinds[0]) if key in attr}


def attr_value(attr):
    """What the function gets for an attribute."""
    if "value_range" in attr:
        return {"value_range": attr["value_range"], "range_mode": attr.get("range_mode")}
    return {"value_list": attr["value_list"]} if "value_list" in attr else attr.get("value")


def kernel_name(op, op_type, found, options):
    """`bin_filename`, or the type and a digest of what is compiled."""
    if op.get("bin_filename") is not None:
        return op["bin_filename"]
    soc = {"coreType": options.get("core_type"), "coreNum": options.get("aicore_num"), "implMode": options.get("impl_mode")}

    def brief(tensor):
        return tensor and {key: tensor.get(key) for key in ("shape", "dtype", "format")}
    named = [{key: attr[key] for key in ("name", "dtype", "value")} for attr in found["attrs"] if attr.get("value") is not None]
    parts = [soc, *map(brief, found["inputs"]), *map(brief, found["outputs"]), *named]
    return "%s_%s" % (op_type, hashlib.sha256(json.dumps(parts).encode()).hexdigest())
