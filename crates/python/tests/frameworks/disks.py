"""Directories that cannot be written, and disks without space. They are mounted, where this user may mount."""

import subprocess
from collections.abc import Iterator

from outcome import Result, check
from processes import Setting, Start, workers

KNOWN, NEW = 4000, 4001
#: Room for a part of a group of files.
SMALL = 12 * 1024


def cases(setting: Setting, column: str) -> Iterator[Result]:
    """All of them, or none where nothing can be mounted."""
    unshare = mounting()
    if unshare is None:
        yield Result("read-only directories, full disks", "", column, "not tested: cannot mount here")
        return
    setting.reference([KNOWN, NEW])
    yield from read_only(setting, column, unshare)
    yield full(setting, column, unshare, ours=False)
    if column == "opkeep":
        yield full(setting, column, unshare, ours=True)


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
    """The disk has no room for the files of a kernel; then it has, and another process starts."""
    site = setting.site(column)
    small = site.store if ours else site.cache
    script = f"mount -t tmpfs -o size={SMALL} none {small}"
    with workers(site, 1, wrap(unshare, script)) as (worker,):
        first = worker.compile(NEW)
        subprocess.run(
            ["nsenter", "-t", str(worker.pid), "-m", "mount", "-o", "remount,size=8m", str(small)], check=True
        )
        later = [worker.compile(NEW), worker.compile(NEW)]
    reference = setting.references[NEW]
    wrong = check([first] if ours else [], reference) + allowed(first, setting) + check(later, reference)
    wrong += ["compiled again with room"] if later[-1].compiles else []
    text = f"{outcome(first, setting)}; with room again: {outcome(later[0], setting)}"
    name = "the disk of our store is full" if ours else "the disk of the framework's directory is full"
    return Result(name, "", column, text, wrong)


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
