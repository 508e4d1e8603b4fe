"""From the sources of a task to its linked object: make runs one compile for each tiling key, then the linker runs twice."""
import os

from asc_op_compile_base.asc_op_compiler import common_utility as utility
from asc_op_compile_base.asc_op_compiler import constants
from opkeep_standin import control

STACKS = ["-mllvm", "-cce-aicore-stack-size=0x8000", "-mllvm", "-cce-aicore-function-stack-size=0x8000", "-mllvm",
          "-cce-aicore-record-overflow=false", "-mllvm", "-cce-aicore-addr-transform"]


def command_of(task, key, side):
    """The compile of one tiling key for one kind of core."""
    symbol = task.symbol(key, side)
    split = bool(side)
    command = utility.compiler("bisheng" if split else "ccec")
    command += ["-c", "-O3" if split else "-O2"] + utility.language(task.options)
    command += [task.stub, "--cce-aicore-arch=" + task.arch(side), "--cce-aicore-only", "-o", task.object_of(key, side)] + STACKS
    if split:
        command += ["-mllvm", "-cce-aicore-dcci-insert-for-scalar=false"]
    else:
        command += ["--cce-mask-opt", "--cce-long-call=true"]
    command += ["-include", task.tiling_header, "-std=c++17", "-Dauto_gen_%s_kernel=%s" % (task.func, symbol)]
    ratio = task.ratio(key)
    if all(ratio):
        command.append("-D%s=1" % constants.MIX_CORE)
        if ratio == (1, 1):
            command.append("-D%s=1" % constants.MIX_RATIO_ONE)
    command += ["-D%s=%dUL" % (constants.TILING_KEY, key), "-D%s=%s_%d_tilingkey" % (task.func, task.func, key)]
    return command


def compile_keys(task):
    """Compiles all keys; the objects that should be there now, vector cores first."""
    made = []
    for side in reversed(task.sides()):
        keys = [key for key in task.keys if side in task.sides_of(key)]
        if not keys:
            continue
        makefile = os.path.join(task.folder, "%s_tmp_ai%s_%d.mk" % (task.name, "c" if side == constants.CUBE else "v", os.getpid()))
        _write_makefile(makefile, task, keys, side)
        _make(makefile, task, len(keys))
        os.remove(makefile)
        made += [task.object_of(key, side) for key in keys]
        if task.is_debugged("dump_cce"):
            _dump_sources(task, keys, side)
    return made


def _write_makefile(path, task, keys, side):
    names = ["key_%d" % key for key in keys]
    lines = [".PHONY: all %s" % " ".join(names), "all: %s" % " ".join(names)]
    for name, key in zip(names, keys):
        command = " ".join(command_of(task, key, side))
        if task.family == "Ascend310P":
            # A large kernel needs longer jumps, which is only known when it has failed without.
            command = "%s 2>/dev/null || %s -mllvm -cce-aicore-jump-expand=true" % (command, command)
        lines += ["%s:" % name, "\t@%s" % command]
    utility.write(path, "\n".join(lines) + "\n")


def _make(makefile, task, keys):
    """The exit status counts for nothing, unless logs are asked for: a key that failed is missed by the linker."""
    arguments = ["-f", makefile]
    if os.environ.get("TILINGKEY_PAR_COMPILE") != "1":
        arguments += ["-j", str(_jobs(task, keys))]
    logs, output = os.environ.get("ASCENDC_BUILD_LOG_DIR"), "/dev/null"
    if logs:
        os.makedirs(logs, exist_ok=True)
        output = os.path.join(logs, "%s%s.log" % (task.name, utility.tag()))
    control.note("make", arguments)
    status = os.system("make %s > %s" % (" ".join(arguments), output))
    if logs and status:
        raise utility.CompileError("make failed: %d" % status)


def _jobs(task, keys):
    for name in ("TILINGKEY_PARALLEL_JOB", "ASCENDC_PAR_COMPILE_JOB"):
        if os.environ.get(name, "").isdigit():
            return max(1, int(os.environ[name]))
    most = 8 if task.family in ("Ascend910", "Ascend310P") else 64
    return max(1, min(most, 2 * (os.cpu_count() or 1) - 2, keys))


def _dump_sources(task, keys, side):
    for key in keys:
        command = command_of(task, key, side)
        output = command.index("-o") + 1
        command[output] = os.path.splitext(command[output])[0] + ".i"
        command[command.index("-c")] = "-E"
        utility.run(command)


def link(task, objects):
    """First all into one, then that one in place."""
    linker, target = utility.which("ld.lld"), task.file(".o")
    strip = [] if task.is_debugged("ccec_g") else ["-x"]
    utility.run([linker, "-m", "aicorelinux", "-r", "-Ttext=0", "-q"] + strip + objects + ["-static", "-o", target])
    for path in objects:
        os.remove(path)


def link_in_place(task):
    target = task.file(".o")
    utility.run([utility.which("ld.lld"), "-m", "aicorelinux", "-Ttext=0", target, "-static", "-o", target, "-q"])


def make_part(task):
    """What is to be linked into a super kernel has no second link: its symbols become weak."""
    utility.run([utility.which("llvm-objcopy"), "--weaken", task.file(".o")])
