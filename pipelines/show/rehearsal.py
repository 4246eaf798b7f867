"""The end of a rehearsal: how far each output lies off the truth, why, and what would help."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from weir.pipelines.rehearse.clipping_loss import BoundLoss, ClippingLoss
from weir.pipelines.rehearse.rehearse import Rehearsal
from weir.pipelines.rehearse.scores import Score
from weir.pipelines.show.users import CAPS
from weir.pipelines.terminal import heading, indent, number, table

STYLES = {"useful": "green", "rough": "yellow", "useless": "bold red", "no truth": "dim"}
SHOWN = 40
"""Outputs that a terminal is told of."""


def render(found: Rehearsal, out: Console) -> None:
    """Prints what a rehearsal found. All of it is of made-up or public events."""
    for part in sections(found):
        out.print(part)


def sections(found: Rehearsal) -> Iterator[RenderableType]:
    """The parts of the page, in order."""
    if found.scores:
        yield heading("How far releases lie off the truth (of 19 in 20 values)")
        yield indent(errors(found.scores))
        yield indent(Text(told(found), style="dim"))
    if found.clipped:
        yield heading("What clips take")
        yield indent(clips(found.clipped))
    if found.caps:
        yield heading("What caps on users take")
        yield indent(caps(found.caps))
    if found.advised:
        yield heading(f"What would bring an error within {100 * found.within:g} %, one at a time")
        yield indent(remedies(found))
    if found.grid is not None and found.grid.shares:
        yield heading("Error under other epsilons and longer ticks")
        yield indent(grid(found))


def errors(scores: tuple[Score, ...]) -> RenderableType:
    """A row for each output."""
    rows = table(
        "output", "over", "true value", "band", "noise", "clip", "error", "share", "in band", "",
        right=("true value", "band", "noise", "clip", "error", "share", "in band"),
    )  # fmt: skip
    for one in scores[:SHOWN]:
        rows.add_row(
            one.name,
            short(one.over),
            number(one.true),
            f"\N{PLUS-MINUS SIGN} {number(one.band)}" if one.band > 0 else "-",
            *(_known(value) for value in (one.noise, one.clip, one.error)),
            percent(one.share) if one.true > 0 else "-",
            percent(one.inside) if math.isfinite(one.inside) else "-",
            Text(one.grade, style=STYLES[one.grade]),
        )
    return rows


def told(found: Rehearsal) -> str:
    """What the columns are."""
    lines = [
        "true value: its mean size. band: half the 95 % band that the release tells. noise: off "
        "what clip and caps leave; clip: of that off the truth; error: both. useful: an error of "
        f"{100 * found.within:g} % of the true value or less; useless: as large as the value."
    ]
    lines.extend(
        f"{one.name}: {one.missing:,} keys of the truth are not released."
        for one in found.scores[:SHOWN]
        if one.missing
    )
    if len(found.scores) > SHOWN:
        lines.append(f"{len(found.scores) - SHOWN:,} more outputs: --json has them all.")
    return "\n".join(lines)


def clips(found: tuple[ClippingLoss, ...]) -> RenderableType:
    """A row for each output with bounds."""
    rows = table("output", "bounds", "values moved", "amount lost",
                 right=("values moved", "amount lost"))  # fmt: skip
    for one in found:
        bounds = f"{one.field} [{one.bounds[0]:g}, {one.bounds[-1]:g}]"
        lost = percent(one.amount) if math.isfinite(one.amount) else "-"
        rows.add_row(one.name, bounds, f"{one.moved:,} ({percent(one.share)})", lost)
    return rows


def caps(found: tuple[BoundLoss, ...]) -> RenderableType:
    """A row for each cap as it might be: its noise, and the events that it would lose."""
    rows = table("cap", "", "is", "if it were", "noise", "events lost",
                 right=("is", "if it were", "noise", "events lost"))  # fmt: skip
    for one in found:
        if not one.cap:
            rows.add_row("all of them", "as they are", "", "", "1 x", percent(one.lost))
            continue
        rows.add_row(
            one.cap, CAPS[one.cap], f"{one.value:,}", f"{one.other:,}", f"{one.noise:.2f} x",
            percent(one.lost),
        )  # fmt: skip
    return rows


def remedies(found: Rehearsal) -> RenderableType:
    """A row for each change that would help, and for what would not."""
    rows = table("output", "over", "change", "to")
    for one in found.advised[:SHOWN]:
        name, over = one.name, short(one.over)
        for remedy in one.remedies:
            rows.add_row(name, over, remedy.field, Text(remedy.words))
            name = over = ""
    return rows


def grid(found: Rehearsal) -> RenderableType:
    """Errors beside values: a row for each output and period, a column for each epsilon."""
    assert found.grid is not None
    columns = [f"epsilon {number(one)}" for one in found.grid.epsilons]
    rows = table("output", "over", "tick", *columns, right=tuple(columns))
    for (name, over), by_period in list(found.grid.shares.items())[:SHOWN]:
        shown, spanned = name, short(over)
        for period, shares in zip(found.grid.periods, by_period, strict=True):
            if not any(map(math.isfinite, shares)):
                continue
            cells = (Text(percent(one), style=style(one, found.within)) for one in shares)
            rows.add_row(shown, spanned, period, *cells)
            shown = spanned = ""
    return rows


def style(share: float, within: float) -> str:
    """How a share is shown."""
    if not math.isfinite(share):
        return "dim"
    return STYLES["useful" if share <= within else "rough" if share < 1 else "useless"]


def short(over: int | None) -> str:
    """A span in few letters."""
    return "all" if over is None else "each tick" if over == 1 else f"{over:,} ticks"


def percent(share: float) -> str:
    """A share for people."""
    if not math.isfinite(share):
        return "-"
    return f"{100 * share:,.0f} %" if share >= 0.995 else f"{100 * share:.2g} %"


def _known(value: float) -> str:
    return number(value) if math.isfinite(value) else "-"
