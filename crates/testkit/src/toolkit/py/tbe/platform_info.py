"""What the compiler is to know of the chip: `data/platform_config/<SoC version>.ini`."""
import hashlib
import os

from tbe.common.utils import log

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "..", ".."))
FOLDER = os.path.join(ROOT, "%s-linux" % os.uname().machine, "data", "platform_config")
CURRENT = {}


def set_current_compile_soc_info(soc_version, core_type="AiCore", aicore_num=None, l1_fusion=None):
    """Reads the chip's file. `success`, or an exception that says nothing."""
    path = os.path.join(FOLDER, "%s.ini" % soc_version)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        fields = _fields(text)
    except (OSError, ValueError) as problem:
        log.error("load platform config of [%s] failed: %s", soc_version, problem)
        raise RuntimeError("set_current_compile_soc_info() return error.") from problem
    CURRENT.clear()
    CURRENT.update(fields)
    CURRENT["core_type"] = core_type or "AiCore"
    CURRENT["digest"] = hashlib.sha256(text.encode()).hexdigest()
    if aicore_num not in (None, "", 0, "0"):
        CURRENT["ai_core_cnt"] = str(aicore_num)
    return "success"


def _fields(text):
    """The fields of all sections."""
    fields = {}
    for line in map(str.strip, text.splitlines()):
        if line and line[0] not in "#;[":
            name, separator, value = line.partition("=")
            if not separator:
                raise ValueError("no field: %s" % line)
            fields[name.strip()] = value.strip()
    return fields


def get_soc_spec(key):
    """A value of the chip's file. Some keys have names of their own."""
    names = {"SHORT_SOC_VERSION": "Short_SoC_version", "FULL_SOC_VERSION": "SoC_version", "CORE_NUM": "ai_core_cnt",
             "UB_SIZE": "ub_size", "L1_SIZE": "l1_size"}
    value = CURRENT.get(names.get(key, key), "")
    if key == "cube_vector_combine" and value == "":
        return "fuse"
    if value == "":
        raise RuntimeError("Unsupported Key Value of get_soc_spec(): %s" % key)
    return int(value) if key in ("CORE_NUM", "UB_SIZE", "L1_SIZE") else value
