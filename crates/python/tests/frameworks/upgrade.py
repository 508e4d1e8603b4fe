"""triton-ascend with a stand-in for CANN's compiler, before and after an upgrade of CANN."""

from collections.abc import Iterator

from outcome import Result, check, count
from processes import NoAnswer, Setting, workers

UPGRADED, MARKED = 5000, 5001


def upgrade(setting: Setting, column: str) -> Iterator[Result]:
    """A kernel of CANN 8.2 is in the cache; CANN 8.5 asks for it, then 8.2 again."""
    objects = {}
    for release in ("8.2", "8.5"):
        with workers(setting.site("stock", release=release)) as (worker,):
            objects[release] = worker.compile(UPGRADED).digests
    site = setting.site(column)
    starts = []
    for release in ("8.2", "8.5", "8.5", "8.2"):
        site.release = release
        with workers(site) as (worker,):
            starts.append((release, worker.compile(UPGRADED)))
    stale = [start.state(objects[release]) != "right" for release, start in starts]
    wrong = [
        f"CANN {release}, {text}" for release, start in starts for text in check([start], objects[release])
    ]
    wrong += [f"{site.compiles()} compiles, 2 expected"] if site.compiles() != 2 else []
    text = "the kernel of CANN 8.2 is served to 8.5" if stale[1] else "compiled again for 8.5"
    text += f"; {count(site.compiles())} for 2 releases"
    yield Result("upgrade of CANN (stand-in compiler)", "", column, text, wrong, {"stale": stale})


def marker(setting: Setting, column: str) -> Iterator[Result]:
    """kill -9 in a compile, with the option that keeps a marker of failed compiles."""
    setting.reference([MARKED])
    site = setting.site(column, extra={"TRITON_ASCEND_COMPILE_SPEED_OPT": "1"})
    with workers(site, 3) as (victim, *others):
        victim.send(MARKED, environment={"HARNESS_KILL": "before"})
        try:
            victim.receive(20.0)
        except NoAnswer:
            pass
        starts = [other.compile(MARKED) for other in others]
    reference = setting.references[MARKED]
    states = [start.state(reference) for start in starts]
    if starts[0].error:
        text = f"\"{starts[0].text}\" at {'every' if starts[-1].error else 'one'} start"
    else:
        text = f"{states[0]}, {sum(start.compiles for start in starts)} compiled again"
    wrong = check(starts, reference, compiles=1)
    yield Result("kill -9 with TRITON_ASCEND_COMPILE_SPEED_OPT", "", column, text, wrong, {"states": states})
