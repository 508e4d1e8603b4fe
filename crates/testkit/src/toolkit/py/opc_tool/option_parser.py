"""The options of the command, their checks and their words."""
import getopt
import os
import sys

from tbe.common.utils import log as logger

from constant import PLACEHOLDERS

DEFAULTS = {
    "output": "", "soc_version": "", "log": "null", "input_param": None, "main_func": None, "core_type": None,
    "debug_dir": "./", "graph": "", "bin_filename": "", "impl_mode": None, "aicore_num": None, "mdl_bank_path": "",
    "op_bank_path": "", "op_debug_level": 0, "op_debug_config": "", "optional_input_mode": None,
    "optional_output_mode": None, "op_mode": "", "deterministic": "all", "simplified_key_mode": None,
    "dynamic_param_mode": None, "tiling_key": None, "impl_path": None,
}
DIGITS = ("aicore_num", "op_debug_level", "simplified_key_mode")
DEBUG_CONFIG = ("oom", "dump_cce", "dump_bin", "dump_loc", "ccec_O0", "ccec_g", "check_flag", "sanitizer")
KEEPING = ("dump_cce", "dump_bin", "dump_loc")
CORE_TYPES = ("AiCore", "VectorCore", None, "AiCore,VectorCore", "VectorCore,AiCore")


class OpcOptionParser:
    """The options, from the command line or from a dictionary."""

    command, known = "opc", DEFAULTS

    def __init__(self):
        self.options = dict(self.known)

    def usage(self):
        print("usage: %s <args>\n  -h/--help           Show this help message." % self.command)
        for name in self.known:
            print("  --%s" % name)

    def parse_options(self, arguments):
        """Whether there is something to do. Digits that are none end the process."""
        if not arguments:
            logger.error("Args is empty. Please enter correct compiling arguments.")
            self.usage()
            return False
        if arguments in (["-h"], ["--h"], ["--help"]):
            self.usage()
            return False
        if ".py" in arguments[0]:
            self.options["op_path"] = arguments[0]
            arguments = arguments[1:]
        try:
            given, _ = getopt.getopt(arguments, "h", ["help"] + [name + "=" for name in self.known])
        except getopt.GetoptError as problem:
            logger.error("Failed to get option. %s", problem)
            self.usage()
            return False
        for key, value in given:
            self._take(key, key.lstrip("-"), value)
        if any(key in ("-h", "--help") for key, _ in given):
            self.usage()
            sys.exit(1)
        return True

    def _take(self, key, name, value):
        if name in DIGITS:
            if not value.isdigit():
                logger.error("Invalid params: %s should be digit.", name)
                sys.exit(1)
            value = int(value)
        if key == "--log":
            logger.set_level(value)
        self.options[name] = value

    def parse_build_options(self, build_options):
        """Options of a program: those that are not known are logged and passed over."""
        for name, value in build_options.items():
            if name in self.known or name == "op_path":
                self.options[name] = value
            else:
                logger.error("build_options %s not supported.", name)

    def check_input_params(self, from_file):
        """Whether all can be used. What was asked is logged, never printed."""
        if self.options["soc_version"] == "":
            logger.error("Soc version is empty.")
            return False
        if not self._check_paths() or not self._check_what(from_file):
            return False
        checks = (
            ("deterministic", ("all", "true", "false"), "Invalid deterministic option %s, support all/true/false."),
            ("simplified_key_mode", (0, 1, None), "Invalid simplified_key_mode option %s, support 0, 1."),
            ("dynamic_param_mode", ("unfolded", "folded_with_desc", None),
             "Invalid dynamic_param_mode option %s, support 'unfolded', 'folded_with_desc'"),
            ("core_type", CORE_TYPES, "core type  is %s."),
        )
        for name, allowed, text in checks:
            if self.options[name] not in allowed:
                logger.error(text, self.options[name])
                return False
        self._check_placeholders()
        if self.options["op_debug_level"] not in (0, 1, 2, 3):
            logger.error("Invalid op debug level %s, support values: 0 1 2 3.", self.options["op_debug_level"])
            return False
        return self._check_debug_config()

    def _check_paths(self):
        for name in ("output", "debug_dir"):
            path = os.path.realpath(self.options[name] or ".")
            if not os.path.exists(path):
                try:
                    os.makedirs(path, 750, exist_ok=True)
                except OSError as problem:
                    logger.error("%s", problem)
                    logger.error("Failed to check and update %s.", name.replace("debug_dir", "debug dir"))
                    return False
            self.options[name] = path
        for name in ("mdl_bank_path", "op_bank_path"):
            if self.options.get(name) and not os.path.exists(self.options[name]):
                logger.warn("Invalid %s %s.", name.replace("_", " "), self.options[name])
        return True

    def _check_what(self, from_file):
        if not from_file:
            if self.options["bin_filename"] == "":
                logger.error("bin_filename is empty.")
                return False
            return True
        for name in ("op_path", "input_param"):
            path = self.options.get(name)
            if name == "op_path" and not path:
                continue
            if not path or not os.path.isfile(os.path.realpath(path)):
                logger.error("The %s: %s is not exist.", name, path)
                logger.error("Failed to check and update %s.", name)
                return False
            self.options[name] = os.path.realpath(path)
        return True

    def _check_placeholders(self):
        names = ("optional_input_mode", "optional_output_mode")
        if self.options["simplified_key_mode"] == 0:
            for name in names:
                self.options[name] = "gen_placeholder"
            logger.warn("simplified_key_mode is [0], set optional param mode gen_placeholder.")
            return
        for name in names:
            if self.options[name] not in PLACEHOLDERS + (None,):
                logger.warn("Invalid %s[%s], will be ignored.", name, self.options[name])
                self.options[name] = None

    def _check_debug_config(self):
        words = [word.strip() for word in (self.options["op_debug_config"] or "").split(",") if word]
        for word in words:
            if word not in DEBUG_CONFIG:
                logger.error("op_debug %s is invalid.", word)
                logger.error("Invalid op debug config %s.", self.options["op_debug_config"])
                return False
        self.options["keep_kernel_meta_dir"] = any(word in KEEPING for word in words)
        if self.options["tiling_key"] is not None:
            self.options["tiling_key"] = [key for key in str(self.options["tiling_key"]).split(",") if key]
        return True
