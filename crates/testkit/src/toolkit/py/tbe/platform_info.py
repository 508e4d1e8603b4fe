"""What the compiler is to know of the chip: `data/platform_config/<SoC version>.ini`."""
import configparser
import hashlib
import os
import platform

from tbe.common.utils import log

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "..", ".."))
FOLDER = os.path.join(ROOT, "%s-linux" % platform.machine(), "data", "platform_config")
CURRENT = {}


def set_current_compile_soc_info(soc_version, core_type="AiCore", aicore_num=None, l1_fusion=None):
    """Reads the chip's file. `success`, or an exception that says nothing."""
    path = os.path.join(FOLDER, "%s.ini" % soc_version)
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        parser.read_string(text)
    except (OSError, configparser.Error) as problem:
        log.error("load platform config of [%s] failed: %s", soc_version, problem)
        raise RuntimeError("set_current_compile_soc_info() return error.") from problem
    CURRENT.clear()
    for section in parser.sections():
        CURRENT.update(parser[section])
    CURRENT["core_type"] = core_type or "AiCore"
    CURRENT["digest"] = hashlib.sha256(text.encode()).hexdigest()
    if aicore_num not in (None, "", 0, "0"):
        CURRENT["ai_core_cnt"] = str(aicore_num)
    return "success"


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
