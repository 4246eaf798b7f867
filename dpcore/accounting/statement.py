"""The privacy guarantee in sentences, for an event or for a user as the unit."""

from __future__ import annotations

import math
from typing import Any

from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import (
    NO_ASSUMPTIONS,
    Copies,
    Guarantee,
    Relation,
    RuntimeAssumptions,
)
from weir.dpcore.words import plural


def neighbours(
    relation: Relation,
    has_id: bool = False,
    has_key: bool = True,
    id_horizon: int | None = None,
    has_unit: bool = False,
    once: bool = False,
) -> str:
    """What two streams are compared; ``once``: two tables, whose events have no times.

    With ids an event is every record that carries its id; where ids are forgotten, a record that
    counts with the copies that it keeps from counting. Under ``replace_one`` the content of an
    event decides nothing about where it counts: that needs its records to be read as records, and
    to be of one cell, in both streams (``transforms.operators.seen_ids`` says why).
    """
    records = ""
    if has_id and id_horizon is None:
        records = " (every record that carries its id)"
    elif has_id:
        records = " (a record that counts, and the copies of its id that it keeps from counting)"
    if relation == "add_remove":
        change = f"in one of them a single event{records} is present and in the other it is absent"
    elif relation == "replace_anywhere":
        places = "content and key may both" if once else "content, key and tick may all"
        change = f"they differ in a single event{records}, whose {places} be different"
    else:
        there = {"time": not once, "key": has_key, "id": has_id, "unit": has_unit}
        names = [name for name, has in there.items() if has]
        read = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
        whole = "with all its records " if has_id else ""
        cell = "key and tick" if has_key else "tick"
        place = f", is in time, and belongs {whole}to the same {cell} in both"
        if once:
            place = f", and belongs {whole}to the same key in both" if has_key else ""
        change = (
            f"they differ in the content of a single event{records}, which can be read as a record "
            f"{f'with its {read} ' if read else ''}in both{place}"
        )
    inputs = "tables" if once else "streams"
    return f"Take any two possible input {inputs} that are identical except that {change}."


def statement(
    guarantee: Guarantee,
    horizon: int | None = None,
    *,
    has_id: bool = False,
    has_key: bool = True,
    has_unit: bool = False,
    keys_public: bool = False,
    circumstances: RuntimeAssumptions = NO_ASSUMPTIONS,
    groupings: int = 1,
    once: bool = False,
) -> str:
    """Neighbours, span, odds, what happens afterwards, and what is not covered.

    Args:
      guarantee: in numbers, of events. horizon: ticks of the clock; None: no end.
      has_id, has_key, has_unit: what events carry. keys_public: keys are found in the data.
      circumstances: what the job adds. groupings: in how many keys an event counts at once.
      once: whether there is a single release.
    """
    forgotten = circumstances.id_horizon if has_id else None
    text = neighbours(guarantee.relation, has_id, has_key, forgotten, has_unit, once)
    text += f" {guarantee_text(guarantee, horizon, once=once)}"
    if forgotten is not None:
        text += f" {forgetting(forgotten, guarantee.copies)}"
    if groupings > 1:
        text += f" {in_groupings(groupings)}"
    if keys_public:
        text += f" {public_keys(once)}"
    return " ".join([text, *circumstances.limits])


def of_noise(text: str, program: Any) -> str:
    """A statement, with what some of the noise adds: that it is not exact, and what is lost where
    it is fitted to the whole clock."""
    if program.doubles:
        text += (
            f" Noise of {' and '.join(program.doubles)} is computed in double precision, where it "
            "is not exactly Gaussian."
        )
    if not any(part.caveat for part in program.sums):
        return text
    return (
        f"{text} The loss does not fade by degrees: all of it may fall on the releases right after "
        "an event."
    )


def in_groupings(count: int) -> str:
    """What several groupings mean for the guarantee."""
    return (
        f"An event counts in one key of each of {count} groupings; the guarantee is for all of "
        "them together."
    )


def public_keys(once: bool) -> str:
    """What is reported of keys that are published as they occur."""
    since = "" if once else ", and the tick of the first event of each,"
    return f"Which keys occur{since} is published as it is and not covered by this guarantee."


