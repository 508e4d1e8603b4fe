"""Knowledge banks: what tuning has found out about operators, in the first folder that knows something."""
import json
import os

from tbe.common.platform import platform_info
from tbe.common.utils import log

OPTIONS = {}


def cann_kb_init(sys_config, load_config):
    """Which bank the options name: `op_bank_path`."""
    OPTIONS.clear()
    OPTIONS.update(sys_config)
    OPTIONS.update(load_config)
    return 0


def folders():
    """Where banks may be, in their order."""
    soc = platform_info.get_soc_spec("SoC_version")
    home = os.path.expanduser("~")
    cache = os.environ.get("ASCEND_CACHE_PATH")
    listed = [os.environ.get("TUNE_BANK_PATH"), OPTIONS.get("op_bank_path"),
              os.path.join(cache, "aoe_data") if cache else None,
              os.path.join(home, "Ascend", "latest", "data", "aoe", "custom", "op"),
              os.path.join(os.environ.get("ASCEND_OPP_PATH", ""), "built-in", "data", "op", soc, "unified_bank")]
    for folder in listed:
        if folder:
            yield folder
            yield os.path.join(folder, soc)


def cann_kb_search(op_name):
    """Whether a bank knows the operator, and what it says."""
    soc = platform_info.get_soc_spec("SoC_version")
    for folder in folders():
        for ending in ("_runtime_kb.json", ".json"):
            name = "%s_%s_AiCore_%s%s" % (soc, platform_info.get_soc_spec("ai_core_cnt"), op_name, ending)
            path = os.path.join(folder, name)
            try:
                with open(path, encoding="utf-8") as file:
                    return True, json.load(file)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as problem:
                log.warn("bank file [%s] cannot be read: %s", path, problem)
    return False, None
