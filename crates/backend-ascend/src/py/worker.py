"""A worker of opkeep: imports the toolkit once and compiles what it is told, one after the other.

Requests come in and answers go out as JSON behind four bytes of length, big end first, on the standard input and output
that the worker was started with. Whatever the toolkit prints goes to standard error. The process that is started only
watches: it ends its whole group when its parent dies, and goes with the one that works.
"""
import json
import signal
import struct
import tempfile
import time
import traceback

# Files that were changed so shortly before they were looked at may have been read before the change.
RECENT = 2_000_000_000


class Lost(Exception):
    """The caller closed the pipe."""


class Wire:
    """The two ends of the pipes, out of the toolkit's reach."""

    def __init__(self):
        self.requests = os.dup(0)
        self.answers = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def _read(self, count):
        parts = []
        while count:
            part = os.read(self.requests, min(count, 1 << 16))
            if not part:
                raise Lost()
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def request(self):
        (length,) = struct.unpack(">I", self._read(4))
        return json.loads(self._read(length).decode("utf-8"))

    def answer(self, content):
        content = json.dumps(content).encode("utf-8")
        content = memoryview(struct.pack(">I", len(content)) + content)
        while content:
            content = content[os.write(self.answers, content):]


class Sources:
    """The files that modules were imported from, and whether they are still what was imported."""

    def __init__(self, roots, clock_offset):
        """`clock_offset` is what the caller's clock is ahead of the system's, in nanoseconds."""
        self.clock_offset = clock_offset
        self.roots = tuple(os.path.join(root, "") for root in roots)
        self.seen = {}
        self.doubtful = False

    def watch(self, folder):
        """Modules of this directory count too."""
        if folder is not None and os.path.join(folder, "") not in self.roots:
            self.roots += (os.path.join(folder, ""),)

    def look(self):
        """Records the modules that were imported since the last call."""
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None)
            if name in self.seen or not path or not path.startswith(self.roots):
                continue
            state = self._state(path)
            self.seen[name] = (path, state)
            if state is None or max(state[2:]) > time.time_ns() + self.clock_offset - RECENT:
                self.doubtful = True

    def have_changed(self):
        return any(self._state(path) != state for path, state in self.seen.values())

    @staticmethod
    def _state(path):
        try:
            found = os.stat(path)
        except OSError:
            return None
        return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def start(tool_folder):
    """Imports the toolkit; its modules import each other flatly, so their folder has to be in the path."""
    if tool_folder is None:
        import tbe  # noqa: those who only ask need no more
        return None
    sys.path.insert(0, tool_folder)
    from opc_tool import opc_api
    return opc_api


def compile_op(opc_api, request):
    """Compiles one operator in its directory, which is empty. The compiler would make directories with odd modes."""
    folder, options = request["folder"], request["options"]
    for option, name in (("output", "output"), ("debug_dir", "debug")):
        options[option] = os.path.join(folder, name)
        os.mkdir(options[option])
    # What one operator leaves for another is in no key.
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None
    os.chdir(folder)
    try:
        return bool(opc_api.compile_op(request["parameters"], options))
    finally:
        os.chdir("/")


def select_format(request):
    """Asks an operator's modules, until one answers, which element types and formats it takes."""
    import importlib
    from tbe.common.platform import platform_info
    platform_info.set_current_compile_soc_info(request["soc"], request["core_type"])
    if request["base"] not in sys.path:
        sys.path.insert(0, request["base"])
    for name in request["modules"]:
        ask = getattr(importlib.import_module(name), "op_select_format", None)
        if ask is not None:
            return ask(*request["ports"], *request["attrs"])
    return None


def serve(wire, arguments):
    sources = Sources(arguments["roots"], arguments["clock_offset"])
    domain = Domain(arguments["files"], arguments["beneath"])
    try:
        opc_api = start(arguments["tool_folder"])
    except BaseException as problem:
        traceback.print_exc()
        sys.stderr.flush()
        wire.answer({"ready": False, "problem": "%s: %s" % (type(problem).__name__, problem)})
        return
    sources.look()
    wire.answer({"ready": True, "python": "%d.%d.%d" % sys.version_info[:3]})
    last = False
    while not last:
        request = wire.request()
        sources.watch(request["watched"])
        if sources.have_changed():
            wire.answer({"stale": True})
            return
        answer = {"done": False, "problem": None}
        try:
            if request["do"] == "compile":
                answer["done"] = compile_op(opc_api, request)
            else:
                answer["answer"] = select_format(request)
                answer["done"] = True
        except BaseException as problem:
            traceback.print_exc()
            answer["problem"] = "%s: %s" % (type(problem).__name__, problem)
        answer["beyond"] = domain.beyond(WATCH, request.get("folder", os.devnull), request.get("domain", domain.NOTHING))
        sources.look()
        # A worker that may have read a file just before a change compiles once, as a process would.
        last = answer["last"] = sources.doubtful
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(2, request["mark"].encode("utf-8"))
        wire.answer(answer)


def end_group(worker):
    """Ends all of the group. Its directory stays; `process/src/probe_dir.rs` says what removes it."""
    os.kill(worker, signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)


def main():
    if len(sys.argv) > 2:
        with open(sys.argv[2], encoding="utf-8", errors="surrogateescape") as file:
            return probe(json.load(file))
    worker = os.fork()
    if worker:
        signal.signal(signal.SIGTERM, lambda *_: end_group(worker))
        # The pipes are the worker's: they close when it ends.
        for end in (0, 1, 2):
            os.close(end)
        _, status = os.waitpid(worker, 0)
        if os.WIFSIGNALED(status):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
            os.kill(os.getpid(), os.WTERMSIG(status))
        os._exit(os.WEXITSTATUS(status))
    try:
        wire = Wire()
        serve(wire, wire.request())
    except (Lost, BrokenPipeError):
        pass
