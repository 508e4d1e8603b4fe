"""What importing the toolkit takes, reported once for each interpreter, environment and toolkit.

Nothing here depends on an operator that is compiled: modules that only operators name are imported in a child each.
"""
import subprocess

NOTHING = {"modules": [], "looked": {}, "libraries": [], "opened": []}

# Programs that compile and link kernels.
COMPILERS = ("ccec", "bisheng", "ld.lld")

# Modules of the standard library that do something when they are imported.
NOT_IMPORTED = ("antigravity", "this", "idlelib", "__main__", "turtledemo")


def probe(arguments):
    problem = None
    if sys.version_info < (3, 8):
        problem = "Python %d.%d reports nothing that it reads; 3.8 or later is needed" % sys.version_info[:2]
    else:
        try:
            start(arguments["tool_folder"])
        except BaseException as error:
            traceback.print_exc()
            problem = "%s: %s" % (type(error).__name__, error)
    if problem is None:
        for name in arguments["lazy"]:
            if is_at_hand(name):
                take(name)
    found = {"base": report(set(), set(), set())}
    known = set(sys.modules), set(WATCH.opened), mapped()
    found.update(programs=programs(arguments["programs"]), configs=configs())
    found["names"], found["pending"] = {}, []
    for name in arguments["names"] if problem is None else ():
        if is_loaded(name):
            found["names"][name] = dict(NOTHING)
        elif arguments["children"]:
            found["names"][name] = in_child(name, *known)
        else:
            found["pending"].append(name)
    found["search"] = [os.path.abspath(folder) for folder in sys.path]
    found.update(problem=problem, executable=sys.executable, version=sys.version)
    with open(arguments["report"], "w", encoding="utf-8", errors="surrogateescape") as file:
        json.dump(found, file, ensure_ascii=False)


def is_loaded(name):
    """Whether an import of this name runs nothing: a module that is there, or something in one."""
    parent, _, tail = name.rpartition(".")
    return name in sys.modules or tail in vars(sys.modules.get(parent, object))


def take(name):
    """Imports a module by its dotted name, or as much of the name as is a module."""
    import importlib
    if name.split(".")[0] in NOT_IMPORTED:
        return
    parts = name.split(".")
    for length in range(len(parts)):
        try:
            importlib.import_module(".".join(parts[:length + 1]))
        except BaseException:
            return


def is_at_hand(name):
    """Whether a module is in the standard library, or in a package that is imported anyway."""
    import importlib.util
    top = name.split(".")[0]
    if top in sys.modules or top in sys.builtin_module_names:
        return True
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    origin = getattr(spec, "origin", None) or ""
    library = os.path.dirname(os.__file__)
    within = os.path.relpath(origin, library) if origin else ".."
    return not within.startswith(("..", "site-packages", "dist-packages"))


