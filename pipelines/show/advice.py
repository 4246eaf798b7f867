"""What ``weir advise`` prints."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from weir.pipelines.rehearse.advise import Advice
from weir.pipelines.rehearse.search import MOST_EPSILON, Candidate
from weir.pipelines.terminal import heading, indent, number, table


def render(advice: Advice, out: Console) -> None:
    """Prints what reaches the targets, or what comes nearest."""
    for part in sections(advice):
        out.print(part)


def sections(advice: Advice) -> Iterator[RenderableType]:
    """The parts of the page, in order."""
    yield Text(advice.config.name, style="bold")
    yield heading("Targets, and what the config gives")
    rows = table("output", "asked", "as it is", "", right=("asked", "as it is"))
    for target, half in zip(advice.targets, advice.now.halves, strict=True):
        fine = half <= target.half
        style = "green" if fine else "yellow"
        rows.add_row(target.words, _half(target.half), _half(half),
                     Text("reached" if fine else "not reached", style=style))  # fmt: skip
    yield indent(rows)
    yield heading("What reaches all of them, one change at a time")
    rows = table("change", "to", "gives")
    rows.add_row("privacy.epsilon", _epsilon(advice.epsilon), _halves(advice.epsilon))
    if advice.alone is not None:
        rows.add_row("the same, others left out", _epsilon(advice.alone), _halves(advice.alone))
    if advice.period is None:
        rows.add_row("clock.period", "cannot be changed here", "")
    else:
        rows.add_row("clock.period", _period(advice.period), _halves(advice.period))
    rows.add_row("aggregates", _outputs(advice), _halves(advice.outputs))
    yield indent(rows)
    if not advice.reached:
        yield indent(
            Text(
                "\nCannot be reached by any of these alone. Change several, ask for longer spans "
                "(over), take a narrower clip, or protect for a shorter time (protect_for).",
                style="yellow",
            )
        )
    yield indent(
        Text(
            "\nHalf the 95 % band at the worst tick, from noise alone: what a clip takes, weir "
            "rehearse says.",
            style="dim",
        )
    )


def _epsilon(found: Candidate) -> str:
    if not found.reaches:
        return f"none up to {MOST_EPSILON:g} is enough"
    weak = " (a weak promise)" if found.value > 10 else ""
    return f"{number(found.value)} or more{weak}"


def _period(found: Candidate) -> str:
    if found.reaches:
        return f"{found.value} or longer"
    return f"none is enough; {found.value} comes nearest"


def _outputs(advice: Advice) -> str:
    gone = ", ".join(advice.left_out)
    if advice.outputs.reaches:
        return f"leave out {gone}" if gone else "all of them may stay"
    if gone:
        return f"not enough, even without {gone}"
    return "leaving out others does not help" if len(advice.config.aggregates) > 1 else "no others"


def _halves(found: Candidate) -> str:
    return ", ".join(_half(half) for half in found.halves)


def _half(half: float) -> str:
    return f"\N{PLUS-MINUS SIGN} {number(half)}" if math.isfinite(half) else "-"
