"""Directories that cannot be written, and disks without space. They are mounted, where this user may mount."""

import subprocess
from collections.abc import Iterator

from outcome import Result, check, count
from processes import Setting, Start, Worker, workers

KNOWN, NEW = 4000, 4001
#: Too little for a store.
SMALL = 12 * 1024


def cases(setting: Setting, column: str) -> Iterator[Result]:
    """All of them, or none where nothing can be mounted."""
    unshare = mounting()
    if unshare is None:
        yield Result("read-only directories, full disks", "", column, "not tested: cannot mount here", is_judged=False)
        return
    setting.reference([KNOWN, NEW])
    yield from read_only(setting, column, unshare)
    yield full(setting, column, unshare, ours=False)
    if column == "opkeep":
        yield full(setting, column, unshare, ours=True)
        yield full_from_the_start(setting, column, unshare)


def mounting() -> tuple[str, ...] | None:
    """The command that gives a program mounts of its own."""
    for command in (("unshare", "-m"), ("unshare", "-rm")):
        try:
            found = subprocess.run([*command, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
        except OSError:
            return None
        if found.returncode == 0:
            return command
    return None


def read_only(setting: Setting, column: str, unshare: tuple[str, ...]) -> Iterator[Result]:
    """A kernel that is in the directories, and one that is not: nothing can be written."""
    site = setting.site(column)
    with workers(site) as (writer,):
        writer.compile(KNOWN)
    everything = wrap(unshare, f"mount --bind {site.root} {site.root} && mount -o remount,bind,ro {site.root}")
    site.extra["HARNESS_COMPILES"] = "/dev/null"
    with workers(site, 1, everything) as (worker,):
        known, new = worker.compile(KNOWN), worker.compile(NEW)
    wrong = check([known], setting.references[KNOWN])
    text = known.state(setting.references[KNOWN])
    yield Result("read-only directories, kernel known", "", column, text, wrong)
    yield Result("read-only directories, kernel new", "", column, outcome(new, setting), allowed(new, setting))
    if column == "opkeep":
        site = setting.site(column)
        store = wrap(unshare, f"mount --bind {site.store} {site.store} && mount -o remount,bind,ro {site.store}")
        with workers(site, 1, store) as (worker,):
            new = worker.compile(NEW)
        wrong = check([new], setting.references[NEW], compiles=1)
        yield Result("our store is read-only, kernel new", "", column, outcome(new, setting), wrong)


def full(setting: Setting, column: str, unshare: tuple[str, ...], ours: bool) -> Result:
    """A disk is full when a process compiles its second kernel; it and others ask again when there is room."""
    site = setting.site(column)
    small = site.store if ours else site.cache
    filler = small / "filler"
    with workers(site, 1, wrap(unshare, f"mount -t tmpfs -o size=1m,mode=755 none {small}")) as (worker,):
        worker.compile(KNOWN)
        inside(worker, f"cat /dev/zero > {filler} 2>/dev/null || true")
        first = worker.compile(NEW)
        inside(worker, f"rm {filler}")
        later = [worker.compile(NEW)]
        with workers(site, 2, ("nsenter", "-t", str(worker.pid), "-m")) as others:
            later += [other.compile(NEW) for other in others]
    reference = setting.references[NEW]
    wrong = check([first] if ours else [], reference) + allowed(first, setting) + check(later, reference)
    wrong += ["the third start with room compiled again"] if later[-1].compiles else []
    again = count(sum(start.compiles for start in later))
    text = f"{outcome(first, setting)}; with room again: {outcome(later[0], setting)}, {again} in 3 starts"
    name = "the disk of our store is full" if ours else "the disk of the framework's directory is full"
    return Result(name, "", column, text, wrong)


def full_from_the_start(setting: Setting, column: str, unshare: tuple[str, ...]) -> Result:
    """No store can be made when a process starts; others start with room."""
    site = setting.site(column)
    script = f"mount -t tmpfs -o size={SMALL},mode=755 none {site.store}"
    with workers(site, 1, wrap(unshare, script)) as (worker,):
        first = worker.compile(NEW)
        inside(worker, f"mount -o remount,size=1m {site.store}")
        with workers(site, 2, ("nsenter", "-t", str(worker.pid), "-m")) as others:
            later = [other.compile(NEW) for other in others]
    wrong = check([first], setting.references[NEW]) + check(later, setting.references[NEW], compiles=1)
    again = count(sum(start.compiles for start in later))
    text = f"{outcome(first, setting)}, not kept; with room again: {again} in 2 starts"
    return Result("the disk of our store is full from the start", "", column, text, wrong)


def inside(worker: Worker, script: str) -> None:
    """Run a script where the mounts of a worker are."""
    subprocess.run(["nsenter", "-t", str(worker.pid), "-m", "sh", "-c", script], check=True)


def wrap(unshare: tuple[str, ...], script: str) -> tuple[str, ...]:
    """The command that makes mounts, then starts what follows it."""
    return (*unshare, "sh", "-c", f'{script} && exec "$@"', "sh")


def outcome(start: Start, setting: Setting) -> str:
    """What a process got for the new kernel."""
    return start.state(setting.references[NEW])


def allowed(start: Start, setting: Setting) -> list[str]:
    """What is wrong: without a place for its files, a kernel may fail as it does with the stock manager."""
    found = outcome(start, setting)
    return [] if found in ("right", "OSError") else [f"got: {found} {start.text[:200]}"]