def in_child(name, modules, opened, libraries):
    """What importing `name` takes beyond what is imported already."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(120)
        try:
            take(name)
            found = report(modules, opened, libraries)
            with open(write, "wb", closefd=True) as pipe:
                pipe.write(json.dumps(found).encode("ascii"))
        finally:
            os._exit(0)
    os.close(write)
    with open(read, "rb", closefd=True) as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    try:
        return json.loads(content.decode("utf-8"))
    except ValueError:
        return None


def report(modules, opened, libraries):
    """What was imported, opened and looked for, but for what is named."""
    tried = [name for name in list(WATCH.tried) if name not in modules]
    fresh = [name for name in list(sys.modules) if name not in modules]
    found = {"modules": [], "looked": {}}
    for name in sorted(set(fresh)):
        path = file_of(sys.modules.get(name))
        if path is not None:
            found["modules"].append([name, path])
    for name in sorted(set(fresh + tried)):
        look(found["looked"], name)
    found["libraries"] = sorted(mapped() - libraries)
    found["opened"] = sorted(path for path in list(WATCH.opened) if path not in opened)
    wanted = [name for name in WATCH.libraries if "/" not in name]
    seek(found["looked"], "LD_LIBRARY_PATH", wanted + [os.path.basename(path) for path in found["libraries"]])
    return {key: value if key != "looked" else listed(value) for key, value in found.items()}


def listed(looked):
    return {folder: sorted(names) for folder, names in looked.items()}


def file_of(module):
    """The file that a module is from; of one in an archive the archive."""
    spec = getattr(module, "__spec__", None)
    loader = getattr(module, "__loader__", None)
    archive = getattr(loader, "archive", None)
    if isinstance(archive, str):
        return archive
    path = getattr(module, "__file__", None)
    if not isinstance(path, str):
        path = spec.origin if spec is not None and getattr(spec, "has_location", False) else None
    return os.path.abspath(path) if isinstance(path, str) else None


def look(looked, name):
    """Where a module was looked for, up to where it was found."""
    parent, _, tail = name.rpartition(".")
    module = sys.modules.get(name)
    if getattr(getattr(module, "__spec__", None), "origin", None) in ("built-in", "frozen"):
        return
    folders = sys.path if not parent else getattr(sys.modules.get(parent), "__path__", ())
    path = file_of(module)
    if path is not None and os.path.basename(path).split(".")[0] == "__init__":
        path = os.path.dirname(path)
    for folder in list(folders):
        folder = os.path.abspath(folder)
        looked.setdefault(folder, set()).add(tail)
        if os.path.isdir(os.path.join(folder, tail)):
            looked.setdefault(os.path.join(folder, tail), set()).add("__init__")
        if path is not None and os.path.dirname(path) == folder:
            return


def seek(looked, variable, names):
    """In which directories of a variable files of these names are looked for: in all of them, for simplicity."""
    for folder in os.environ.get(variable, "").split(":"):
        if folder:
            looked.setdefault(os.path.abspath(folder), set()).update("=" + name for name in names)
            if variable == "LD_LIBRARY_PATH":
                # The loader prefers libraries for this processor.
                looked[os.path.abspath(folder)].update(("=glibc-hwcaps", "=tls", "=" + os.uname().machine))


def programs(names):
    """The programs that compiles run, with what they load."""
    found = {"paths": [], "looked": {}}
    libraries = {}
    seek(found["looked"], "PATH", names)
    for name in names:
        path = program_at(name)
        if path is not None:
            found["paths"].append([name, path])
            for one in loaded_by(path):
                libraries[one] = True
            if name in COMPILERS:
                greet(path)
    seek(found["looked"], "LD_LIBRARY_PATH", [os.path.basename(path) for path in libraries])
    found["libraries"], found["looked"] = sorted(libraries), listed(found["looked"])
    return found


def greet(path):
    """Runs a compiler that compiles nothing, for the observer: what it reads each time, and what a script runs."""
    try:
        subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        pass


def loaded_by(path):
    """The libraries that a program is linked with, as the loader finds them; of a script the program that runs it."""
    with open(path, "rb") as file:
        head = file.read(256)
    if head.startswith(b"#!"):
        words = head[2:].split(b"\n")[0].split()
        interpreter = os.fsdecode(words[0]) if words else ""
        return [interpreter] + loaded_by(interpreter) if os.path.isfile(interpreter) else []
    if not head.startswith(b"\x7fELF"):
        return []
    environment = dict(os.environ, LD_TRACE_LOADED_OBJECTS="1")
    try:
        done = subprocess.run([path], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    words = (word for line in done.stdout.decode("utf-8", "replace").splitlines() for word in line.split())
    return [word for word in words if word.startswith("/") and os.path.isfile(word)]


def configs():
    """Files that change where Python finds modules and the loader libraries, there or not."""
    found = {"/etc/ld.so.cache": True, "/etc/ld.so.preload": True}
    path = sys.executable
    for _ in range(40):
        folder = os.path.dirname(path)
        for one in (folder, os.path.dirname(folder)):
            found[os.path.join(one, "pyvenv.cfg")] = True
        found[os.path.splitext(path)[0] + "._pth"] = True
        found[path + "._pth"] = True
        found[os.path.join(folder, "pybuilddir.txt")] = True
        if not os.path.islink(path):
            break
        path = os.path.join(folder, os.readlink(path))
    for path in sys.path:
        if not os.path.isdir(path):
            found[path] = True
    import site
    folders = list(site.getsitepackages()) + [site.getusersitepackages()]
    for folder in folders:
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            if name.endswith(".pth"):
                found[os.path.join(folder, name)] = True
    return {"files": sorted(found), "looked": {os.path.abspath(folder): ["*.pth"] for folder in folders}}


main()
