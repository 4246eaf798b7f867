"""What ``weir rehearse``, ``weir advise`` and ``weir audit`` print."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from weir.dpcore.config.schema import DryRun
from weir.pipelines.audit.attack import Report
from weir.pipelines.audit.audit import Audit
from weir.pipelines.rehearse.bounds import UNEVEN
from weir.pipelines.rehearse.estimates import EstimateScore
from weir.pipelines.rehearse.model_scores import AS_GOOD, ModelScore
from weir.pipelines.rehearse.rehearse import Rehearsal
from weir.pipelines.rehearse.remedies import Advice
from weir.pipelines.rehearse.scores import BoundLoss, ClippingLoss, Score
from weir.pipelines.rehearse.search import MOST_EPSILON, Candidate
from weir.pipelines.show.users import CAPS, CAPS_ONCE
from weir.pipelines.terminal import heading, indent, number, table


def render_advice(advice: Advice, out: Console) -> None:
    """Prints what reaches the targets, or what comes nearest."""
    for part in advice_sections(advice):
        out.print(part)


def advice_sections(advice: Advice) -> Iterator[RenderableType]:
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
            "\nHalf the 95 % margin at the worst tick, from noise alone: `weir rehearse` shows "
            "what the clip takes.",
            style="dim",
        )
    )


def _epsilon(found: Candidate) -> str:
    if not found.reaches:
        return f"none up to {MOST_EPSILON:g} is enough"
    weak = " (a weak guarantee)" if found.value > 10 else ""
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


STYLES = {"useful": "green", "rough": "yellow", "useless": "bold red", "no truth": "dim"}
SHOWN = 40
"""Outputs that a terminal is told of."""


def render(found: Rehearsal, out: Console) -> None:
    """Prints what a dry run found. All of it is of synthetic or public events."""
    for part in sections(found):
        out.print(part)


def sections(found: Rehearsal) -> Iterator[RenderableType]:
    """The parts of the page, in order."""
    if found.scores:
        yield heading("How far releases lie off the truth (of 19 in 20 values)")
        yield indent(errors(found.scores))
        yield indent(Text(told(found), style="dim"))
    if found.models:
        yield heading("What models keep of the loss that they could explain")
        yield indent(explained(found.models))
        yield indent(Text(EXPLAINED, style="dim"))
    if found.estimates:
        yield heading("How far estimates lie off what bounds leave (weir estimate)")
        yield indent(filtered(found.estimates))
    if found.dry_run is not None:
        yield heading("What bounds took of these events, for plan, report and statement")
        yield indent(Text("Add to the config:", style="dim"))
        section = section_of(found.dry_run)
        yield indent(Text(section, no_wrap=True, overflow="ignore"))
    if found.clipped:
        yield heading("What clips take")
        yield indent(clips(found.clipped))
    if found.caps:
        yield heading("What contribution bounds take")
        yield indent(caps(found.caps, found.result.plan.clock.once))
        yield indent(Text(thirds(found), style="dim"))
    if found.advised:
        yield heading(f"What would bring an error within {100 * found.within:g} %, one at a time")
        yield indent(remedies(found))
    if found.grid is not None and found.grid.shares:
        yield heading("Error under other epsilons and longer ticks")
        yield indent(grid(found))


def section_of(dry_run: DryRun) -> str:
    """As a config has it."""
    lost = ", ".join(f"{name}: {share:g}" for name, share in dry_run.lost.items())
    file = json.dumps(dry_run.file)
    return f"dry_run: {{file: {file}, date: {dry_run.date}, lost: {{{lost}}}}}"


def errors(scores: tuple[Score, ...]) -> RenderableType:
    """A row for each output."""
    rows = table(
        "output", "over", "true value", "margin", "noise", "clip", "error", "share",
        "in margin", "",
        right=("true value", "margin", "noise", "clip", "error", "share", "in margin"),
    )  # fmt: skip
    for score in scores[:SHOWN]:
        rows.add_row(
            score.name,
            short(score.over),
            number(score.true),
            f"\N{PLUS-MINUS SIGN} {number(score.band)}" if score.band > 0 else "-",
            *(_known(value) for value in (score.noise, score.clip, score.error)),
            percent(score.share) if score.true > 0 else "-",
            percent(score.inside) if math.isfinite(score.inside) else "-",
            Text(score.grade, style=STYLES[score.grade]),
        )
    return rows


EXPLAINED = (
    "Mean losses of these events in scaled units, by the models of the last tick; numbers that are "
    "predicted are clipped to their range, as they are when models learn. best: the least "
    "of a fit without privacy and of this config without noise. share: what the model gains over a "
    "constant, of what the best does: 0 is a constant, 1 the best."
)


def explained(scores: tuple[ModelScore, ...]) -> RenderableType:
    """A row for each target of a model."""
    names = ("events", "a constant", "model", "without noise", "best", "share",
             "share without noise")  # fmt: skip
    rows = table("target", "loss", *names, "", right=names)
    for score in scores[:SHOWN]:
        losses = (score.constant, score.model, score.quiet, score.best)
        poor = score.share < AS_GOOD or score.model >= score.constant
        shares = [f"{share:.2f}" if math.isfinite(share) else "-"
                  for share in (score.share, score.quiet_share)]  # fmt: skip
        remark = Text("a constant would do as well" if poor else "", style=STYLES["useless"])
        shown = [_known(loss) for loss in losses]
        rows.add_row(score.target, score.loss, f"{score.events:,}", *shown, *shares, remark)
    return rows


def filtered(scores: tuple[EstimateScore, ...]) -> RenderableType:
    """A row for each output that has estimates."""
    names = ("release", "live estimate", "in hindsight", "in interval")
    rows = table("output", "over", *names, right=names)
    for score in scores[:SHOWN]:
        errors = (score.release, score.live, score.hindsight)
        shown = ["-" if error is None else number(error) for error in errors]
        rows.add_row(score.name, short(score.over), *shown, percent(score.inside))
    return rows


def told(found: Rehearsal) -> str:
    """What the columns are."""
    lines = [
        "true value: its mean size. margin: half the 95 % margin that the release tells. noise: "
        "off what clip and contribution bounds leave; clip: of that off the truth; error: both. "
        f"useful: an error of {100 * found.within:g} % of the true value or less; useless: as "
        "large as the value. in margin: about 95 % over many secrets; values of one output share "
        "noise, so that of one dry run may lie far from it."
    ]
    lines.extend(
        f"{score.name}: {score.missing:,} keys of the truth are not released."
        for score in found.scores[:SHOWN]
        if score.missing
    )
    if len(found.scores) > SHOWN:
        lines.append(f"{len(found.scores) - SHOWN:,} more outputs: --json has them all.")
    return "\n".join(lines)


def clips(found: tuple[ClippingLoss, ...]) -> RenderableType:
    """A row for each output with bounds."""
    rows = table("output", "bounds", "values moved", "amount lost",
                 right=("values moved", "amount lost"))  # fmt: skip
    for item in found:
        bounds = f"{item.field} [{item.bounds[0]:g}, {item.bounds[-1]:g}]"
        lost = percent(item.amount) if math.isfinite(item.amount) else "-"
        rows.add_row(item.name, bounds, f"{item.moved:,} ({percent(item.share)})", lost)
    return rows


def caps(found: tuple[BoundLoss, ...], once: bool = False) -> RenderableType:
    """A row for each cap as it might be: its noise, and the events that it would lose. once:
    whether there is a single release."""
    words = CAPS_ONCE if once else CAPS
    rows = table("bound", "", "is", "if it were", "noise", "events lost",
                 right=("is", "if it were", "noise", "events lost"))  # fmt: skip
    for item in found:
        if not item.cap:
            rows.add_row("all of them", "as they are", "", "", "1 x", percent(item.lost))
            continue
        rows.add_row(
            item.cap, words[item.cap], f"{item.value:,}", f"{item.other:,}", f"{item.noise:.2f} x",
            percent(item.lost),
        )  # fmt: skip
    return rows


def thirds(found: Rehearsal) -> str:
    """What early and late ticks keep; "" where bounds leave out nothing, or there is one tick."""
    early, late = found.caps[0].early, found.caps[0].late
    if early is None or late is None or not found.caps[0].lost > 0:
        return ""
    text = (
        f"The first third of a period keeps {percent(early)} of its events, the last third "
        f"{percent(late)}"
    )
    if early - late < UNEVEN:
        return f"{text}."
    return (
        f"{text}: bounds are used up in order of time, so that a series that does not change "
        "falls. Raise them, or write order: hash (files and frames)."
    )


def remedies(found: Rehearsal) -> RenderableType:
    """A row for each change that would help, and for what would not."""
    rows = table("output", "over", "change", "to")
    for item in found.advised[:SHOWN]:
        name, over = item.name, short(item.over)
        for remedy in item.remedies:
            rows.add_row(name, over, remedy.field, Text(remedy.words))
            name = over = ""
    return rows


def grid(found: Rehearsal) -> RenderableType:
    """Errors next to values: a row for each output and period, a column for each epsilon."""
    assert found.grid is not None
    columns = [f"epsilon {number(epsilon)}" for epsilon in found.grid.epsilons]
    rows = table("output", "over", "tick", *columns, right=tuple(columns))
    for (name, over), by_period in list(found.grid.shares.items())[:SHOWN]:
        shown, spanned = name, short(over)
        for period, shares in zip(found.grid.periods, by_period, strict=True):
            if not any(map(math.isfinite, shares)):
                continue
            cells = (Text(percent(share), style=style(share, found.within)) for share in shares)
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


NUMBERS = ("claimed eps", "proven eps", "claimed mu", "proven mu", "trials", "s")


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return "no bound" if math.isinf(value) else f"{value:.3g}"


def _table(audits: list[Audit]) -> Table:
    built = table("releases", *NUMBERS, "by", right=NUMBERS)
    for audit in audits:
        built.add_row(
            audit.what,
            _number(audit.claim.epsilon),
            _number(audit.proven),
            _number(audit.claim.mu),
            _number(audit.proven_mu),
            f"{audit.trials:,}",
            f"{audit.seconds:.1f}",
            audit.by,
            style="bold red" if audit.broken else None,
        )
    return built


def render_audit(report: Report, out: Console) -> None:
    """A table of audits, and what else was found."""
    out.print(heading(f"{report.name}: audited from bytes to the sink"))
    for note in report.notes:
        out.print(f"Note: {note}")
    if report.audits:
        for change in dict.fromkeys(audit.change for audit in report.audits):
            mine = [audit for audit in report.audits if audit.change == change]
            out.print(f"\nNeighbours: {change}")
            out.print(_table(mine))
        out.print(
            "\nproven: what an attacker who sees everything else shows with 95 % confidence, at "
            "the claim's delta: a lower bound. The truth lies between it and the claim."
        )
    if report.isolation is not None:
        result = report.isolation
        out.print(
            f"Bytes: records malformed in {len(result.forms)} ways moved {result.moved} of "
            f"{result.bystanders} keys that they do not belong to; a run took "
            f"{result.seconds[0]:.2f} s with them and {result.seconds[1]:.2f} s without "
            "(measured, not guaranteed)."
        )
    for words in report.broken:
        out.print(f"BROKEN: {words}", style="bold red")
    if not report.broken:
        out.print("No claim was broken.")
