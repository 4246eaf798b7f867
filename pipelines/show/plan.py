"""``weir plan`` for a person: the guarantee and the errors first, then what else there is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from weir.dpcore.accounting.statement import shown, user_conditions
from weir.dpcore.config.ticks import show_ticks
from weir.dpcore.plan import Plan
from weir.dpcore.words import left_out_lines
from weir.pipelines.ledger.balance import Balance
from weir.pipelines.show.plan_details import details, private_keys
from weir.pipelines.terminal import (
    bullet,
    count,
    heading,
    indent,
    long_ticks,
    number,
    pairs,
    sentence,
    span,
    table,
)

LITTLE, WEIGHED = 0.005, 6
"""Of its noise, what a weight must change to be said; and outputs of which it is, at most."""


def render(
    plan: Plan,
    out: Console,
    more: tuple[str, ...] = (),
    budget: Balance | None = None,
    full: bool = True,
) -> None:
    """Prints a plan. Reads no data: everything shown is public.

    more: warnings of the job. budget: how its ledger stands; None: it has none. full: all of it;
    else the guarantee, the errors, and what a reader is warned of.
    """
    for part in sections(plan, plan.to_json(), more, budget, full):
        out.print(part)


def sections(
    plan: Plan,
    facts: Mapping[str, Any],
    more: tuple[str, ...] = (),
    budget: Balance | None = None,
    full: bool = True,
) -> Iterator[RenderableType]:
    """The parts of the page, in order."""
    yield Text.assemble((plan.name, "bold"), f"  plan {plan.digest[:12]}, version {plan.version}")
    yield heading("The guarantee")
    yield indent(promise(plan))
    if budget is not None:
        yield heading(f"The budget of {budget.scope}")
        yield indent(Text(f"{sentence(budget.words)}.", style="" if budget.fits else "bold red"))
        if not budget.fits:
            yield indent(Text("A run would be refused.", style="bold red"))
    yield heading("What is released, and how exact it is")
    yield indent(schedule(plan, facts))
    yield Text("")
    yield indent(releases(plan))
    for note in (*plan.notes, *left_out(plan), *weights(plan), *sizes(plan)):
        yield indent(Text(note, style="dim"))
    rest = list(details(plan, facts))
    if full:
        for title, parts in rest:
            yield heading(title)
            yield from map(indent, parts)
    for title, lines, style in (
        ("Not covered by the guarantee", () if full else conditions(plan), ""),
        ("Warnings", (*plan.warnings, *more), "yellow"),
    ):
        if lines:
            yield heading(title)
            yield from (bullet(line, style) for line in lines)
    if not full:
        names = "; ".join(f"{title[0].lower()}{title[1:]}" for title, _ in rest)
        yield Text("")
        yield indent(Text(f"--full adds: {names}.", style="dim"))


def promise(plan: Plan) -> RenderableType:
    """The guarantee in numbers, in at most eight lines."""
    guarantee = plan.guarantee
    rows = pairs()
    rows.add_row("epsilon, delta", f"{number(guarantee.epsilon)}, {guarantee.delta:g}")
    rows.add_row("protects", f"one {protected(plan)} ({guarantee.relation})")
    if not plan.clock.once:
        rows.add_row("protection horizon", lasting(plan))
    if guarantee.event is not None:
        bound = "where no contribution bound is binding"
        rows.add_row("one event", f"epsilon {number(guarantee.event)}, {bound}")
    every = guarantee.every_period
    if every is not None:
        rows.add_row("the whole clock", f"epsilon {shown(every.epsilon)}, {every.words}")
    horizon = plan.circumstances.id_horizon
    if guarantee.copies and horizon is not None:
        text = "; ".join(
            f"{row.count} copies that count: epsilon {number(row.epsilon)}"
            for row in guarantee.copies
        )
        length = long_ticks(plan.clock, horizon)
        rows.add_row("an id is remembered", f"for {count(horizon, 'tick')} ({length}); {text}")
    return rows


def lasting(plan: Plan) -> str:
    """The protection horizon, and the loss after it."""
    window, rows = plan.guarantee.window, plan.guarantee.expiration
    if window is None:
        return "for ever: the guarantee does not expire"
    since = "" if plan.person is None else " from a period's last tick on"
    text = f"{count(window, 'tick')} ({long_ticks(plan.clock, window)}){since}"
    last = rows[-1]
    if math.isinf(last.epsilon):
        return f"{text}; no protection after it"
    if last.ticks is None or last.epsilon <= plan.guarantee.epsilon * (1 + 1e-9):
        return f"{text}; later releases add nothing"
    ends = plan.clock.ticks is not None and last.ticks >= plan.clock.ticks
    when = "by the end of the clock" if ends else f"within {count(last.ticks, 'tick')}"
    return f"{text}; epsilon {number(last.epsilon)} {when}"


def conditions(plan: Plan) -> tuple[str, ...]:
    """What the guarantee takes for granted, and what it leaves out, in sentences."""
    of_users = () if plan.person is None else user_conditions(plan.clock.once)
    return (*of_users, *plan.circumstances.limits)


def schedule(plan: Plan, facts: Mapping[str, Any]) -> RenderableType:
    """Of which events there are releases, and when."""
    rows = pairs()
    clock = plan.config.clock
    if clock is None:
        rows.add_row("clock", "none: all rows are one release")
    else:
        ends = f" to {clock.end}" if clock.end else ", without end"
        within = f", in {clock.zone}" if clock.zone else ""
        rows.add_row("clock", f"a tick every {clock.period} from {clock.start}{ends}{within}")
    every = plan.config.release_every
    if every is not None:
        rows.add_row("releases", f"new every {count(every, 'tick')}, repeated in between")
    if clock is not None and (plan.config.schema_.arrival is not None or clock.delay != "0s"):
        rows.add_row("counts an event", f"that arrives within {clock.delay} of its own time")
    lookup = plan.config.lookup
    if lookup is not None:
        rows.add_row(
            "with columns of a table",
            f"{', '.join(lookup.add)} by {', '.join(lookup.on)} from {lookup.public}, which is "
            f"public (sha256 {lookup.table.digest[:12]})",
        )
    if plan.where:
        rows.add_row("of the events where", plan.where)
    if plan.discovery is not None:
        rows.add_row("keys", private_keys(facts["discovery"], plan.clock.once))
    return rows


def releases(plan: Plan) -> RenderableType:
    """Every output with the worst error of its noise, in its own unit."""
    spans = () if plan.clock.once else ("over",)
    rows = table(
        "name", "what", *spans, "values", "noise (std)", "95 % margin",
        right=("values", "noise (std)", "95 % margin"),
    )  # fmt: skip
    algorithm, ticks, width = plan.config.algorithm, plan.ticks_to_look_at(), plan.band
    for info in plan.outputs:
        stddev, mark = algorithm.expected_error(info, ticks)
        known = not math.isnan(stddev)
        rows.add_row(
            info.name,
            algorithm.shown(info.name).what,
            *(() if plan.clock.once else (span(info.over),)),
            f"{info.dimension:,}",
            number(stddev) + mark if known else "-",
            f"± {number(width * stddev)}{mark}" if known else "-",
        )
    return rows


def left_out(plan: Plan) -> list[str]:
    """What bounds keep out of each output, in a sentence."""
    return left_out_lines(
        (out.name, plan.bias_words(out.name), math.isfinite(out.stddev_worst))
        for out in plan.outputs
    )


def sizes(plan: Plan) -> list[str]:
    """Which public size would let the plan mark what noise hides; none where it has it."""
    if plan.config.expect is not None or not plan.config.aggregates:
        return []
    each = "a key has" if plan.clock.once else "a key has in a tick"
    return [
        "Which outputs noise hides depends on their size: add expect: {events: N}, the events that "
        f"{each}, and the plan marks them."
    ]


def weights(plan: Plan) -> list[str]:
    """What the weights of outputs buy, in a sentence."""
    prices = [price for price in plan.weight_prices if abs(price.own - 1) > LITTLE]
    if not prices:
        return []
    each = [
        f"{price.output} {price.own:.2f} x, others up to {price.others:.2f} x"
        for price in prices[:WEIGHED]
    ]
    return [f"Twice the weight of an output changes its noise: {'; '.join(each)}."]


def protected(plan: Plan) -> str:
    """The privacy unit: event, or user in a period."""
    unit, per = plan.guarantee.unit, plan.config.privacy.per
    if plan.person is None or per is None:
        return unit
    return unit if per == "all" else f"{unit} in {per}"


def one_line(plan: Plan) -> str:
    """The guarantee in one line, for the end of a run."""
    guarantee = plan.guarantee
    window = (
        ""
        if plan.clock.once
        else ", protection horizon: for ever"
        if guarantee.window is None
        else f", protection horizon {show_ticks(plan.clock, guarantee.window)}"
    )
    horizon = plan.circumstances.id_horizon
    again = (
        f"; a copy more than {count(horizon, 'tick')} after its event is another event"
        if guarantee.copies and horizon is not None
        else ""
    )
    every = guarantee.every_period
    always = "" if every is None else f"; {every.words}: epsilon {number(every.epsilon)}"
    return (
        f"epsilon {number(guarantee.epsilon)}, delta {guarantee.delta:g}, "
        f"per {protected(plan)}{window}{again}{always}"
    )
