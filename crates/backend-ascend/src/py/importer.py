"""How workers import: from sources, never from the bytecode beside them, and with a list of all that was read.

`-S` keeps Python from running `site` before this file does. `PYTHONPYCACHEPREFIX` names no directory, so that children
and loaders other than this one find no bytecode either; a `.pyc` without a source is a source, and is imported.
"""
import _imp
import hashlib
import importlib.machinery
import marshal
import os
import sys
import time


class SourceLoader(importlib.machinery.SourceFileLoader):
    """Compiles sources, and keeps the bytecode in a directory that only this user writes to, by the source's content: the
    same source in two places is compiled once."""

    kept = None

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        source = self.get_data(path)
        if self.kept is None:
            return self.source_to_code(source, path)
        digest = hashlib.sha256(source).digest()
        entry = os.path.join(self.kept, self._name(digest))
        code = self._load(entry, digest)
        if code is None:
            code = self.source_to_code(source, path)
            self._keep(entry, digest, code)
        else:
            # Tracebacks and `inspect` read the path of the code.
            _imp._fix_co_filename(code, path)
        return code

    @staticmethod
    def _name(digest):
        tag = "%s %x %d " % (sys.implementation.cache_tag, sys.hexversion, sys.flags.optimize)
        return hashlib.sha256(tag.encode("utf-8") + digest).hexdigest()[:40]

    @staticmethod
    def _load(entry, digest):
        try:
            with open(entry, "rb") as file:
                content = file.read()
                # What was not used for long is removed.
                if time.time() - os.fstat(file.fileno()).st_mtime > 86400:
                    os.utime(entry)
        except OSError:
            return None
        body = content[32:]
        if hashlib.sha256(body).digest() != content[:32] or body[:32] != digest:
            return None
        return marshal.loads(body[32:])

    @staticmethod
    def _keep(entry, digest, code):
        body = digest + marshal.dumps(code)
        beside = "%s.%d" % (entry, os.getpid())
        try:
            file = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with open(file, "wb") as file:
                file.write(hashlib.sha256(body).digest() + body)
            os.rename(beside, entry)
        except OSError:
            pass


def use_source_loader(kept):
    """Every module that is found in a directory from now on is loaded by it."""
    machinery = importlib.machinery
    SourceLoader.kept = kept
    hook = machinery.FileFinder.path_hook(
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (SourceLoader, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES))
    of_finder = "FileFinder.path_hook"
    sys.path_hooks[:] = [one for one in sys.path_hooks if of_finder not in getattr(one, "__qualname__", "")] + [hook]
    sys.path_importer_cache.clear()


class Watch:
    """What is read, looked for and run, as Python's audit hooks report it."""

    def __init__(self):
        self.opened, self.tried, self.libraries, self.programs, self.written = {}, {}, {}, {}, set()
        if hasattr(sys, "addaudithook"):
            sys.addaudithook(self._see)
        # Asked first about every module, by whatever way it is imported.
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname, path=None, target=None):
        """Takes note of what is looked for, and finds nothing."""
        self.tried[fullname] = True
        return None

    def _see(self, event, arguments):
        if event == "open":
            path, mode, flags = arguments
            if not isinstance(path, (str, bytes)):
                return
            path = os.path.abspath(os.fsdecode(path))
            if isinstance(flags, int) and (flags & os.O_ACCMODE == os.O_WRONLY or flags & (os.O_TRUNC | os.O_EXCL)):
                # What it writes itself it may read again.
                self.written.add(path)
            elif path not in self.written:
                self.opened[path] = True
        elif event == "ctypes.dlopen":
            if isinstance(arguments[0], (str, bytes)):
                self.libraries[os.fsdecode(arguments[0])] = True
        elif event == "subprocess.Popen":
            program = arguments[0]
            if isinstance(program, (str, bytes)):
                self.programs[os.fsdecode(program)] = True


class Domain:
    """What may be read: all of it is in the keys of kernels, or changes none."""

    NOTHING = {"files": [], "beneath": []}

    def __init__(self, files, beneath):
        self.files, self.beneath = set(files), tuple(os.path.join(one, "") for one in beneath)
        self.mapped = set()

    def has(self, path):
        real = os.path.realpath(path)
        return path in self.files or real in self.files or path.startswith(self.beneath) or real.startswith(self.beneath)

    def beyond(self, watch, folder, more):
        """What was read that is not in it, since the last call. What is below `folder` is the compile's own; `more` is what
        this one may read besides."""
        files, beneath = set(more["files"]), tuple(os.path.join(one, "") for one in more["beneath"])
        opened, watch.opened = watch.opened, {}
        programs, watch.programs = watch.programs, {}
        fresh = mapped() - self.mapped
        self.mapped |= fresh
        own = os.path.join(folder, "")
        found = [path for path in list(opened) if os.path.isfile(path) and not path.startswith(own)]
        found += [path for path in fresh if os.path.isfile(path)]
        for program in programs:
            path = program_at(program)
            if path is not None:
                found.append(path)

        def is_extra(path):
            return path in files or os.path.realpath(path) in files or path.startswith(beneath)
        return sorted({path for path in found if not (self.has(path) or is_extra(path))})


def program_at(program):
    """Where a program is found."""
    if "/" in program:
        return os.path.abspath(program) if os.path.isfile(program) else None
    for folder in os.environ.get("PATH", "").split(":"):
        path = os.path.join(folder, program)
        if folder and os.path.isfile(path):
            return path
    return None


def mapped():
    """The files whose code this process runs."""
    found = set()
    with open("/proc/self/maps", "rb") as file:
        for line in file:
            parts = line.rstrip(b"\n").split(None, 5)
            if len(parts) == 6 and b"x" in parts[1] and parts[5].startswith(b"/"):
                found.add(os.fsdecode(parts[5]))
    return found


def begin(kept):
    """What Python does before it runs a script, under watch; the directory that it is run in is none for modules."""
    watch = Watch()
    sys.path[:] = [folder for folder in sys.path if folder]
    use_source_loader(kept)
    import site
    site.main()
    return watch


WATCH = begin(sys.argv[1] or None)
