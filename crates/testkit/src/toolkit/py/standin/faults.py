"""What goes wrong, where a test wants it. The vendor has nothing like this."""
import os
import signal
import struct
import subprocess
import sys
import time

from opkeep_standin import control
from opkeep_standin.kernel import Kernel


def before(job):
    """Faults that strike before anything is compiled."""
    for fault in job.faults:
        BEFORE.get(fault["kind"], lambda _: None)(fault)


def after(job, folder, stem):
    """Faults of the files that were written to the output folder."""
    files = [os.path.join(folder, stem + suffix) for suffix in (".o", ".json")]
    for fault in job.faults:
        AFTER.get(fault["kind"], lambda *_: None)(fault, *files)


def _crash(_):
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)


def _hang(fault):
    if fault["deaf"]:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    sys.stdout.flush()
    while True:
        time.sleep(3600)


def _leave(fault):
    """Starts a process that outlives the compile and holds its output open."""
    command = [sys.executable, "-S", "-c", "import time; time.sleep(%d)" % fault["seconds"]]
    child = subprocess.Popen(command, start_new_session=fault["own_session"])
    with open(os.path.join(control.FOLDER, "left.log"), "a", encoding="ascii") as file:
        file.write("%d\n" % child.pid)


def _flood(fault):
    line = b"[WARNING] nothing is wrong \xff\xfe" + b"." * 100 + b"\n"
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        for _ in range(fault["bytes"] // len(line)):
            os.write(stream.fileno(), line)


def _exit(fault):
    sys.stdout.flush()
    os._exit(fault["code"])


def _fail(fault):
    raise RuntimeError({"errCode": fault["code"], "op_name": "standin", "detailed_cause": fault["message"]},
                       fault["message"])


BEFORE = {
    "crash": _crash,
    "hang": _hang,
    "leave": _leave,
    "flood": _flood,
    "exit": _exit,
    "fail": _fail,
    "sleep": lambda fault: time.sleep(fault["ms"] / 1000),
}


def _change(path, change):
    with open(path, "rb") as file:
        data = bytearray(file.read())
    data = change(data) or data
    with open(path, "wb") as file:
        file.write(data)


def _other_machine(data):
    struct.pack_into("<H", data, 18, 62)


def _other_kernel(path):
    def write(_):
        return Kernel("Ascend910B", "somebody_else", "VectorCore", [0], [("input", 0), ("output", 0)]).object()
    _change(path, write)


def _sign(object_path, json_path):
    """Makes the digest in the `.json` that of the object as it is."""
    import hashlib
    import json
    with open(object_path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with open(json_path, encoding="utf-8") as file:
        fields = json.load(file)
    fields["sha256"] = digest
    with open(json_path, "w", encoding="utf-8") as file:
        json.dump(fields, file, indent=4)


def _signed(change):
    def run(_, object_path, json_path):
        change(object_path)
        _sign(object_path, json_path)
    return run


AFTER = {
    "no_object": lambda _, object_path, __: os.remove(object_path),
    "no_json": lambda _, __, json_path: os.remove(json_path),
    "cut_object": lambda fault, object_path, _: os.truncate(object_path, fault["bytes"]),
    "cut_json": lambda fault, _, json_path: os.truncate(json_path, fault["bytes"]),
    "other_digest": lambda _, object_path, __: _change(object_path, lambda data: data + b"\0"),
    "no_elf": _signed(lambda path: _change(path, lambda _: b"kernel")),
    "other_machine": _signed(lambda path: _change(path, _other_machine)),
    "other_kernel": _signed(_other_kernel),
    "exit_after": lambda fault, *_: _exit(fault),
}
