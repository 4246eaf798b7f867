"""The promise to a user in a period, in sentences that a lawyer can read."""

from __future__ import annotations

import math

from weir.dpcore.accounting.circumstances import Circumstances
from weir.dpcore.accounting.guarantee import Guarantee
from weir.dpcore.accounting.pattern import Pattern
from weir.dpcore.accounting.statement import promise
from weir.dpcore.words import plural


def user_statement(
    told: Guarantee,
    pattern: Pattern,
    events: int,
    per: str,
    horizon: int | None,
    *,
    adaptive: bool,
    keys_public: bool,
    min_users: int | None,
    circumstances: Circumstances,
) -> str:
    """Neighbours, caps, span, odds, what periods cost together, and what is not covered.

    Args:
      told: the promise in numbers. pattern: caps. events: cap on the events of a cell.
      per: the period in words. horizon: ticks of the clock; None: no end.
      adaptive: whether it holds where later events follow releases.
      keys_public: keys are found in the data and published as they are. min_users: that a key
        needs to be found in private; None: none is.
      circumstances: what the job adds.
    """
    change = "absent" if told.relation == "add_remove" else "replaced by any others of that user"
    since = "from the last tick of that period on, and before it"
    sentences = [
        "Take any two possible input streams that are identical except that all events of a single "
        f"user {per} are present in one of them and {change} in the other.",
        caps_in_words(pattern, events),
        promise(
            told.relation,
            told.window,
            told.epsilon,
            told.delta,
            told.expiration,
            horizon,
            since,
            "what the user added",
        ),
    ]
    if min_users is not None:
        sentences.append(finding(min_users, told.delta_sel))
    if told.event is not None:
        sentences.append(
            "A single event that moves no cap is protected by itself with epsilon = "
            f"{told.event:.4g} at most; where a cap bites, it may change which others of its "
            "user's events count."
        )
    if told.together:
        rows = "; ".join(
            f"{row.count} periods in a row: epsilon = {shown(row.epsilon)}"
            + ("" if row.anywhere is None else f" ({shown(row.anywhere)} anywhere within a year)")
            for row in told.together
        )
        most = max(row.delta for row in told.together)
        slack = f", with delta = {most:g} at most" if most > told.delta else ""
        sentences.append(f"What a user adds in several periods has less protection: {rows}{slack}.")
    every = told.every_period
    if every is not None:
        slack = f", with delta = {every.delta:g}" if every.delta > told.delta else ""
        sentences.append(
            f"All that {every.words} adds has epsilon = {shown(every.epsilon)}{slack}."
        )
    if adaptive:
        sentences.append("It holds where what users do follows what has been released, too.")
    sentences.append(
        "A user is whom the column of users names: who is named in two ways is two users. The "
        "promise is conditional on no event being overdue (counted): which events come behind "
        "a closed tick is the runner's timing, and not covered."
    )
    if keys_public:
        sentences.append(
            "Which keys occur, and the tick of the first event of each, is published as it is "
            "and not covered by this promise."
        )
    return " ".join([*sentences, *circumstances.limits])


def finding(min_users: int, delta: float) -> str:
    """What is told of keys that are found in private."""
    who = "a user" if min_users == 1 else f"{min_users:,} users or more"
    return (
        f"A key is released once it has {who} in a period and a noisy count of them is large "
        "enough. Which keys these are, and since when, is covered by this promise: "
        f"{delta:g} of the additional probability is for it. Nothing is released of any other key."
    )


def caps_in_words(pattern: Pattern, events: int) -> str:
    """What counts of a user in a period."""
    apart = f", {plural(pattern.spacing, 'tick')} apart or more" if pattern.spacing > 1 else ""
    kept = [
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
        f"Of a user's events in a period only {', '.join(kept)} count{most}; which they are "
        "follows from that user's own events alone."
    )


def shown(epsilon: float) -> str:
    """An epsilon, or that there is none."""
    return "no bound" if math.isinf(epsilon) else f"{epsilon:.4g}"
