"""The guarantee in sentences that a lawyer can read."""

from __future__ import annotations

import math

from weir.dpcore.accounting.circumstances import NONE, Circumstances
from weir.dpcore.accounting.guarantee import Copies, Expiration, Relation
from weir.dpcore.words import plural


def neighbours(
    relation: Relation,
    has_id: bool = False,
    has_key: bool = True,
    id_horizon: int | None = None,
    has_unit: bool = False,
) -> str:
    """What two streams are compared.

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
        change = (
            f"they differ in a single event{records}, whose content, key and tick may all be "
            "different"
        )
    else:
        there = {"time": True, "key": has_key, "id": has_id, "unit": has_unit}
        names = [name for name, has in there.items() if has]
        read = " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
        whole = "with all its records " if has_id else ""
        cell = "key and tick" if has_key else "tick"
        change = (
            f"they differ in the content of a single event{records}, which can be read as a record "
            f"with its {read} in both, is in time, and belongs {whole}to the same {cell} in both"
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
    *,
    has_key: bool = True,
    has_unit: bool = False,
    circumstances: Circumstances = NONE,
    copies: tuple[Copies, ...] = (),
    groupings: int = 1,
) -> str:
    """The promise: neighbours, span, odds, what happens afterwards, and what is not covered.

    Args:
      relation, window, epsilon, delta, expiration, copies: as in ``Guarantee``.
      has_id, has_key, has_unit: what events carry. keys_public: keys are found in the data.
      horizon: ticks of the clock; None: no end.
      circumstances: what the job adds. groupings: in how many keys an event counts at once.
    """
    forgotten = circumstances.id_horizon if has_id else None
    told = neighbours(relation, has_id, has_key, forgotten, has_unit)
    text = f"{told} {promise(relation, window, epsilon, delta, expiration, horizon)}"
    if forgotten is not None:
        text += f" {forgetting(forgotten, copies)}"
    if groupings > 1:
        text += (
            f" An event counts in one key of each of {groupings} groupings; the promise is for all "
            "of them together."
        )
    if keys_public:
        text += (
            " Which keys occur, and the tick of the first event of each, is published as it is "
            "and not covered by this promise."
        )
    return " ".join([text, *circumstances.limits])


def forgetting(id_horizon: int, copies: tuple[Copies, ...]) -> str:
    """What it means that ids are forgotten, in numbers."""
    told = ", ".join(
        f"{row.count} have epsilon = {row.epsilon:.4g}"
        + ("" if row.delta == 0 else f" (delta = {row.delta:g})")
        for row in copies
    )
    return (
        f"An id is remembered for {plural(id_horizon, 'tick')} from the tick of its event: a copy "
        "of a later tick counts again, as an event of its own, for which this promise holds alone. "
        f"Together copies of one id that count have less protection, at most: {told}; nothing "
        "bounds how many there are."
    )


def promise(
    relation: Relation,
    window: int | None,
    epsilon: float,
    delta: float,
    expiration: tuple[Expiration, ...],
    horizon: int | None,
    since: str = "from the tick it falls in",
    what: str = "an event",
) -> str:
    """Span, odds, and what happens afterwards.

    since: what the window begins with. what: is protected.
    """
    first = " (the earlier of the two)" if relation == "replace_anywhere" else ""
    span = "ever" if window is None else f"during the {plural(window, 'tick')} {since}{first}"
    factor = (
        f"by more than a factor of {math.exp(epsilon):.4g}" if epsilon < 50 else "by a huge factor"
    )
    slack = "" if delta == 0 else f", up to an additional probability of {delta:g}"
    text = (
        f"Whatever an observer looks for in all that is released "
        f"{span}, the probability of finding it does not change {factor} "
        f"(epsilon = {epsilon:.6g}){slack} between the two."
    )
    if window is None:
        return text + " The promise does not expire."
    later = [row for row in expiration if row.ticks is not None and row.ticks > window]
    if any(math.isinf(row.epsilon) for row in later):
        return text + (
            f" After that {what} has no protection at all: later releases may contain it exactly."
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
