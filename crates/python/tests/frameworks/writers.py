"""Two processes that write the files of one kernel at the same time, with different contents."""

import time
from collections.abc import Iterator

from outcome import Result, count
from processes import NoAnswer, Setting, workers

KERNEL = 2000
#: The second writer compiles without optimization, so that its object differs.
OTHER_FLAGS = {"HARNESS_PTXAS_FLAGS": "--opt-level 0"}


def cases(setting: Setting, column: str) -> Iterator[Result]:
    """A stops between its object and its `.json`, B writes all of its files, A goes on."""
    objects = {"A": own_object(setting, {}), "B": own_object(setting, OTHER_FLAGS)}
    site = setting.site(column)
    gate = site.root / "gate"
    with workers(site, 3) as (a, b, reader):
        a.send(KERNEL, writer="A", gate=str(gate))
        until = time.monotonic() + 20
        while not gate.with_suffix(".reached").exists() and time.monotonic() < until:
            time.sleep(0.01)
        b.send(KERNEL, writer="B", environment=OTHER_FLAGS)
        try:
            last = b.receive(1.0)
            gate.touch()
        except NoAnswer:  # B waits for A
            gate.touch()
            last = b.receive()
        starts = [a.receive(), last, reader.compile(KERNEL)]
    pairs = [pair(objects, start.digests.get("cubin"), start.writer) for start in starts]
    mixed = [f"start {number} got {text}" for number, text in enumerate(pairs, 1) if text not in ("A's", "B's")]
    text = f"a later start gets {pairs[-1]}; {count(site.compiles())}"
    wrong = mixed + ([f"{site.compiles()} compiles"] if site.compiles() > 1 else [])
    yield Result("two writers of one kernel at a time", "", column, text, wrong, {"pairs": pairs})


def own_object(setting: Setting, environment: dict[str, str]) -> str:
    """The digest of the object that a writer makes when alone."""
    with workers(setting.site("stock")) as (worker,):
        return worker.compile(KERNEL, environment=environment).digests["cubin"]


def pair(objects: dict[str, str], found: str | None, writer: str | None) -> str:
    """Of whom object and `.json` are."""
    owner = next((name for name, own in objects.items() if own == found), "nobody")
    return f"{owner}'s" if owner == writer else f"{writer}'s `.json` with {owner}'s object"