def forgetting(id_horizon: int, copies: tuple[Copies, ...]) -> str:
    """What it means that ids are forgotten, in numbers."""
    text = ", ".join(
        f"{row.count} have epsilon = {row.epsilon:.4g}"
        + ("" if row.delta == 0 else f" (delta = {row.delta:g})")
        for row in copies
    )
    return (
        f"An id is remembered for {plural(id_horizon, 'tick')} from the tick of its event: a copy "
        "of a later tick counts again, as an event of its own, for which this guarantee holds "
        f"alone. Together copies of one id that count have less protection, at most: {text}; "
        "nothing bounds how many there are."
    )


def guarantee_text(
    guarantee: Guarantee,
    horizon: int | None,
    since: str = "from the tick it falls in",
    what: str = "an event",
    once: bool = False,
) -> str:
    """Span, odds, and what happens afterwards.

    horizon: ticks of the clock. since: what the window begins with. what: is protected.
    once: whether there is a single release.
    """
    window, epsilon, delta = guarantee.window, guarantee.epsilon, guarantee.delta
    first = " (the earlier of the two)" if guarantee.relation == "replace_anywhere" else ""
    span = "ever" if window is None else f"during the {plural(window, 'tick')} {since}{first}"
    factor = (
        f"by more than a factor of {math.exp(epsilon):.4g}" if epsilon < 50 else "by a huge factor"
    )
    slack = "" if delta == 0 else f", up to an additional probability of {delta:g}"
    where = "this release" if once else f"all that is released {span}"
    text = (
        f"Whatever an observer looks for in {where}, the probability of finding it does not "
        f"change {factor} (epsilon = {epsilon:.6g}){slack} between the two."
    )
    if window is None:
        return text + " The guarantee does not expire."
    later = [row for row in guarantee.expiration if row.ticks is not None and row.ticks > window]
    if any(math.isinf(row.epsilon) for row in later):
        return text + (
            f" After that {what} has no protection at all: later releases may contain it exactly."
        )
    if not later or later[-1].epsilon <= epsilon * (1 + 1e-9):
        return text + " Later releases add nothing: the guarantee is permanent."
    steps: list[str] = []
    last = epsilon
    for row in later:
        if row.epsilon > last * (1 + 1e-9):
            ticks = row.ticks or 0
            over = horizon is not None and ticks >= horizon
            when = "by the end of the clock" if over else f"within {plural(ticks, 'tick')}"
            steps.append(f"{when}: epsilon = {row.epsilon:.4g}")
            last = row.epsilon
    delta_too = "" if delta == 0 else ", with the same delta"
    return text + f" Afterwards protection fades by degrees ({'; '.join(steps)}{delta_too})."


