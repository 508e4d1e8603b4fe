"""The commands `asc_opc` and `opc` of CANN 9.1: no banks, no graphs, and a compile that fails ends with 1."""
import sys

from opkeep_standin import control
from tbe.common.utils import log as logger

import post_compile
from op_compilation import OpCompilation
from op_info_store import load_op_info_store
from option_parser import DEFAULTS, OpcOptionParser

FIRST_LINE = "Opc tool start working now, please wait for a moment."

# Spelt as they are: one with dashes, the others without.
MORE = {"kernel-template-input": "", "op_relocatable_kernel_binary": None, "op_super_kernel_options": None}
GONE = ("mdl_bank_path", "op_bank_path", "impl_path", "graph")


class AscOpcOptionParser(OpcOptionParser):
    """The options that this command has."""

    command = "asc_opc"
    known = {**{name: default for name, default in DEFAULTS.items() if name not in GONE}, **MORE}


def main(arguments):
    """The exit code. An uncaught exception ends with 1 as well."""
    control.note("asc_opc", arguments)
    control.start_up()
    print(FIRST_LINE, flush=True)
    parser = AscOpcOptionParser()
    if not parser.parse_options(arguments):
        return 0
    if not parser.check_input_params(from_file=True):
        logger.error("Opc tool compile failed.")
        return 1
    load_op_info_store(parser.options["soc_version"])
    post_compile.IS_NEW = True
    if OpCompilation(parser.options).op_compilation():
        logger.info("Opc tool compile success.")
        return 0
    logger.error("Opc tool compile failed.")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
