"""What a test wants of the stand-in: how long things take, and what goes wrong with which compile.

The vendor has nothing like this. Rules stand in the targets of the links `opkeep_standin/control/<number>` below the
root, not in a file: reading one, or listing their directory, would be a read of the toolkit, and these change no
kernel's key. They are read at every
compile; those in the variable OPKEEP_STANDIN_RULES go first.

The log is a file, or, where `opkeep_standin/log` is there, the targets of links in it: then nothing is opened at all.
"""
import json
import os
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
FOLDER = os.path.join(ROOT, "opkeep_standin")
COMPILES = os.path.join(FOLDER, "compiles.log")
LONGEST = 4000

CURRENT = []


def settings():
    while True:
        folder = os.path.join(FOLDER, os.readlink(os.path.join(FOLDER, "control")))
        parts = []
        try:
            while True:
                parts.append(os.readlink(os.path.join(folder, str(len(parts)))))
        except FileNotFoundError:
            pass
        try:
            return json.loads("".join(parts))
        except ValueError:
            # Other rules have come since; without any, the link is gone, and reading it fails.
            continue


def start_up():
    """Takes as long as importing the toolkit is to take."""
    time.sleep(settings()["start_up_ms"] / 1000)


class Compile:
    """One compile, from its first line in the log to its last."""

    def __init__(self, op_type, kernel, soc, deterministic):
        self.begun = time.monotonic()
        found = settings()
        self.costs = found["compile_ms"] / 1000
        self.faults = _take(_rules(found), op_type, kernel, soc)
        self.line = {"id": "%d.%d" % (os.getpid(), time.monotonic_ns()), "op": op_type, "kernel": kernel, "soc": soc,
                     "deterministic": deterministic, "pid": os.getpid(), "parent": os.getppid()}

    def __enter__(self):
        _log(dict(self.line, event="begin", at=time.monotonic_ns()))
        CURRENT.append(self)
        return self

    def __exit__(self, kind, value, trace):
        CURRENT.pop()
        if kind is None:
            time.sleep(max(0, self.begun + self.costs - time.monotonic()))
        _log(dict(self.line, event="end", at=time.monotonic_ns(), failed=kind is not None))

    def fault(self, kind):
        """The fault of this kind, if there is one."""
        return next((fault for fault in self.faults if fault["kind"] == kind), None)


def fault(kind):
    """The fault of this kind that the compile under way has, if there is one."""
    return CURRENT[-1].fault(kind) if CURRENT else None


def _rules(found):
    extra = os.environ.get("OPKEEP_STANDIN_RULES")
    return (json.loads(extra) if extra else []) + found["rules"]


def _take(rules, op_type, kernel, soc):
    """The faults of the rules that are about this compile and have not been used up."""
    def concerns(rule):
        return (rule.get("op") in (None, op_type) and (rule.get("kernel") or "") in kernel
                and rule.get("soc") in (None, soc))
    return [rule["fault"] for rule in rules if concerns(rule) and _use(rule)]


def _use(rule):
    times = rule.get("times")
    if times is None:
        return True
    for count in range(times):
        try:
            os.symlink("used", os.path.join(FOLDER, "used", "%s.%d" % (rule["id"], count)))
            return True
        except FileExistsError:
            continue
    return False


def note(tool, arguments):
    """Logs that a program is run."""
    _log({"event": "run", "at": time.monotonic_ns(), "tool": tool, "pid": os.getpid(), "parent": os.getppid(),
          "dir": os.getcwd(), "args": arguments})


def _log(line):
    text = json.dumps(line)
    name = os.path.join(FOLDER, "log", "%020d-%d" % (time.monotonic_ns(), os.getpid()))
    try:
        for part in range(0, len(text), LONGEST):
            os.symlink(text[part:part + LONGEST], "%s.%03d" % (name, part // LONGEST))
        return
    except FileNotFoundError:
        pass
    file = os.open(COMPILES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, (text + "\n").encode())
    finally:
        os.close(file)
