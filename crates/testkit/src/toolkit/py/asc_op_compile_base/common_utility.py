"""Programs that the compiler package runs, and names of the files it makes."""
import os
import shutil
import subprocess

# What a failed command is repeated with, where Python runs it; make repeats nothing.
RETRIES = ([], ["-mllvm", "-disable-machine-licm"], ["-mllvm", "-disable-lsr", "-fno-unroll-loops"])


class CompileError(RuntimeError):
    """A command that failed."""


def which(name):
    found = shutil.which(name)
    if found is None:
        raise CompileError("%s is not found" % name)
    return found


def ccache():
    """The launcher that the environment names, if its name says that it is a ccache."""
    named = os.environ.get("ASCENDC_CCACHE_EXECUTABLE")
    return named if named and named.endswith("ccache") else None


def compiler(name="bisheng"):
    """The first words of a compile."""
    launcher = ccache()
    return [launcher, which(name)] if launcher else [which(name)]


def language(options):
    """A ccache refuses the language `cce`, so another option says it."""
    if not ccache():
        return list(options)
    at = next((at for at in range(len(options) - 1) if options[at:at + 2] == ["-x", "cce"]), None)
    rest = options if at is None else options[:at] + options[at + 2:]
    return list(rest) + ["--cce-aicore-lang"]


def tag():
    """What the names of sources have of the process, where equal names are not asked for."""
    if ccache() or os.environ.get("BIN_FILENAME_HASHED") == "1":
        return ""
    return "_%d" % os.getpid()


def run(command):
    """Runs a command up to three times; what it printed."""
    for extra in RETRIES:
        done = subprocess.run(command + extra, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        text = done.stdout.decode(errors="replace")
        if "unsupported API" in text:
            raise CompileError("unsupported API: %s" % text)
        if done.returncode == 0:
            return text
    print("run cmd compile error: %s\n%s" % (" ".join(command), text), flush=True)
    raise CompileError("%s failed: %s" % (os.path.basename(command[0]), text or "exit status %d" % done.returncode))


def dump(path, section):
    """A section's bytes, as llvm-objdump prints them; empty where it is missing."""
    done = subprocess.run([which("llvm-objdump"), "-s", "-j", section, path], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    data, lines = b"", done.stdout.decode(errors="replace").splitlines()
    for line in lines:
        words = line[:42].split()
        if line.startswith(" ") and len(words) > 1:
            data += bytes.fromhex("".join(words[1:]))
    return data


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()
