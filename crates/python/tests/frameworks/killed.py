"""Compiling processes that are killed, stopped, or fail, and others that want the same kernel."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

from outcome import Result, check, count
from processes import NoAnswer, Setting, Site, Start, Worker, workers

KILLED, WAITING, STOPPED, FAILING = 3000, 3100, 3200, 3300
#: Seconds after which a freed kernel must be had, on a machine that does other things, too.
FREED = 3.0
#: Seconds that a caller may wait for a stopped holder: it counts as stale after 30.
STOPPED_LIMIT = 35.0


def moments(setting: Setting) -> list[str]:
    """When to kill: seconds after the request, or seconds after the compiler's end."""
    by_time = [f"request {turn * 0.012:.3f}" for turn in range(10)]
    by_compiler = ["before"] + [f"end {delay:.4f}" for delay in (0, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.03)]
    return setting.some(by_time + by_compiler, 4)


def killed(setting: Setting, column: str) -> Iterator[Result]:
    """A process is killed at each moment; another asks for its kernel at once."""
    all_moments = moments(setting)
    kernels = [KILLED + turn for turn in range(len(all_moments))]
    setting.reference(kernels)
    site = setting.site(column)
    after: list[Start] = []
    before_end = 0
    with workers(site) as (other,):
        for pause in range(0, len(kernels), 2):
            turns = range(pause, min(pause + 2, len(kernels)))
            with workers(site, len(turns)) as victims:
                for victim, turn in zip(victims, turns, strict=True):
                    before_end += kill(victim, kernels[turn], all_moments[turn])
                    after.append(other.compile(kernels[turn]))
    again = sum(start.compiles for start in after)
    leftovers = len(list(site.cache.rglob("tmp.pid_*")))
    slowest = max(start.seconds for start in after)
    wrong = [
        f"{moment}: {text}"
        for moment, kernel, start in zip(all_moments, kernels, after, strict=True)
        for text in check([start], setting.references[kernel], compiles=1)
    ]
    wrong += [f"waited {slowest:.1f} s"] if slowest > FREED else []
    right = sum(start.state(setting.references[kernel]) == "right" for kernel, start in zip(kernels, after, strict=True))
    text = (
        f"{right} of {len(after)} right, {again} compiled again, at most {slowest:.2f} s; "
        f"{leftovers} temporary directories left"
    )
    facts = {"before_end": before_end, "compiled_again": again, "slowest": slowest, "leftovers": leftovers}
    yield Result("kill -9 of the compiling process", f"{len(after)} moments", column, text, wrong, facts)


def kill(victim: Worker, kernel: int, moment: str) -> bool:
    """Kill at the moment; whether the victim had not answered yet."""
    kind, _, delay = moment.partition(" ")
    if kind == "request":
        victim.send(kernel)
        time.sleep(float(delay))
        victim.signal(signal.SIGKILL)
    else:
        victim.send(kernel, environment={"HARNESS_KILL": delay or kind})
    try:
        victim.receive(5.0)
    except NoAnswer:
        return True
    victim.signal(signal.SIGKILL)
    return False


def held(site: Site, kernel: int, holder: Worker, gate: Path) -> None:
    """Have a process in the middle of a compile, until the gate exists."""
    before = site.compiles()
    holder.send(kernel, environment={"HARNESS_GATE": str(gate)}, keep=True)
    until = time.monotonic() + 20
    while site.compiles() == before and time.monotonic() < until:
        time.sleep(0.005)


def killed_with_waiters(setting: Setting, column: str) -> Iterator[Result]:
    """Two processes want the kernel whose compiling process is killed half a second later."""
    setting.reference([WAITING])
    site = setting.site(column)
    gate = site.root / "gate"
    with workers(site, 3) as (holder, *others):
        held(site, WAITING, holder, gate)
        for other in others:
            other.send(WAITING)
        time.sleep(0.5)
        moment = time.monotonic()
        holder.signal(signal.SIGKILL)
        starts = [other.receive() for other in others]
        gate.touch()
    waited = max(0.0, max(start.end for start in starts) - moment)
    compiles = sum(start.compiles for start in starts)
    wrong = check(starts, setting.references[WAITING], compiles=1)
    wrong += [f"freed after {waited:.1f} s"] if waited > FREED else []
    yield Result("the same, two others wait", "", column, freed(compiles, waited), wrong, {"waited": waited})


def failing(setting: Setting, column: str) -> Iterator[Result]:
    """The compile fails, and its process keeps the exception; another process waits."""
    setting.reference([FAILING])
    site = setting.site(column)
    gate = site.root / "gate"
    with workers(site, 2) as (holder, other):
        held(site, FAILING, holder, gate)
        other.send(FAILING)
        time.sleep(0.3)
        gate.write_text("fail")
        moment = time.monotonic()
        failed = holder.receive()
        start = other.receive()
        waited = max(0.0, start.end - moment)
    wrong = check([start], setting.references[FAILING], compiles=1)
    wrong += ["the compile did not fail"] if failed.error is None else []
    wrong += [f"freed after {waited:.1f} s"] if waited > FREED else []
    text = freed(start.compiles, waited)
    yield Result("a failed compile, its exception kept; one waits", "", column, text, wrong, {"waited": waited})


def stopped(setting: Setting, column: str) -> Iterator[Result]:
    """The compiling process is stopped; it goes on when another has got the kernel."""
    setting.reference([STOPPED])
    site = setting.site(column)
    gate = site.root / "gate"
    with workers(site, 3) as (holder, other, last):
        held(site, STOPPED, holder, gate)
        holder.signal(signal.SIGSTOP)
        start = other.compile(STOPPED)
        gate.touch()
        holder.signal(signal.SIGCONT)
        starts = [start, holder.receive(), last.compile(STOPPED)]
    wrong = check(starts, setting.references[STOPPED])
    wrong += ["a later start compiled again"] if starts[-1].compiles else []
    wrong += [f"waited {start.seconds:.1f} s"] if start.seconds > STOPPED_LIMIT else []
    text = f"waited {start.seconds:.1f} s, {count(site.compiles())}"
    yield Result("SIGSTOP of the compiling process", "", column, text, wrong, {"waited": start.seconds})


def freed(compiles: int, waited: float) -> str:
    """How many compiled and when all had the kernel."""
    return f"{compiles} compiled again, all had it after {waited:.2f} s"
