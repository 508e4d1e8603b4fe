"""How operators are built: nested settings."""
import contextlib

DEFAULTS = {
    "kernel_meta_parent_dir": "./", "tbe_debug_level": 0, "op_debug_config": "", "enable_op_prebuild": False,
    "status_check": False, "enable_deterministic_mode": False, "bit_width": 32,
}
STACK = [DEFAULTS]


@contextlib.contextmanager
def build_config(**settings):
    """Settings that hold inside the block."""
    STACK.append({**STACK[-1], **settings})
    try:
        yield STACK[-1]
    finally:
        STACK.pop()


def get_current_build_config(key):
    return STACK[-1].get(key)
