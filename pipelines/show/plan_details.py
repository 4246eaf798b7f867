"""What ``weir plan --full`` adds: the guarantee in words, prices, sizes, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from weir.dpcore.noise.noise import is_pure
from weir.dpcore.plan import Plan
from weir.dpcore.pricing.choice import loss_words
from weir.pipelines.show import users
from weir.pipelines.terminal import (
    bullet,
    bytes_text,
    count,
    long_ticks,
    number,
    pairs,
    span,
    table,
)


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


def _unbounded(epsilon: float | None) -> bool:
    return epsilon is None or math.isinf(epsilon)
