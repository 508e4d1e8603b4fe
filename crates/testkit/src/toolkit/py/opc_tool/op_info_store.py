"""The operator information: custom packages first, then the vendors' in their order, then the built-in ones."""
import json
import os

from tbe.common.platform import platform_info
from tbe.common.utils import log as logger

from constant import ATTR_TYPES

STORES = []
CUSTOM, VENDORS = [], []


class Op:
    """What is known of an operator type."""

    def __init__(self, content):
        def value(key, field="value"):
            return (content.get(key) or {}).get(field)
        self.content = content
        self.file, self.function = value("opFile"), value("opInterface")
        self.core_type = value("coreType")
        self.dynamic_compile_static = value("dynamicCompileStatic", "flag") or "false"
        self.inputs, self.outputs = self._ports("input"), self._ports("output")
        names = [name for name in (value("attr", "list") or "").split(",") if name]
        self.attrs = [(name, content["attr_" + name]) for name in names]

    def _ports(self, side):
        keys = [key for key in self.content if key.startswith(side) and key[len(side):].isdigit()]
        return [self.content[key] for key in sorted(keys, key=lambda key: int(key[len(side):]))]


def load_op_info_store(soc_version):
    """Reads what there is for the chip. A file that cannot be read is only warned about."""
    platform_info.set_current_compile_soc_info(soc_version)
    short = platform_info.get_soc_spec("SHORT_SOC_VERSION").lower()
    opp = os.environ.get("ASCEND_OPP_PATH")
    CUSTOM[:] = [item.strip() for item in os.environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if item.strip()]
    VENDORS[:] = ["%s/vendors/%s" % (opp, name) for name in _load_priority("%s/vendors/config.ini" % opp)]
    config = "op_impl/ai_core/tbe/config/%s/aic-%s-ops-info.json" % (short, short)
    STORES[:] = [_read("%s/%s" % (folder, config)) for folder in CUSTOM + VENDORS + ["%s/built-in" % opp]]


def _load_priority(path):
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file if "load_priority" in line]
    except OSError:
        return []
    listed = lines[-1].split("=", 1)[1] if lines and "=" in lines[-1] else ""
    return [name.strip() for name in listed.split(",") if name.strip()]


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as problem:
        logger.warn("load file[%s] failed, reason: %s.", path, problem)
        return {}


def find(op_type):
    """What the first package that knows the type says of it."""
    for store in STORES:
        if op_type in store:
            return Op(store[op_type])
    logger.warn("Op %s is not found in opstore.", op_type)
    return None


def built_in_core_type(op_type):
    """Only the built-in information is asked for the kind of core."""
    return ((STORES[-1].get(op_type) or {}).get("coreType") or {}).get("value") if STORES else None


def attr_default(spec):
    """The default as it is handed on: numbers become numbers, all else stays text."""
    default = spec.get("defaultValue")
    return int(default) if spec.get("type") == "int" and default is not None else default


def attr_type(spec):
    return ATTR_TYPES.get(spec.get("type"), spec.get("type"))
