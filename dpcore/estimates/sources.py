"""Which outputs of a plan have estimates, and the law of the noise in them: JSON-able facts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir.dpcore.aggregates.aggregate import AggregateOutput
from weir.dpcore.aggregates.channel import Channel
from weir.dpcore.aggregates.counts import CountOutput
from weir.dpcore.aggregates.moments import SumOutput
from weir.dpcore.aggregates.program import Aggregates, SumPart
from weir.dpcore.continual.base import canonical_mechanism
from weir.dpcore.errors import ConfigError
from weir.dpcore.estimates.laws import NoiseLaw, law_of
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.plan import Plan

DAY, HOUR = 86_400_000_000, 3_600_000_000
"""Microseconds."""
LONGEST_SEASON, SHORTEST_SEASON = 2_000, 4
"""Ticks of a season that the filters know."""


@dataclass(frozen=True)
class EstimateSource:
    """A sum that is released, and the noise in its running total.

    Attributes:
      name: of the output. overs: its spans in ticks, None for the total.
      law: how its noise moves. unit: standard deviation of one unit of noise, in its own unit.
      event: variance that an event of the estimate adds: 1 of a count, half the clip of a sum.
      least: that the true value respects; None: nothing.
      count: the output that counts the same events, for a sum; None: there is none.
      shares: (coefficient here, coefficient in that count, unit) of each noisy channel.
      clip: of a value of a sum.
    """

    name: str
    overs: tuple[int | None, ...]
    law: NoiseLaw
    unit: float
    event: float
    least: float | None
    count: str | None = None
    shares: tuple[tuple[float, float, float], ...] = ()
    clip: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> EstimateSource:
        """From what ``facts_of`` gave.

        Raises:
          ConfigError: there are no estimates of it, with the reason.
        """
        if "refused" in facts:
            raise ConfigError("name", facts["name"], str(facts["refused"]))
        return cls(
            name=str(facts["name"]),
            overs=tuple(None if over is None else int(over) for over in facts["overs"]),
            law=law_of(facts["law"]),
            unit=_f(facts["unit"]),
            event=_f(facts["event"]),
            least=None if facts["least"] is None else _f(facts["least"]),
            count=facts["count"],
            shares=tuple((_f(own), _f(other), _f(unit)) for own, other, unit in facts["shares"]),
            clip=(_f(facts["clip"][0]), _f(facts["clip"][1])),
        )

    def unit_with_count(self, factor: Any) -> Any:
        """Unit of noise in (this - factor x its count); factor: any shape."""
        variance = sum(((own - factor * other) * unit) ** 2 for own, other, unit in self.shares)
        return variance**0.5


def _f(text: str) -> float:
    return float.fromhex(text)


def season_of(clock: Clock) -> int | None:
    """Ticks of a week, of ticks of a day or more; of a day, of shorter ones. None: no whole number
    of them, or too few or many."""
    calendar = clock.calendar
    if calendar is not None:
        return 7 if calendar.days == 1 and not calendar.months else None
    whole = 7 * DAY if clock.period >= DAY else DAY
    ticks, left = divmod(whole, clock.period)
    return ticks if not left and SHORTEST_SEASON <= ticks <= LONGEST_SEASON else None


RATIO = (
    "has no estimates: it is a ratio of two noisy sums. Release the sum and the count next to it, "
    "and divide their estimates."
)
OTHER = "has no estimates: it is no count or sum of what ticks add. Read its releases."


def facts_of(plan: Plan) -> dict[str, Any]:
    """What ``_plan.json`` says of estimates, public numbers of the plan alone.

    Returns:
      season: ticks, or None. outputs: one entry an output, with its law, or with ``refused``.
      adds_up: of a plan with several groupings the outputs whose coarser keys are the sums of the
        finer ones, each with whether its true values are 0 or more.
    """
    program = plan.program
    entries: list[dict[str, Any]] = []
    refused = ""
    if plan.config.release_every is not None:
        refused = (
            "has no estimates: release_every repeats a release over several ticks. Use a longer "
            "clock.period, with a release at every tick."
        )
    elif plan.clock.once:
        refused = "has no estimates: there is one release. Set a clock to release over time."
    elif isinstance(program, Aggregates) and len(set(program.times)) > 1:
        refused = (
            "has no estimates: keys of different groupings have noise of different sizes. Read its "
            "releases, or give each grouping a plan of its own."
        )
    names = dict.fromkeys(output.name for output in plan.outputs)
    if refused or not isinstance(program, Aggregates):
        entries = [{"name": name, "refused": refused or OTHER} for name in names]
    else:
        entries = [_entry(output, program, plan) for output in program.infos]
    return {
        "season": season_of(plan.clock),
        "outputs": entries,
        **({"adds_up": _adding_up(program, plan)} if plan.keys.groups else {}),
    }


def _adding_up(program: Any, plan: Plan) -> list[list[Any]]:
    """Outputs of events: users count once in a coarser key too, which is no sum of its parts."""
    if not isinstance(program, Aggregates):
        return []
    results = []
    for output in program.infos:
        terms = _terms(output)
        if terms and {program.channels[channel].takes for channel in terms} == {"events"}:
            least = plan.config.algorithm.shown(output.name).between[0]
            results.append([output.name, least is not None and least >= 0])
    return results


def _entry(output: AggregateOutput, program: Aggregates, plan: Plan) -> dict[str, Any]:
    if output.kind in ("mean", "variance"):
        return {"name": output.name, "refused": RATIO}
    terms = _terms(output)
    takes = {program.channels[channel].takes for channel in terms}
    if terms and takes == {"active"}:
        return {
            "name": output.name,
            "refused": "has no estimates: distinct users of several ticks do not add up over "
            "ticks. Read its releases, or count users with over: 1.",
        }
    if not terms:
        return {"name": output.name, "refused": OTHER}
    part = _part(program, next(iter(terms)))
    facts = canonical_mechanism(part.mechanism)
    try:
        law_of(facts)
    except ConfigError as error:
        return {"name": output.name, "refused": f"{error.remedy} ({error.field}: {error.value})"}
    units = {channel: _unit(program, part, channel) for channel in terms}
    unit = math.sqrt(sum((terms[channel] * units[channel]) ** 2 for channel in terms))
    least = plan.config.algorithm.shown(output.name).between[0]
    pair = _count_of(output, program)
    shares: list[list[str]] = []
    if pair is not None:
        theirs = _terms(pair)
        for channel in sorted({*terms, *theirs}):
            own = (terms.get(channel, 0.0), theirs.get(channel, 0.0))
            shares.append([float(x).hex() for x in (*own, _unit(program, part, channel))])
    values = program.channels[output.value] if isinstance(output, SumOutput) else None
    clip = (0.0, 0.0) if values is None else (values.low, values.high)
    return {
        "name": output.name,
        "overs": list(output.overs),
        "law": facts,
        "unit": unit.hex(),
        "event": (1.0 if values is None else output.unit / 2).hex(),
        "least": None if least is None else float(least).hex(),
        "count": None if pair is None else pair.name,
        "shares": shares,
        "clip": [float(end).hex() for end in clip],
    }


def _terms(output: AggregateOutput) -> dict[int, float]:
    """Channels that add up to an output, and their factors; {}: it is no such sum."""
    if isinstance(output, SumOutput):
        terms = {output.value: 1.0}
        for channel, factor in output.terms:
            terms[channel] = terms.get(channel, 0.0) + factor
        return terms
    if isinstance(output, CountOutput) or output.kind == "histogram":
        return dict.fromkeys(output.channels, 1.0)
    return {}


def _part(program: Aggregates, channel: int) -> SumPart:
    return next(part for part in program.parts if not part.hidden and channel in part.channels)


def _unit(program: Aggregates, part: SumPart, channel: int) -> float:
    """Standard deviation of one unit of noise of a channel, in the user's unit: that of the first
    tick, as its rows state it."""
    before = part.channels[: part.channels.index(channel)]
    at = sum(program.channels[item].width for item in before)
    mechanism = part.mechanism
    first = mechanism.stddev(np.zeros(1, dtype=np.int64), mechanism.overs[0])[0, at]
    size = abs(law_of(canonical_mechanism(mechanism)).at(0).size)
    return float(first) * program.channels[channel].resolution / size


def _count_of(output: AggregateOutput, program: Aggregates) -> CountOutput | None:
    """The count of the events whose values a sum adds up, in the same part."""
    if not isinstance(output, SumOutput):
        return None
    values = program.channels[output.value]
    part = _part(program, output.value)
    for other in program.infos:
        counted = [program.channels[channel] for channel in other.channels]
        if (
            isinstance(other, CountOutput)
            and set(other.channels) <= set(part.channels)
            and all(_same_events(values, channel) for channel in counted)
        ):
            return other
    return None


def _same_events(values: Channel, count: Channel) -> bool:
    takes = "events" if values.takes == "totals" else values.takes
    return not count.full and (count.where, count.takes) == (values.where, takes)
