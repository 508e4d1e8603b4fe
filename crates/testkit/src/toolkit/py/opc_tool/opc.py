"""The command `opc`: compiles operators ahead of time."""
import sys

from tbe.common.utils import log as logger

import ge_ir_pb2  # noqa: the real one needs it for graphs, and cannot start without
from op_compilation import OpCompilation
from op_info_store import load_op_info_store
from option_parser import OpcOptionParser

FIRST_LINE = "Opc tool start working now, please wait for a moment."


def main(parser, arguments, failure=0):
    """Runs the command; `failure` is the exit code of a compile that failed, which for long was 0."""
    print(FIRST_LINE)
    sys.stdout.flush()
    if not parser.parse_options(arguments):
        return 0
    if parser.options.get("graph"):
        logger.error("the --graph must be a real file.")
        raise RuntimeError("Input command error! opc confuse single or fusion op compile.")
    if not parser.check_input_params(from_file=True):
        logger.error("Opc tool compile failed.")
        return 1
    load_op_info_store(parser.options["soc_version"])
    if OpCompilation(parser.options).op_compilation():
        logger.info("Opc tool compile success.")
        return 0
    logger.error("Opc tool compile failed.")
    return failure


if __name__ == "__main__":
    sys.exit(main(OpcOptionParser(), sys.argv[1:]))
