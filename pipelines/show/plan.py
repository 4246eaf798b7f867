"""``weir plan`` for a person: the guarantee and the errors first, then what else there is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from weir.dpcore.accounting.statement import shown, user_conditions
from weir.dpcore.config.ticks import show_ticks
from weir.dpcore.noise.noise import is_pure
from weir.dpcore.plan import Plan
from weir.dpcore.pricing.choice import loss_words
from weir.dpcore.words import left_out_lines
from weir.pipelines.ledger.balance import Balance
from weir.pipelines.show import users
from weir.pipelines.terminal import (
    bullet,
    bytes_text,
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
    for note in (*plan.notes, *left_out(plan), *weights(plan)):
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


def details(plan: Plan, facts: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[RenderableType]]]:
    """Titles and parts of what ``--full`` adds."""
    yield "The guarantee in words", [Text(plan.guarantee.statement)]
    if facts["user"] is not None and not plan.clock.once:
        yield "Privacy loss of a user", [users.promises(facts)]
    if not plan.clock.once:
        same = facts["for_ever"]
        lasting = [] if same is None else [Text(for_ever(plan, same), style="dim")]
        yield "Privacy loss over time", [expiration(plan, facts), *lasting]
    if plan.facts:
        yield "The model", [facts_table(plan.facts)]
    if plan.groupings:
        note = Text(f"{expected(plan)}An event counts in all of them.", style="dim")
        yield "Groupings, each with its share of the budget", [groupings(plan), note]
    if facts["user"] is not None and facts["user"]["cap_prices"]:
        lines = filter(None, (users.in_order(plan), users.LOST))
        parts = [users.caps(facts), *(Text(line, style="dim") for line in lines)]
        yield "What contribution bounds cost", parts
    why = [Text(facts["choice"], style="dim")] if facts["choice"] else []
    yield "Mechanisms, priced for the same guarantee", [alternatives(plan, facts), *why]
    yield "Size", [size(plan, facts)]
    counted = [bullet(line, inside=0) for line in refused(plan)]
    yield "Refused, and counted for the operator only", counted


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
    if plan.where:
        rows.add_row("of the events where", plan.where)
    if plan.discovery is not None:
        rows.add_row("keys", private_keys(facts["discovery"], plan.clock.once))
    return rows


def expiration(plan: Plan, facts: Mapping[str, Any]) -> RenderableType:
    """Epsilon against everything released within n ticks of an event."""
    within = "against all releases within"
    if plan.person is not None:
        within += ", from a period's last tick on,"
    rows = table(within, "that is", "epsilon", "delta", right=("epsilon",))
    for row in facts["expiration"]:
        ticks, epsilon = row["ticks"], row["epsilon"]
        if ticks is None:
            rows.add_row("for ever", "", number(epsilon), f"{row['delta']:g}")
            continue
        shown = "none: no protection" if _unbounded(epsilon) else number(epsilon)
        rows.add_row(
            count(ticks, "tick"),
            long_ticks(plan.clock, ticks),
            shown,
            "" if _unbounded(epsilon) else f"{row['delta']:g}",
        )
    return rows


def for_ever(plan: Plan, same: Mapping[str, Any]) -> str:
    """The plan that costs the same by the end of the clock and has no horizon."""
    unit = plan.config.algorithm.shown(same["output"]).what
    ticks = same["ticks"]
    within = "By the end of the clock" if ticks is None else f"Within {count(ticks, 'tick')}"
    return (
        f"{within} the loss is epsilon {number(same['epsilon'])}. The same for ever: "
        f"protect_for: all at epsilon {number(same['epsilon'])} has noise "
        f"{number(same['noise'])} where this plan has {number(same['now'])} ({same['output']}, "
        f"{unit}, {span(same['over'])})."
    )


def facts_table(facts: Iterable[tuple[str, str]]) -> RenderableType:
    """Name and words of each fact."""
    return pairs((name, Text(words)) for name, words in facts)


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


def groupings(plan: Plan) -> RenderableType:
    """Each grouping with its share, and its noise next to what it would be alone."""
    rows = table(
        "by", "keys", "share", "epsilon, alone", "noise", right=("keys", "share", "epsilon, alone")
    )
    for grouping in plan.groupings:
        rows.add_row(
            ", ".join(grouping.columns) or "nothing: the total",
            "-" if grouping.keys is None else f"{grouping.keys:,}",
            f"{100 * grouping.share:.3g} %",
            number(grouping.epsilon),
            f"{grouping.noise:.2f} x that of a plan of its own",
        )
    return rows


def expected(plan: Plan) -> str:
    """How a note on groupings begins where errors depend on the number of events."""
    return "" if plan.config.expect is None else "expect.events is of a key of the finest. "


def alternatives(plan: Plan, facts: Mapping[str, Any]) -> RenderableType:
    """Every mechanism that was priced; of two pure noises of one mechanism the better."""
    rows = table(
        "", "mechanism", "noise", "error", "state per key", "loss", "epsilon at 10 W", "",
        right=("error", "state per key", "epsilon at 10 W"),
    )  # fmt: skip
    pure, shown = set[str](), set[str]()
    for row in facts["alternatives"]:  # the best first
        if is_pure(row.get("noise", "")):
            if row["mechanism"] in pure:
                continue
            pure.add(row["mechanism"])
        able = row["score"] is not None
        if plan.clock.once and not row["chosen"] and (row.get("noise") in shown or not able):
            continue  # of a single tick all mechanisms of a noise are one
        shown.add(str(row.get("noise")))
        later = row.get("epsilon_10w")
        none = able and later is None
        rows.add_row(
            ">" if row["chosen"] else "",
            Text(row["mechanism"], style="bold" if row["chosen"] else ""),
            str(row.get("noise", "")).replace("_", " "),
            f"{row['score']:.2f} x" if able else "-",
            bytes_text(row["state_bytes_per_key"]) if able else "-",
            loss_words(row["loss"]) if able and row["loss"] is not None else "-",
            ("unbounded" if none else number(later)) if able else "-",
            Text(", ".join(filter(None, ("chosen" * row["chosen"], row["note"]))), style="dim"),
        )
    return rows


def size(plan: Plan, facts: Mapping[str, Any]) -> RenderableType:
    """Keys, blocks, ticks, state."""
    keys, ticks = facts["keys"], facts["ticks"]
    state = facts["state_bytes_per_key"]
    rows = pairs()
    result = facts.get("discovery")
    if result is None:
        rows.add_row("keys", f"{keys:,}" if keys is not None else "as they are observed")
    elif "splits" in result:
        rows.add_row("share", splits(result["splits"]))
    if not plan.clock.once:
        rows.add_row("ticks", f"{ticks:,}" if ticks is not None else "without end")
    total = f", {bytes_text(state * keys)} in all" if keys else ""
    rows.add_row("state", f"{bytes_text(state)} per key{total}, {growth(plan)}")
    rows.add_row("blocks", f"{facts['blocks']:,} (groups of keys that are stepped together)")
    if keys is not None and ticks is not None:
        rows.add_row("releases", f"{keys * ticks * len(facts['releases']):,} rows")
    return rows


def private_keys(found: Mapping[str, Any], once: bool = False) -> str:
    """When a key is found. once: whether there is a single release."""
    diff = found["min_users"]
    least = "" if diff == 1 else f"{diff:,} users{'' if once else ' in a period'}, and "
    first, last = (number(found[at]) for at in ("needed_first", "needed_last"))
    until = "" if first == last else f" at its first tick, {last} at its last,"
    paid = "" if found["released"] else "; that count takes its share of the budget"
    some = "" if found["sample"] == 1 else f"; {100 * found['sample']:g} % of all keys can be"
    goes = "" if "retire" not in found else f"; {going(found['retire'])}"
    return f"found with {least}a noisy count of them of {first}{until} or more{paid}{some}{goes}"


def splits(priced: Iterable[Mapping[str, float]]) -> str:
    """What other shares of the budget for that count would do."""
    each = (
        f"{item['share']:g}: {number(item['needed_last'])} users, {item['noise']:.2f} x the noise"
        for item in priced
    )
    return f"of the budget, for finding keys (key.discover.share); with {'; '.join(each)}"


def going(retire: Mapping[str, int]) -> str:
    """When a key goes again."""
    below, after = retire["below"], retire["after"]
    row = "a period" if after == 1 else f"{after:,} periods in a row"
    return f"gone after {row} of fewer than {below:,}"


def growth(plan: Plan) -> str:
    """What the state depends on."""
    grows = plan.config.algorithm.grows
    return "at most: it grows with the events" if grows else "whatever the number of events"


def refused(plan: Plan) -> Iterator[str]:
    """Which events do not count, and why."""
    config, clock = plan.config, plan.config.clock
    if clock is not None:
        end = f" or after {clock.end}" if clock.end else ""
        yield f"events before {clock.start}{end}"
    schema = config.schema_
    keys = () if config.key is None else config.key.names
    time = None if schema.time is None else schema.time.column
    needed = [name for name in (time, *keys, schema.id, schema.unit) if name]
    unread = f", or not their {' or '.join(needed)}" if needed else ""
    yield f"records that cannot be read as such{unread}"
    if schema.arrival is not None and clock is not None:
        yield f"events that arrive more than {clock.delay} after their own time"
    if config.key is not None and config.key.declared is not None:
        yield f"events whose {', '.join(keys)} is not one of the declared keys"
    if config.key is not None and config.key.discover is not None:
        most = config.key.discover.max_bytes
        yield f"events whose {', '.join(keys)} has more than {most:,} bytes"
    if plan.person is not None:
        yield f"events without a {schema.unit}, which belong to no user"
        yield "events of a user beyond the contribution bounds: no dead letters, but in no sum"
        if schema.id is not None:
            cell = "key" if clock is None else "key and tick"
            yield f"events whose {schema.id} the same user has in the same {cell} already"
    elif config.schema_.id is not None:
        horizon = plan.circumstances.id_horizon
        since = "" if horizon is None else f" in the {count(horizon, 'tick')} before"
        yield f"events whose {config.schema_.id} has been seen before{since}"
    yield from config.algorithm.refused()


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


def _unbounded(epsilon: float | None) -> bool:
    return epsilon is None or math.isinf(epsilon)
