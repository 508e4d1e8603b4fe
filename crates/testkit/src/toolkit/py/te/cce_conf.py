"""Older names."""
from tbe.common.platform import platform_info


def te_set_version(soc_version, core_type="AiCore", aicore_num=None, *_, **__):
    """Sets the chip."""
    return platform_info.set_current_compile_soc_info(soc_version, core_type, aicore_num)
