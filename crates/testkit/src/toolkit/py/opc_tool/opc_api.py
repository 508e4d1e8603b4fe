"""The same for programs. Its modules import each other flatly: their folder has to be in the path."""
from tbe.common.utils import log as logger

from op_compilation import OpCompilation
from op_info_store import load_op_info_store
from opc import OpcOptionParser


def compile_op(op_params, build_options):
    """Compiles what the parameters say; whether it compiled. `bin_filename` has to be among the options."""
    parser = OpcOptionParser()
    parser.parse_build_options(build_options)
    if not parser.check_input_params(from_file=False):
        logger.error("Opc tool compile failed.")
        return False
    load_op_info_store(parser.options["soc_version"])
    parser.options["op_params"] = op_params
    if OpCompilation(parser.options).op_compilation():
        logger.info("Opc tool compile success.")
        return True
    logger.error("Opc tool compile failed.")
    return False
