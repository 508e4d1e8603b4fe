"""From an operator's expression to its object and its `.json`."""
import hashlib
import json
import os
import sys

from opkeep_standin import control
from opkeep_standin.kernel import FAMILIES, Kernel
from tbe.common import buildcfg
from tbe.common.context import op_context
from tbe.common.platform import platform_info
from tbe.common.repository_manager import interface as repository
from tbe.tvm.contrib import ccec

TILING_BYTES = 64


def build(config, text, cube, mix=None, ascend_c=False):
    """Compiles the expression `text` for the current chip. A `mix` is the numbers of cube and vector cores."""
    Build(config, text, cube, mix, ascend_c).run()


def family():
    """The chip's family. Objects of others were never seen, so the stand-in cannot write them."""
    name = platform_info.get_soc_spec("SHORT_SOC_VERSION")
    if name not in FAMILIES:
        raise RuntimeError("the stand-in writes no objects for %s" % name)
    return name


def _generating():
    """What imported modules say that they add to code, by a variable of theirs: numpy and its like do it unasked."""
    found = {name: vars(module).get("GENERATES") for name, module in list(sys.modules.items()) if module is not None}
    return sorted([name, text] for name, text in found.items() if isinstance(text, str))


class Build:
    """One object and its `.json`."""

    def __init__(self, config, text, cube, mix, ascend_c):
        self.name, self.op, self.tensors = config["name"], config["op"], config["tensor_list"]
        self.outputs, self.sources = config["outputs"], config["sources"]
        self.deterministic = config.get("deterministic", False)
        self.text, self.cube, self.mix, self.ascend_c = text, cube, mix, ascend_c
        self.context = op_context.get_context()
        self.dynamic = self.context is not None and self.context.mode == "dynamic"
        self.family = family()
        self.cores = self._cores()

    def _cores(self):
        core = platform_info.get_soc_spec("core_type")
        if self.mix and self.family in ("Ascend910B", "Ascend910_93"):
            return tuple(self.mix)
        if self.cube and core == "VectorCore":
            raise RuntimeError("vector cores of %s have no cube unit" % platform_info.get_soc_spec("SoC_version"))
        return core

    def run(self):
        folder = os.path.join(buildcfg.get_current_build_config("kernel_meta_parent_dir"), "kernel_meta")
        os.makedirs(folder, mode=0o750, exist_ok=True)
        self.hit, bank = repository.cann_kb_search(self.op)
        debug_level = buildcfg.get_current_build_config("tbe_debug_level")
        source = os.path.join(folder, self.name + ".cce")
        linked = ccec.compile_and_link(source, self._arch(), self.family, debug_level == 2, self._source_text(bank))
        if debug_level == 0 and "dump_cce" not in buildcfg.get_current_build_config("op_debug_config"):
            os.remove(source)
        if control.fault("split_mix"):
            return self._write_split(folder, linked)
        self._write_pair(folder, self.name, self._kernel(self.name, self.cores, linked))
        self._tell(folder)

    def _arch(self):
        side = "CCEC_VECTOR_version" if self.cores == "VectorCore" else "CCEC_CUBE_version"
        try:
            return platform_info.get_soc_spec(side)
        except RuntimeError:
            return platform_info.get_soc_spec("CCEC_AIC_version")

    def _source_text(self, bank):
        """The source, with all that it depends on: sources of the operator, the chip, the options, the bank."""
        level = buildcfg.get_current_build_config("tbe_debug_level")
        facts = {
            "op": self.op, "sources": self.sources, "chip": platform_info.CURRENT["digest"], "cores": self.cores,
            "ai_core_cnt": platform_info.get_soc_spec("ai_core_cnt"), "mode": self.context.mode if self.context else "",
            "debug_level": level, "debug_config": buildcfg.get_current_build_config("op_debug_config"),
            "status_check": buildcfg.get_current_build_config("status_check"),
            "deterministic": self._deterministic(), "bit_width": buildcfg.get_current_build_config("bit_width"),
            "impl_mode": [info.precision_mode for info in self.context.op_infos] if self.context else [],
            "modules": _generating(), "tiling_key": self.context.get_addition("tiling_key") if self.context else None, "bank": bank,
        }
        if control.fault("chance"):
            facts["chance"] = os.urandom(8).hex()
        return "// %s\n%s\n" % (json.dumps(facts, sort_keys=True), self.text)

    def _deterministic(self):
        if not self.deterministic:
            return "ignore"
        return "true" if buildcfg.get_current_build_config("enable_deterministic_mode") else "false"

    def _keys(self):
        if not self.dynamic and not self.ascend_c:
            return []
        asked = self.context.get_addition("tiling_key") if self.context else None
        keys = [0, 1] if self.dynamic else [0]
        return [key for key in keys if not asked or str(key) in asked] or keys

    def _arguments(self):
        """What the kernel takes: tensors, then workspace and tiling data where shapes are not known."""
        kinds = []
        for at, tensor in enumerate(self.tensors):
            kind = "output" if at >= len(self.tensors) - self.outputs else "input"
            if isinstance(tensor, (list, tuple)):
                kinds.append(("inputs", len(tensor)) if kind == "input" else (kind, 0))
            elif tensor is not None or self._placeholders():
                kinds.append((kind, 0))
        if self._keys():
            kinds += [("workspace", 0), ("tiling", TILING_BYTES)]
        return kinds

    def _placeholders(self):
        return bool(self.context) and self.context.get_addition("optional_input_mode") == "gen_placeholder"

    def _kernel(self, name, cores, linked):
        seed = hashlib.sha256(linked.replace(self.name, "").encode()).hexdigest()
        stamp = next(line[len("stamp "):] for line in linked.splitlines() if line.startswith("stamp "))
        late = self.family in ("Ascend910B", "Ascend910_93")
        return Kernel(self.family, name, cores, self._keys(), self._arguments(), late=late, seed=seed, stamp=stamp)

    def _write_pair(self, folder, stem, kernel):
        data = kernel.object()
        fields = self._describe(stem, kernel, hashlib.sha256(data).hexdigest())
        _write(os.path.join(folder, stem + ".o"), data)
        _write(os.path.join(folder, stem + ".json"), _text(fields))

    def _describe(self, stem, kernel, digest):
        names = kernel.kernel_names()
        tensors = [kind for kind, _ in kernel.arguments if kind in ("input", "inputs", "output")]
        fields = {"binFileName": stem, "binFileSuffix": ".o", "blockDim": -1 if self.dynamic else self._blocks(),
                  "kernelName": kernel.name if kernel.keys else names[0], "magic": magic(kernel), "sha256": digest,
                  "parameters": [0 if self.family == "Ascend910" else None for _ in tensors],
                  "deterministic": self._deterministic(), "KBHit": self.hit}
        if self.family == "Ascend910":
            fields["batchBindOnly"] = 1
        else:
            fields["coreType"] = "MIX" if kernel.is_mix() else kernel.cores
        if kernel.is_split():
            fields["intercoreSync"] = int(kernel.is_mix())
            if not kernel.is_mix():
                fields["core_type"] = "AIV" if kernel.cores == "VectorCore" else "AIC"
        if kernel.keys:
            fields.update(opParaSize=TILING_BYTES, kernelList=self._list(kernel, names),
                          workspace={"num": 1, "size": [-1], "type": [0]})
            if kernel.is_mix():
                fields["taskRation"] = "tilingKey"
        elif kernel.is_mix():
            fields["taskRation"] = "%d:%d" % kernel.cores
        if buildcfg.get_current_build_config("status_check") and self.family in ("Ascend910", "Ascend310P"):
            fields["globalworkspace_spec_workspace"] = {"size": 32, "type": 0}
        if self.dynamic:
            fields["compileInfo"] = {"_pattern": "ElemWise", "_core_num": int(platform_info.get_soc_spec("ai_core_cnt"))}
        for key, name in (("optional_input_mode", "optionalInputMode"), ("optional_output_mode", "optionalOutputMode"),
                          ("dynamic_param_mode", "dynamicParamMode")):
            if self.context and self.context.get_addition(key):
                fields[name] = self.context.get_addition(key)
        return fields

    def _list(self, kernel, names):
        items = []
        for key, name in zip(kernel.keys, names):
            item = {"kernelName": name, "tilingKey": key, "deterministic": self._deterministic()}
            if kernel.is_mix():
                item.update(kernelType="MIX_AIC", crossCoreSync=1, taskRation="%d:%d" % kernel.cores)
            items.append(item)
        return items

    def _blocks(self):
        apart = self.cores == "VectorCore" and "vector_core_cnt" in platform_info.CURRENT
        return int(platform_info.get_soc_spec("vector_core_cnt" if apart else "ai_core_cnt"))

    def _write_split(self, folder, linked):
        """Two objects and a master that names them, as compilers once wrote mixed kernels."""
        parts = []
        for core, suffix, cores in (("AIC", "_mix_aic", "AiCore"), ("AIV", "_mix_aiv", "VectorCore")):
            stem = self.name + suffix
            self._write_pair(folder, stem, self._kernel(stem, cores, linked))
            path = os.path.join(folder, stem + ".json")
            with open(path, encoding="utf-8") as file:
                fields = json.load(file)
            fields["magic"] = "FFTS_BINARY_MAGIC_ELF_MIX_" + core
            _write(path, _text(fields))
            parts.append({"coreType": core, "jsonFileName": stem + ".json"})
        _write(os.path.join(folder, self.name + ".json"), _text({"jsonList": parts}))
        self._tell(folder)

    def _tell(self, folder):
        if self.context:
            self.context.add_build_res("json_file_path", os.path.join(folder, self.name + ".json"))


def magic(kernel):
    """The kind of binary, by the chip and the cores."""
    by_core = {"VectorCore": "RT_DEV_BINARY_MAGIC_ELF_AIVEC", "AiCore": "RT_DEV_BINARY_MAGIC_ELF_AICUBE"}
    if kernel.is_mix() or kernel.family == "Ascend910":
        return "RT_DEV_BINARY_MAGIC_ELF"
    if kernel.family == "Ascend310P" and kernel.cores == "AiCore":
        return "RT_DEV_BINARY_MAGIC_ELF"
    return by_core[kernel.cores]


def _text(fields):
    return json.dumps(fields, sort_keys=True, indent=4, separators=(",", ":")).encode()


def _write(path, data):
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
    try:
        os.write(file, data)
    finally:
        os.close(file)
