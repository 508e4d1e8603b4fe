"""Compiles an operator's kernels in Ascend C: what the generated Python of an operator calls."""
import hashlib
import json
import os
import shutil
import sys

from asc_op_compile_base.asc_op_compiler import common_utility as utility
from asc_op_compile_base.asc_op_compiler import compile_base
from asc_op_compile_base.asc_op_compiler import constants
from asc_op_compile_base.asc_op_compiler import get_op_tiling
from asc_op_compile_base.asc_op_compiler import kernel_info_infer
from opkeep_standin.kernel import DYNAMIC, Kernel
from tbe.common import buildcfg
from tbe.common.context import op_context
from tbe.common.platform import platform_info

# Folders of headers below `<root>/<arch>-linux`; only some are there.
INCLUDES = (
    "asc", "asc/include", "asc/include/basic_api", "asc/include/adv_api", "asc/include/simt_api", "asc/include/utils",
    "asc/impl", "asc/impl/basic_api", "asc/impl/adv_api", "asc/impl/utils", "asc/include/interface", "asc/include/tiling",
    "tikcpp", "tikcpp/tikcfw", "tikcpp/tikcfw/impl", "tikcpp/tikcfw/interface", "tikcpp/tikcfw/lib", "ascendc/include",
    "ascendc/include/basic_api", "ascendc/include/highlevel_api", "ascendc/act", "include",
)
UNKNOWN_KEYS = "None of the given tiling keys are in the supported list"
WORKSPACE = {"num": 1, "size": [-1], "type": [0]}


def root():
    """The root of the toolkit: the variable, else where the command was found."""
    named = os.environ.get("ASCEND_HOME_PATH")
    if named:
        return named
    found = shutil.which("asc_opc")
    if found:
        return os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(found)), "..", ".."))
    return "/usr/local/Ascend/cann"


class Task:
    """One operator with one choice of element types, formats and modes."""

    def __init__(self, source, config):
        self.source, self.python, self.op_type = source, config["python"], config["op_type"]
        self.func, self.name = config["func"], config["kernel_name"]
        self.arguments, self.deterministic = config["arguments"], config["deterministic"]
        self.family = platform_info.get_soc_spec("SHORT_SOC_VERSION")
        self.folder = os.path.realpath(os.path.join(buildcfg.get_current_build_config("kernel_meta_parent_dir"), "kernel_meta"))
        self.context = op_context.get_context()
        self.debug = [word for word in buildcfg.get_current_build_config("op_debug_config").split(",") if word]
        self.is_part = self.context.get_addition("op_relocatable_kernel_binary") == "True"
        self.options = self._options(config)
        self.stub = self.file("%s_kernel.cpp" % utility.tag())
        self.tiling_header = self.file("%s_tiling_data.h" % utility.tag())
        self.keys, self.info, self.tiling = [], None, None

    def file(self, ending):
        return os.path.join(self.folder, self.name + ending)

    def is_debugged(self, word):
        return word in self.debug

    def sides(self):
        """The kinds of cores that the chip has apart; whole cores have no name."""
        return (constants.CUBE, constants.VECTOR) if self.family in constants.SPLIT else ("",)

    def arch(self, side):
        base = {**constants.SPLIT, **constants.WHOLE}.get(self.family)
        if base is None:
            raise utility.CompileError("the stand-in compiles nothing for %s" % self.family)
        return "%s-%s" % (base, side) if side else base

    def ratio(self, key):
        return self.info.type_of(key)

    def sides_of(self, key):
        if "" in self.sides():
            return ("",)
        return [side for side, count in zip(self.sides(), self.ratio(key)) if count]

    def symbol(self, key, side):
        mixed = {constants.CUBE: "_mix_aic", constants.VECTOR: "_mix_aiv"}.get(side, "") if all(self.ratio(key)) else ""
        return "%s_%d%s" % (self.name, key, mixed)

    def object_of(self, key, side):
        mixed = {constants.CUBE: "_mix_aic", constants.VECTOR: "_mix_aiv"}.get(side, "") if all(self.ratio(key)) else ""
        return os.path.join(self.folder, "%s%s_%d.o" % (self.name, mixed, key))

    def repeats(self):
        """What is said of determinism."""
        if not self.deterministic:
            return "ignore"
        return "true" if buildcfg.get_current_build_config("enable_deterministic_mode") else "false"

    def _options(self, config):
        options = ["-x", "cce"] + list(config["options"])
        if config.get("auto_sync") not in (False, "false", "off"):
            options += ["--cce-auto-sync", "-mllvm", "-api-deps-filter"]
        options.append("--cce-disable-kernel-global-attr-check")
        base, arch = root(), "%s-linux" % os.uname().machine
        options += ["-I%s/%s/%s" % (base, arch, folder) for folder in INCLUDES]
        version = os.path.join(base, "include/version/asc_devkit_version.h")
        if os.path.exists(version):
            options.append("-include" + version)
        options += ["-DASCENDC_TPL_KERNEL", "-DONE_CORE_DUMP_SIZE=1024", "-DL2_CACHE_HINT"]
        if self.deterministic:
            options.append("-DDETERMINISTIC_MODE=%d" % (self.repeats() == "true"))
        level = buildcfg.get_current_build_config("tbe_debug_level")
        if self.is_debugged("ccec_O0") or level == 2:
            options.append("-O0")
        if self.is_debugged("ccec_g") or level == 2 or os.environ.get("ASCENDC_COV") == "1":
            options.append("-g")
        if self.is_debugged("sanitizer"):
            options += ["-g", "--cce-enable-sanitizer"]
        if os.environ.get("SKT_ENABLE") == "1":
            options += ["-mllvm", "-cce-aicore-sk-transform"]
        return options

    def kernel(self, key, tiling):
        """As the writer of metadata takes it."""
        ratio, cores = self.ratio(key), None
        if "" in self.sides():
            cores = "AiCore"
        else:
            cores = ratio if all(ratio) else "AiCore" if ratio[0] else "VectorCore"
        arguments = [(kind, 0) for kind in self.arguments] + [("workspace", 0), ("tiling", tiling)]
        return Kernel(self.family, self.name, cores, self.keys, arguments)


