"""Two processes that need each other's kernels in threads which their compiles wait for."""

from collections.abc import Iterator

from outcome import Result, check, count
from processes import Setting, workers

KERNELS = (400, 401)
#: A wait in a process that compiles ends after half a minute. The rest is for the compiles.
LIMIT = 45.0


def crossed(setting: Setting, column: str) -> Iterator[Result]:
    """Each compiles one kernel, and in the middle of it the other's in a thread, which it joins."""
    if setting.quick:
        # It takes half a minute, and the tests of opkeep-embed have it with another limit.
        return
    setting.reference(list(KERNELS))
    site = setting.site(column)
    meet = [str(site.root / f"begun-{kernel}") for kernel in KERNELS]
    with workers(site, 3) as (one, other, last):
        one.send(KERNELS[0], nested=KERNELS[1], meet=meet)
        other.send(KERNELS[1], nested=KERNELS[0], meet=meet[::-1])
        starts = [one.receive(), other.receive()]
        compiles = site.compiles()
        later = [last.compile(kernel) for kernel in KERNELS]
    waited = max(start.seconds for start in starts)
    pairs = list(zip([*starts, *later], KERNELS * 2))
    wrong = [text for start, kernel in pairs for text in check([start], setting.references[kernel])]
    wrong += ["a later start compiled again"] if any(start.compiles for start in later) else []
    wrong += [f"they ended after {waited:.1f} s"] if waited > LIMIT else []
    text = f"ended after {waited:.1f} s, {count(compiles)}"
    yield Result("two processes that wait for each other in threads", "", column, text, wrong, {"waited": waited})
