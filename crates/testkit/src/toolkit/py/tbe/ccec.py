"""Runs the compiler and the linker."""
import hashlib
import os
import shutil
import subprocess

from opkeep_standin import control

HARD_WIRED = "/usr/local/Ascend/CANN-1.84/%s-linux/ccec_compiler/bin" % os.uname().machine

# What is tried, one after the other, until the compiler takes it.
RETRIES = ([], ["-mllvm", "-disable-machine-licm"], ["-mllvm", "-disable-lsr", "-fno-unroll-loops"])

STACKS = {"Ascend910": "16000"}


def _program(name):
    return shutil.which(name) or os.path.join(HARD_WIRED, name)


def _digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _run(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except OSError as problem:
        return str(problem)
    if done.returncode == 0:
        return None
    return done.stdout.decode(errors="replace") or "exit status %d" % done.returncode


def compile_and_link(source, arch, family, debug, text):
    """Makes a linked file of the source text beside `source`, and gives what is in it."""
    compiled, linked = source + ".o", source + ".linked"
    with open(source, "w", encoding="utf-8") as file:
        file.write(_directives() + text)
    flags = ["-O0", "-g"] if debug else ["-O2"]
    size = STACKS.get(family, "32768")
    base = [_program("ccec"), "-c", *flags, source, "--cce-aicore-arch=" + arch, "--cce-aicore-only", "-o", compiled,
            "-mllvm", "-cce-aicore-function-stack-size=" + size, "-mllvm", "-cce-aicore-addr-transform"]
    for extra in RETRIES:
        problem = _run(base + extra)
        if problem is None:
            break
    else:
        _give_up(base, problem)
    command = [_program("ld.lld"), "-m", "aicorelinux", "-Ttext=0", compiled, "-static", "-n", "-o", linked]
    problem = _run(command)
    if problem is not None:
        _give_up(command, problem)
    with open(linked, encoding="utf-8") as file:
        text = file.read() + "".join(_digest(_program(name)) for name in ("ccec", "ld.lld"))
    for path in (compiled, linked):
        os.remove(path)
    return text


def _directives():
    """What makes the compiler fail, where a test wants it to."""
    lines = ""
    fails = control.fault("compiler_fails")
    if fails:
        repaired = ["", " unless -disable-machine-licm", " unless -disable-lsr"]
        lines += "#error%s\n" % (repaired[fails["attempts"]] if fails["attempts"] < 3 else "")
    if control.fault("compiler_crashes"):
        lines += "#crash\n"
    if control.fault("compiler_hangs"):
        lines += "#hang\n"
    return lines


def _give_up(command, problem):
    print("run cmd compile error: %s\n%s" % (" ".join(command), problem), flush=True)
    raise RuntimeError({"errCode": "E40021", "op_name": os.path.basename(command[0]), "detailed_cause": problem},
                       "compile failed: " + problem)