def compile_op(source, config):
    """Compiles, links, and writes `<kernel>.o` and `<kernel>.json` into the work folder."""
    task = Task(source, config)
    os.makedirs(task.folder, mode=0o750, exist_ok=True)
    utility.which("bisheng")
    task.info = kernel_info_infer.preprocess(task)
    task.keys = _chosen(task)
    if task.info.default_type is None:
        task.info.default_type = _infer_type(task)
    task.tiling = get_op_tiling.tiling_of(task, task.info.struct)
    if task.tiling.version:
        task.options.append("-DASCENDC_API_VERSION=" + task.tiling.version)
    utility.write(task.tiling_header, task.tiling.text)
    _write_stub(task)
    objects = compile_base.compile_keys(task)
    compile_base.link(task, objects)
    size = task.tiling.size
    if size is None:
        size = get_op_tiling.size_of(task.file(".o"))
    if task.is_part:
        compile_base.make_part(task)
    else:
        compile_base.link_in_place(task)
    _describe(task, size)
    task.context.add_build_res("json_file_path", task.file(".json"))


def _chosen(task):
    """The keys that were asked for, of those that there are."""
    asked = task.context.get_addition("tiling_key")
    if not asked:
        return task.info.keys
    keys = [key for key in task.info.keys if str(key) in asked]
    if not keys:
        print("%s: %s" % (UNKNOWN_KEYS, ",".join(asked)), flush=True)
        sys.exit(1)
    return keys


def _infer_type(task):
    """Where the source does not say it, one compile shows whether the code is for cube cores."""
    if "" in task.sides():
        return (1, 0)
    output = task.file("_infer_channel%s.o" % utility.tag())
    struct = ["-DASCENDC_TILING_STRUCT=" + task.info.struct] if task.info.struct else []
    utility.run(utility.compiler() + ["-c", "-O3"] + utility.language(task.options) + [
        task.source, "--cce-aicore-arch=" + task.arch(constants.CUBE), "--cce-aicore-only", "-o", output, "-std=c++17",
        "-D%s=%dUL" % (constants.TILING_KEY, task.keys[0])] + struct)
    code = utility.dump(output, ".text")
    os.remove(output)
    return (1, 0) if b"CUBE" in code else (0, 1)


