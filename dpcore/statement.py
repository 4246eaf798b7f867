"""The guarantee in sentences that a lawyer can read."""

from __future__ import annotations

import math

from dpcore.guarantee import Expiration, Relation

NEIGHBOURS: dict[Relation, str] = {
    "add_remove": "in one of them a single event is present and in the other it is absent",
    "replace_one": (
        "they differ in the content of a single event, which is well-formed, in time and belongs "
        "to the same key and tick in both"
    ),
    "replace_anywhere": (
        "they differ in a single event, whose content, key and tick may all be different"
    ),
}


def neighbours(relation: Relation, has_id: bool = False) -> str:
    """What two streams are compared. With ids, an event is every record that carries its id."""
    change = NEIGHBOURS[relation]
    if has_id:
        change = change.replace(
            "a single event", "a single event (every record that carries its id)"
        )
    return f"Take any two possible input streams that are identical except that {change}."


def statement(
    relation: Relation,
    window: int | None,
    epsilon: float,
    delta: float,
    expiration: tuple[Expiration, ...],
    has_id: bool = False,
    keys_public: bool = False,
    horizon: int | None = None,
) -> str:
    """The promise: neighbours, span, odds, what happens afterwards, and what is not covered.

    Args:
      relation, window, epsilon, delta, expiration: as in ``Guarantee``.
      has_id: events carry ids. keys_public: keys are found in the data.
      horizon: ticks of the clock; None: no end.
    """
    text = promise(relation, window, epsilon, delta, expiration, has_id, horizon)
    if keys_public:
        text += (
            " Which keys occur, and the tick of the first event of each, is published as it is "
            "and not covered by this promise."
        )
    return text


def promise(
    relation: Relation,
    window: int | None,
    epsilon: float,
    delta: float,
    expiration: tuple[Expiration, ...],
    has_id: bool,
    horizon: int | None,
) -> str:
    """Neighbours, span, odds, and what happens afterwards."""
    first = " (the earlier of the two)" if relation == "replace_anywhere" else ""
    span = (
        "ever"
        if window is None
        else f"during the {plural(window, 'tick')} from the tick it falls in{first}"
    )
    factor = (
        f"by more than a factor of {math.exp(epsilon):.4g}" if epsilon < 50 else "by a huge factor"
    )
    slack = "" if delta == 0 else f", up to an additional probability of {delta:g}"
    text = (
        f"{neighbours(relation, has_id)} Whatever an observer looks for in all that is released "
        f"{span}, the probability of finding it does not change {factor} "
        f"(epsilon = {epsilon:.6g}){slack} between the two."
    )
    if window is None:
        return text + " The promise does not expire."
    later = [row for row in expiration if row.ticks is not None and row.ticks > window]
    if any(math.isinf(row.epsilon) for row in later):
        return text + (
            " After that an event has no protection at all: later releases may contain it exactly."
        )
    if not later or later[-1].epsilon <= epsilon * (1 + 1e-9):
        return text + " Later releases add nothing: the promise is permanent."
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


def plural(count: int, noun: str) -> str:
    """A count and its noun: 1 tick, 365 ticks."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
