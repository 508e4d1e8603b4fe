"""What is added to the `.json` after the compile, and where both files go."""
import hashlib
import json
import os
import shutil

from tbe.common.utils import log as logger

import constant

# Newer releases set the rights of objects too, write no path into the `.json`, and list both modes where one is optional.
IS_NEW = False


def add_support_info(path, op, found, options):
    """For what the kernel was compiled. The file is written anew, in another style."""
    with open(path, encoding="utf-8") as file:
        fields = json.load(file)
    if "jsonList" in fields:
        return
    os.chmod(path, 0o660)
    fields["supportInfo"] = support_info(fields, op, found, options)
    if not IS_NEW:
        fields["filePath"] = os.path.join(options["output"], os.path.basename(path))
    with open(path, "w", encoding="utf-8") as file:
        json.dump(fields, file, indent=4)


def support_info(fields, op, found, options):
    info = {}
    if found["impl_mode"] is not None:
        info["implMode"] = found["impl_mode"]
    info["int64Mode"] = found["int64_mode"]
    deterministic = _deterministic(fields)
    keys = simplified_keys(found, deterministic, options)
    if keys:
        info["simplifiedKeyMode"] = options["simplified_key_mode"]
        info["simplifiedKey"] = keys
    info["staticKey"] = _static_key(found)
    info["inputs"], info["outputs"] = op.get("inputs"), op.get("outputs")
    if found["attrs"]:
        info["attrs"] = [dict(attr, mode="value") for attr in found["attrs"]]
    for name, key in (("opMode", "op_mode"), ("optionalInputMode", "optional_input_mode"),
                      ("optionalOutputMode", "optional_output_mode"), ("dynamicParamMode", "dynamic_param_mode"),
                      ("op_debug_config", "op_debug_config")):
        if options.get(key):
            info[name] = options[key]
    info["deterministic"] = deterministic
    return info


def _deterministic(fields):
    listed = [item.get("deterministic") for item in fields.get("kernelList", [])]
    if not listed:
        return fields.get("deterministic", "ignore")
    return next((word for word in ("true", "false") if word in listed), "ignore")


def simplified_keys(found, deterministic, options):
    """`<type>/d=<0|1>,p=<0|1>/<dtype>,<format>/...`, if they were asked for."""
    if options.get("simplified_key_mode") is None:
        return []
    forms = ["%s,%s" % (constant.DTYPES.get(tensor["dtype"]), constant.FORMATS.get(tensor["format"]))
             for tensor in constant.flat(found["inputs"] + found["outputs"])]
    repeats = {"true": (1,), "false": (0,)}.get(deterministic, (0, 1))
    modes = {"high_precision": (0,), "high_performance": (1,)}.get(found["impl_mode"], (1, 0))
    if IS_NEW and "optional" in (options.get("impl_mode") or ""):
        modes = (1, 0)
    return ["%s/d=%d,p=%d/%s" % (found["op_type"], repeat, mode, "/".join(forms)) for repeat in repeats for mode in modes]


def _static_key(found):
    """A digest for each implementation mode. The values of float attributes are not in it."""
    def brief(tensor):
        return tensor and {key: tensor[key] for key in ("dtype", "format", "shape") if key in tensor}
    attrs = [{"dtype": attr["dtype"], "value": None if "float" in attr["dtype"] else attr.get("value")}
             for attr in found["attrs"]]
    keys = []
    for mode in (found["impl_mode"] or "").split(","):
        parts = {"attrs": attrs, "buildOptions": {"implMode": mode or None, "status_check": found["status_check"]},
                 "inputs": [brief(tensor) if not isinstance(tensor, list) else list(map(brief, tensor))
                            for tensor in found["inputs"]],
                 "outputs": [brief(tensor) if not isinstance(tensor, list) else list(map(brief, tensor))
                             for tensor in found["outputs"]]}
        keys.append(hashlib.sha256(json.dumps(parts, separators=(",", ":")).encode()).hexdigest())
    return ",".join(keys)


def copy_to_output(path, folder):
    """The `.json` and its object, or the master and its parts."""
    try:
        with open(path, encoding="utf-8") as file:
            fields = json.load(file)
        os.chmod(path, 0o640)
        shutil.copy(os.path.realpath(path), folder)
        for part in fields.get("jsonList", []):
            copy_to_output(os.path.join(os.path.dirname(path), part["jsonFileName"]), folder)
        if "binFileName" in fields:
            made = os.path.join(os.path.dirname(path), fields["binFileName"] + fields["binFileSuffix"])
            if IS_NEW:
                os.chmod(made, 0o640)
            shutil.copy(made, folder)
    except OSError as problem:
        raise RuntimeError("Copy [%s] to [%s] filed, reason: %s." % (path, folder, problem)) from problem


def rename_twin(folder, name):
    """The first pair of two is `<name>_deterministic`: the name of the file changes, that of the kernel does not."""
    for suffix in ("o", "json"):
        os.rename("%s/%s.%s" % (folder, name, suffix), "%s/%s_deterministic.%s" % (folder, name, suffix))
    path = "%s/%s_deterministic.json" % (folder, name)
    with open(path, encoding="utf-8") as file:
        fields = json.load(file)
    fields["binFileName"] = name + "_deterministic"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(fields, file, indent=4)
    logger.debug("Rename output kernel name %s.", name)