def _write_stub(task):
    """One file for all compiles of the task: the block of each key says what only its compile defines."""
    names = ["x%d" % at for at in range(len(task.arguments))] + ["workspace", "tiling"]
    lines = ["#include \"kernel_operator.h\"", "#include \"%s\"" % task.source]
    for key in task.keys:
        data = task.kernel(key, task.tiling.size or DYNAMIC).metadata()
        for side in task.sides_of(key):
            core = " && defined(__%s__)" % task.arch(side).upper().replace("-", "_") if side else ""
            lines.append("#if %s == %dUL%s" % (constants.TILING_KEY, key, core))
            if key in task.info.arguments:
                lines.append("#define ASCENDC_TPL_CALL <%s>" % ", ".join(map(str, task.info.arguments[key])))
            lines.append("__attribute__((section(\".ascend.meta.%s\"), used)) static const unsigned char ascend_meta[] = {%s};"
                         % (task.symbol(key, side), ", ".join(map(str, data))))
            lines.append("#endif")
    lines += ["#ifndef ASCENDC_TPL_CALL", "#define ASCENDC_TPL_CALL", "#endif",
              "__attribute__((section(\".ascendc_tiling\"), used)) static const uint64_t ascendc_tiling = "
              "sizeof(ASCENDC_TILING_STRUCT);",
              "extern \"C\" __cce_entry__ __aicore__ void auto_gen_%s_kernel(%s)" % (
                  task.func, ", ".join("GM_ADDR " + name for name in names)),
              "{", "    %s ASCENDC_TPL_CALL(%s);" % (task.func, ", ".join(names)), "}"]
    utility.write(task.stub, "\n".join(lines) + "\n")


def _describe(task, size):
    """Writes the `.json` beside the object."""
    with open(task.file(".o"), "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    kernel = task.kernel(task.keys[0], size)
    mixed = any(all(task.ratio(key)) for key in task.keys)
    bytes_of_tiling = size + 8
    if task.is_debugged("oom"):
        bytes_of_tiling = -(-size // 8) * 8 + 8 + 8 * len(task.arguments)
    fields = {
        "binFileName": task.name, "binFileSuffix": ".o", "blockDim": -1, "kernelName": task.name, "sha256": digest,
        "magic": _magic(task, mixed, kernel), "coreType": "MIX" if mixed else kernel.cores,
        "intercoreSync": int(mixed), "deterministic": task.repeats(), "memoryStamping": [], "opParaSize": bytes_of_tiling,
        "oriOpParaSize": size, "parameters": [None for _ in task.arguments], "workspace": WORKSPACE, "compileInfo": {},
        "kernelList": [_listed(task, key) for key in task.keys],
    }
    if mixed:
        fields["taskRation"] = "tilingKey"
    if task.is_part:
        fields.update(_of_part(task))
    text = json.dumps(fields, sort_keys=True, indent=4, separators=(",", ":"))
    file = os.open(task.file(".json"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
    with os.fdopen(file, "w") as opened:
        opened.write(text)


def _of_part(task):
    """What a super kernel is to know of its parts."""
    names = {}
    for key in task.keys:
        ratio = task.ratio(key) if "" not in task.sides() else (1, 0)
        kind = next(name for name, cores in constants.KERNEL_TYPES.items() if cores == ratio)
        names[str(key)] = {"AiCore": "%s_%d" % (task.name, key), "kernel_type": kind}
    params = ["%s_%s" % (kind, at) for at, kind in enumerate(task.arguments)] + ["workspace", "tiling"]
    return {"supportSuperKernel": 1, "feature_list": {}, "sub_operator_op_type": task.op_type, "sub_operator_params": params,
            "sub_operator_kernel_type": names[str(task.keys[0])]["kernel_type"],
            "sub_operator_kernel_name": {"dynamic_func_names": names}}


def _listed(task, key):
    item = {"kernelName": "%s_%d" % (task.name, key), "tilingKey": key, "deterministic": task.repeats()}
    ratio = task.ratio(key)
    if "" not in task.sides() and all(ratio):
        item.update(kernelType="MIX_AIC", crossCoreSync=1, taskRation="%d:%d" % ratio)
    return item


def _magic(task, mixed, kernel):
    if mixed or "" in task.sides():
        return "RT_DEV_BINARY_MAGIC_ELF"
    return "RT_DEV_BINARY_MAGIC_ELF_AIVEC" if kernel.cores == "VectorCore" else "RT_DEV_BINARY_MAGIC_ELF_AICUBE"
