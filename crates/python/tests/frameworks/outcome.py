"""What happened in a case, in words, and whether that is right for ours."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from processes import Start


@dataclass
class Result:
    """A cell of the table."""

    group: str  # the row
    item: str  # what of several a row has
    column: str
    text: str
    wrong: list[str] = field(default_factory=list)  # of ours only
    facts: dict = field(default_factory=dict)
    is_judged: bool = True  # figures and cases that did not run are not

    def as_json(self) -> dict:
        """The result, with a verdict for ours only: the stock column shows what is, whatever it is."""
        fields = asdict(self)
        if self.column == "stock":
            return {**fields, "wrong": [], "verdict": None}
        verdict = "ok" if self.is_judged else "not judged"
        return {**fields, "verdict": "WRONG" if self.wrong else verdict}


def describe(starts: list[Start], reference: dict[str, str]) -> str:
    """The starts of several processes after a fault, one after another."""
    states = [start.state(reference) for start in starts]
    first, last = states[0], states[-1]
    if first not in ("right", "damaged"):
        return f"{first} at every start" if last == first else f"{first} once"
    if first == "damaged":
        return "served damaged"
    if starts[-1].compiles and len(starts) > 1:
        return "compiled again at every start"
    return "compiled again" if starts[0].compiles else "healed, no compile"


def check(starts: Iterable[Start], reference: dict[str, str], compiles: int | None = None) -> list[str]:
    """What is wrong with starts that all have to get the right kernel, with so many compiles at most."""
    starts = list(starts)
    wrong = [
        f"start {number} got: {start.state(reference)} {start.text[:200]}".rstrip()
        for number, start in enumerate(starts, 1)
        if start.state(reference) != "right"
    ]
    total = sum(start.compiles for start in starts)
    if compiles is not None and total > compiles:
        wrong.append(f"{total} compiles, at most {compiles} expected")
    return wrong


def count(compiles: int) -> str:
    """So many compiles."""
    return "1 compile" if compiles == 1 else f"{compiles:g} compiles"