def user_statement(
    guarantee: Guarantee,
    pattern: Pattern,
    events: int,
    per: str,
    horizon: int | None,
    *,
    adaptive: bool,
    keys_public: bool,
    min_users: int | None,
    circumstances: RuntimeAssumptions,
    groupings: int = 1,
    once: bool = False,
    by_hash: bool = False,
) -> str:
    """Neighbours, caps, span, odds, what periods cost together, and what is not covered.

    Args:
      guarantee: in numbers. pattern: contribution bounds. events: bound on the events of a cell.
      per: the period in words. horizon: ticks of the clock; None: no end.
      adaptive: whether it holds where later events follow releases.
      keys_public: keys are found in the data and published as they are. min_users: that a key
        needs to be found in private; None: none is.
      circumstances: what the job adds. groupings: in how many keys an event counts at once.
      once: whether there is a single release.
      by_hash: whether releases follow from later events of the period too.
    """
    change = (
        "absent" if guarantee.relation == "add_remove" else "replaced by any others of that user"
    )
    since = "from the last tick of that period on, and before it"
    inputs, per = ("tables", "") if once else ("streams", f" {per}")
    sentences = [
        f"Take any two possible input {inputs} that are identical except that all events of a "
        f"single user{per} are present in one of them and {change} in the other.",
        caps_in_words(pattern, events, once),
        guarantee_text(guarantee, horizon, since, "what the user added", once),
    ]
    if min_users is not None:
        sentences.append(finding(min_users, guarantee.delta_sel, once))
    if guarantee.event is not None:
        sentences.append(
            "A single event that moves no contribution bound is protected by itself with epsilon = "
            f"{guarantee.event:.4g} at most; where a contribution bound is binding, it may change "
            "which others of its "
            "user's events count."
        )
    if guarantee.together:
        rows = "; ".join(
            f"{row.count} periods in a row: epsilon = {shown(row.epsilon)}"
            + ("" if row.anywhere is None else f" ({shown(row.anywhere)} anywhere within a year)")
            for row in guarantee.together
        )
        most = max(row.delta for row in guarantee.together)
        slack = f", with delta = {most:g} at most" if most > guarantee.delta else ""
        sentences.append(f"What a user adds in several periods has less protection: {rows}{slack}.")
    every = guarantee.every_period
    if every is not None:
        slack = f", with delta = {every.delta:g}" if every.delta > guarantee.delta else ""
        sentences.append(
            f"All that {every.words} adds has epsilon = {shown(every.epsilon)}{slack}."
        )
    if by_hash:
        sentences.append(
            "It holds for events that are fixed before the first release: what counts in a tick "
            "follows from those of the whole period."
        )
    elif adaptive and not once:
        sentences.append("It holds where what users do follows what has been released, too.")
    sentences += user_conditions(once)
    if groupings > 1:
        sentences.append(in_groupings(groupings))
    if keys_public:
        sentences.append(public_keys(once))
    return " ".join([*sentences, *circumstances.limits])


def user_conditions(once: bool) -> tuple[str, ...]:
    """What the guarantee of a user takes for granted."""
    named = "A user is whom the column of users names: who is named in two ways is two users."
    overdue = (
        "The guarantee is conditional on no event being overdue (counted): which events come "
        "behind a closed tick is the runner's timing, and not covered."
    )
    return (named,) if once else (named, overdue)


def finding(min_users: int, delta: float, once: bool = False) -> str:
    """What is reported of keys that are found in private."""
    who = "a user" if min_users == 1 else f"{min_users:,} users or more"
    if once:
        return (
            f"A key is released if it has {who} and a noisy count of them is large enough. Which "
            f"keys these are is covered by this guarantee: {delta:g} of the additional probability "
            "is for it. Nothing is released of any other key."
        )
    return (
        f"A key is released once it has {who} in a period and a noisy count of them is large "
        "enough. Which keys these are, and since when, is covered by this guarantee: "
        f"{delta:g} of the additional probability is for it. Nothing is released of any other key."
    )


def caps_in_words(pattern: Pattern, events: int, once: bool = False) -> str:
    """What counts of a user in a period, or in a single release."""
    if once:
        return (
            f"Of a user's events only those of {plural(pattern.cells, 'key')}, and of "
            f"{plural(events, 'event')} of each key, count; which they are follows from that "
            "user's own events alone."
        )
    apart = f", {plural(pattern.spacing, 'tick')} apart or more" if pattern.spacing > 1 else ""
    retained = [
        f"those of {plural(pattern.ticks, 'tick')}{apart}",
        f"of {plural(pattern.keys, 'key')} in each",
        f"and of {plural(events, 'event')} in each key and tick",
    ]
    more = []
    if pattern.key_ticks < pattern.ticks:
        more.append(f"{plural(pattern.key_ticks, 'tick')} of a key")
    if pattern.period_keys is not None:
        more.append(plural(pattern.period_keys, "key"))
    if pattern.cells < pattern.ticks * pattern.keys:
        more.append(f"{plural(pattern.cells, 'pair')} of a key and a tick")
    most = f", {' and '.join(more)} in the whole period at most" if more else ""
    return (
        f"Of a user's events in a period only {', '.join(retained)} count{most}; which they are "
        "follows from that user's own events alone."
    )


def shown(epsilon: float) -> str:
    """An epsilon, or that there is none."""
    return "no bound" if math.isinf(epsilon) else f"{epsilon:.4g}"
