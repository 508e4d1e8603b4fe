"""Compiles the operators of a parameter file, one after the other."""
import copy
import json
import os
import shutil
import stat
import traceback

from opkeep_standin import control, faults
from tbe.common import buildcfg
from tbe.common import register as tbe_register
from tbe.common.context import op_context
from tbe.common.platform import platform_info
from tbe.common.repository_manager import interface as repository
from tbe.common.utils import log as logger

import constant
import input_param
import op_info_store
import op_manager
import post_compile


class OpCompilation:
    """Compiles with these options."""

    def __init__(self, options):
        self.options = options
        self.debug_dirs = []
        self.succeeded = True

    def op_compilation(self):
        """Whether the last operator compiled."""
        try:
            if self.options.get("impl_path"):
                import sys
                sys.path.insert(0, self.options["impl_path"])
            params = self._params()
            return params is not None and self._compile_all(params)
        except Exception as problem:
            raise RuntimeError("Opc Compile fail, : %s." % problem) from problem
        finally:
            self._clear()

    def _params(self):
        if self.options.get("op_params") is not None:
            params = input_param.check(self.options["op_params"])
        else:
            params = input_param.load(self.options["input_param"])
        if params is None:
            return None
        gives = self.options.get("optional_input_mode") == "gen_placeholder"
        if gives and not input_param.check_placeholders(params):
            logger.error("Invalid json file content[%s].", self.options.get("input_param"))
            return None
        if params.get("op_type") is None:
            logger.error("op_type is None. json_dict: %s", params)
            return None
        if not self.options.get("core_type"):
            self.options["core_type"] = _core_type(params["op_type"])
        return params

    def _compile_all(self, params):
        """Whatever goes wrong is logged, and is no more than a result."""
        try:
            platform_info.set_current_compile_soc_info(self.options["soc_version"], self.options["core_type"],
                                                       self.options.get("aicore_num"))
            repository.cann_kb_init({"soc_version": self.options["soc_version"]},
                                    {"op_bank_path": self.options.get("op_bank_path")})
            self._take_modes(params)
            if params.get("comment") not in (None, "single ops"):
                logger.warn("Current opc only support single op compile, comment is %s.", params["comment"])
                return False
            function = None
            if self.options.get("main_func") is not None and self.options.get("op_path"):
                function = op_manager.function_of_file(self.options["op_path"], self.options["main_func"], params["op_type"])
            with op_context.OpContext("static"):
                for index, op in enumerate(params["op_list"]):
                    self._compile_as_asked(params, op, index, function)
        except Exception as problem:
            _log_trace()
            logger.error("Compile failed, reason is: %s", problem)
            self.succeeded = False
        return self.succeeded

    def _take_modes(self, params):
        for key in ("optional_input_mode", "optional_output_mode"):
            if params.get(key) in constant.PLACEHOLDERS:
                self.options[key] = params[key]
        if params.get("dynamic_param_mode") in ("unfolded", "folded_with_desc"):
            self.options["dynamic_param_mode"] = params["dynamic_param_mode"]

    def _compile_as_asked(self, params, op, index, function):
        asked = self.options["deterministic"]
        name = self._compile(params, op, index, function, "true" if asked == "all" else asked)
        if asked != "all" or not self.succeeded:
            return
        with open("%s/%s.json" % (self.options["output"], name), encoding="utf-8") as file:
            found = json.load(file).get("supportInfo", {}).get("deterministic")
        if found == "true":
            post_compile.rename_twin(self.options["output"], name)
            self._compile(params, op, index, function, "false")

    def _compile(self, params, op, index, function, deterministic):
        """Compiles one operator once; the kernel's name."""
        found, name = {"op_type": params["op_type"]}, None
        try:
            self._resolve(found, params, op)
            function = function or op_manager.find_function(params["op_type"], found["dynamic"])
            if function is None:
                logger.error("op %s op_func_attr is None.", params["op_type"])
                self.succeeded = False
                return None
            found["impl_mode"] = self._impl_mode(op, function)
            name = input_param.kernel_name(op, params["op_type"], found, self.options)
            folder = self._make_debug_dir(name)
            soc = self.options["soc_version"]
            with control.Compile(params["op_type"], name, soc, deterministic) as job:
                faults.before(job)
                path = self._call(function, found, name, folder, deterministic)
                if job.fault("nothing") is None:
                    post_compile.add_support_info(path, op, found, self.options)
                    post_compile.copy_to_output(path, self.options["output"])
                    faults.after(job, self.options["output"], name)
            self.succeeded = True
        except Exception as problem:
            logger.error("Exception occured, %s", problem)
            _log_trace()
            logger.error("Op[%s] of index[%d] compile failed, kernelName: %s.", params["op_type"], index, name)
            logger.error("reason is:[%s].", problem)
            self.succeeded = False
        return name

    def _resolve(self, found, params, op):
        for side in ("inputs", "outputs"):
            found[side] = input_param.tensors(op, side)
        found["attrs"] = input_param.attrs(op, params["op_type"]) if op.get("attrs") is not None else []
        tensors = found["inputs"] + found["outputs"]
        found["dynamic"] = constant.is_dynamic(tensors)
        found["int64_mode"] = not found["dynamic"] and constant.is_large(tensors)
        found["status_check"] = str(params.get("status_check", "true")).lower()

    def _impl_mode(self, op, function):
        """The mode, where the function takes one. `,optional` only says that it is no part of the match."""
        mode = op.get("impl_mode") or self.options.get("impl_mode")
        if mode is None or "impl_mode" not in _parameters(function):
            return None
        return ",".join(word.strip() for word in mode.split(",") if "optional" not in word)

    def _call(self, function, found, name, folder, deterministic):
        """Calls the operator's function; where its `.json` is."""
        is_dynamic = found["dynamic"] or self.options.get("op_mode") == "dynamic"
        info = op_info_store.find(found["op_type"])
        static = "static" if info and info.dynamic_compile_static == "true" else "pre-static"
        level = self.options.get("op_debug_level") or 0
        named = {"impl_mode": found["impl_mode"]} if found["impl_mode"] is not None else {}
        values = [input_param.attr_value(attr) for attr in found["attrs"]]
        settings = buildcfg.build_config(
            tbe_debug_level=0 if level == 3 else level, op_debug_config=self.options.get("op_debug_config") or "",
            kernel_meta_parent_dir=folder, enable_op_prebuild=False, status_check=found["status_check"] != "false",
            enable_deterministic_mode=deterministic == "true", bit_width=64 if found["int64_mode"] else 32)
        with settings, op_context.OpContext("dynamic" if is_dynamic else static) as context:
            op_info = op_context.OpInfo(self.options.get("main_func"), found["op_type"])
            op_info.inputs, op_info.outputs, op_info.attrs = found["inputs"], found["outputs"], found["attrs"]
            op_info.precision_mode = found["impl_mode"]
            context.add_op_info(op_info)
            for key in ("optional_input_mode", "optional_output_mode", "dynamic_param_mode", "tiling_key",
                        "op_relocatable_kernel_binary"):
                context.add_addition(key, self.options.get(key))
            function(*copy.deepcopy(found["inputs"]), *copy.deepcopy(found["outputs"]), *values, name, **named)
            return context.get_build_res("json_file_path") or "%s/kernel_meta/%s.json" % (folder, name)

    def _make_debug_dir(self, name):
        """A folder of its own with a lock, which holds the id of the process that is at it."""
        folder = "%s/kernel_meta_%s" % (self.options["debug_dir"].strip(), name)
        mode = stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP
        os.makedirs(folder, mode, exist_ok=True)
        lock = os.path.join(folder, "kernel_meta.lock")
        if os.path.exists(lock):
            with open(lock, encoding="utf-8") as file:
                holder = file.readline()
            if holder != str(os.getpid()):
                logger.error("The pid[%s] of lock file[%s] is different from current pid[%d]", holder, lock, os.getpid())
                raise RuntimeError("Another process is using this dir")
        else:
            with open(lock, "w", encoding="utf-8") as file:
                file.write(str(os.getpid()))
        if folder not in self.debug_dirs:
            self.debug_dirs.append(folder)
        return folder

    def _clear(self):
        """Takes the locks away, and the folders, if nothing in them is to be kept."""
        for folder in self.debug_dirs:
            lock = os.path.join(folder, "kernel_meta.lock")
            if os.path.exists(lock):
                os.remove(lock)
            if not self.options.get("op_debug_level") and not self.options.get("keep_kernel_meta_dir"):
                shutil.rmtree(folder, True)


def _core_type(op_type):
    """What the built-in information says, else vector cores on chips that have them apart."""
    said = op_info_store.built_in_core_type(op_type)
    if said in ("AiCore", "VectorCore"):
        return said
    if said is not None:
        return None
    return "VectorCore" if platform_info.get_soc_spec("cube_vector_combine") == "split" else "AiCore"


def _parameters(function):
    code = tbe_register.unwrapped(function).__code__
    return code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]


def _log_trace():
    for line in traceback.format_exc().rstrip().splitlines():
        logger.error("%s", line)
