"""What a reader of a plan should know before it runs: its warnings, and what noise hides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from weir.dpcore.accounting.guarantee import Guarantee
from weir.dpcore.accounting.precision import UNEVEN, missing_tail
from weir.dpcore.aggregates.algorithm import AggregatesAlgorithm
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.algorithm import Compiled
from weir.dpcore.arrays import Ints
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.pricing.calibration import Alternative, band_of
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.pricing.user_periods import CapPrice, cap_prices, costly_periods
from weir.dpcore.program import OutputInfo, Program
from weir.dpcore.spaced import program_of
from weir.dpcore.words import listing, number

COVERED = 1000
"""Draws of pure noise whose far tails delta must cover for no warning of them."""
LONGER = (7, 28, 91, 364)
"""Spans and periods that are tried where noise hides an output, in times its own."""
LONGEST_SUM = 400
"""Ticks of a span that is proposed, at most."""


class Hidden(NamedTuple):
    """An output whose margin is wider than all that the expected events can make of it.

    Attributes:
      info: the output. half: of its 95 % margin. value: what the events make of it, at most.
    """

    info: OutputInfo
    half: float
    value: float

    @property
    def ratio(self) -> float:
        """Above 1."""
        return self.half / self.value if self.value else math.inf


def measure(
    algorithm: AggregatesAlgorithm, program: Program, terms: Terms, info: OutputInfo
) -> Hidden | None:
    """The margin of an output next to its value; None: a sum since the start of a clock without
    end, which outgrows any noise."""
    span = info.over or terms.horizon
    if span is None or terms.events is None:
        return None
    events, aggregate = terms.events * span, algorithm.aggregates[info.name]
    noise = info.stddev_worst / (events if aggregate.averages else 1)
    half = band_of(program.sums[0].real_noise[0]) * noise
    return Hidden(info, half, aggregate.reach(events))


def hidden_outputs(
    algorithm: AggregatesAlgorithm, program: Program, terms: Terms
) -> Iterator[Hidden]:
    """Outputs that noise hides, in the plan's order."""
    for info in program.describe(terms.ticks()):
        item = measure(algorithm, program, terms, info)
        if item is not None and item.half > item.value:
            yield item


def useless_outputs(config: PlanConfig, program: Program) -> Iterator[str]:
    """A sentence for each output that noise hides, and for the worst of them the least change that
    would do. Nothing of this is read off data: sizes are those that ``expect`` says."""
    algorithm, terms = config.algorithm, config.terms()
    if not isinstance(algorithm, AggregatesAlgorithm) or terms.events is None:
        return
    items = list(hidden_outputs(algorithm, program, terms))
    for item in items:
        name = item.info.name
        over = f", over {item.info.over}," if item.info.over else ", since the start,"
        cell = "key" if terms.clock.once else "tick"
        kind = algorithm.aggregates[name]
        counts = kind.reach(1) == 1 and not kind.averages
        value = (
            f"cells of about {number(item.value)}"
            if counts
            else (f"a value of at most {number(item.value)}")
        )
        yield (
            f"{name}{'' if terms.clock.once else over} is useless at this cadence: its 95 % margin "
            f"is \N{PLUS-MINUS SIGN} {number(item.half)}{' events' * counts} of noise on {value} "
            f"(expect.events: {number(terms.events)} a {cell})."
        )
    if items:
        yield _remedy(config, max(items, key=lambda item: item.ratio))


def _remedy(config: PlanConfig, worst: Hidden) -> str:
    """The first change that makes the margin smaller than the value, and its effect."""
    name = worst.info.name
    best: tuple[str, Hidden] | None = None
    for item in changes(config, worst):
        if best is None or item[1].ratio < best[1].ratio:
            best = item
        if item[1].ratio < 1:
            break
    free = (
        ""
        if config.terms().clock.once or _averages(config, name)
        else (
            " weir estimate filters the noise of its releases at no cost in privacy; weir rehearse "
            "shows by how much."
        )
    )
    if best is None:
        words = "take coarser keys or a larger epsilon"
    else:
        change, after = best
        margin = f"\N{PLUS-MINUS SIGN} {number(after.half)} on about {number(after.value)}"
        words = f"{change} makes it {margin}"
        if after.ratio >= 1:
            words += ", which is not enough; take coarser keys or a larger epsilon too"
    return f"The least change for {name} (expect.events): {words}.{free}"


def _averages(config: PlanConfig, name: str) -> bool:
    """Whether an output is a ratio, which has no estimate of its own."""
    algorithm = config.algorithm
    return isinstance(algorithm, AggregatesAlgorithm) and algorithm.aggregates[name].averages


def changes(config: PlanConfig, worst: Hidden) -> Iterator[tuple[str, Hidden]]:
    """Changes of a config, the least first, each with what it makes of an output."""
    algorithm, terms = config.algorithm, config.terms()
    assert isinstance(algorithm, AggregatesAlgorithm)
    name, own = worst.info.name, worst.info.over
    aggregate = algorithm.aggregates[name]
    if own is not None and not aggregate.distinct and aggregate.of_users is None:
        for times in LONGER:
            over = own * times
            if over > min(LONGEST_SUM, terms.horizon or LONGEST_SUM):
                break
            overs = tuple(over if item == own else item for item in aggregate.over)
            wider = aggregate.model_copy(update={"over": overs})
            other = replace(algorithm, aggregates={**algorithm.aggregates, name: wider})
            yield from _tried(f"over: {over}", other, terms, None, name, over)
    if terms.person is None and terms.clock.calendar is None and not terms.clock.once:
        for times in LONGER:
            if own is None or own % times and own != 1 or (terms.horizon or 0) % times:
                continue
            spans = replace(
                algorithm,
                aggregates={
                    key: item.model_copy(
                        update={
                            "over": tuple(n if n == "all" else max(n, times) for n in item.over)
                        }
                    )
                    for key, item in algorithm.aggregates.items()
                },
            )
            yield from _tried(
                f"a clock.period {times} times as long", spans, terms, times, name, max(own, times)
            )
    if len(algorithm.aggregates) > 1:
        others = listing([key for key in algorithm.aggregates if key != name])
        alone = replace(algorithm, aggregates={name: aggregate})
        yield from _tried(f"leaving out {others}", alone, terms, None, name, own)


def _fixed(terms: Terms, alternatives: Iterable[Alternative]) -> Terms:
    """Terms under which the chosen mechanism is taken again, without pricing the others."""
    chosen = next((item for item in alternatives if item.chosen), None)
    if chosen is None:
        return terms
    return replace(terms, continual_sum=chosen.mechanism, noise=chosen.noise)


def _tried(
    change: str,
    algorithm: AggregatesAlgorithm,
    terms: Terms,
    every: int | None,
    name: str,
    over: int | None,
) -> Iterator[tuple[str, Hidden]]:
    try:
        program = program_of(algorithm, terms, every)
    except ConfigError:
        return
    for info in program.describe(terms.ticks()):
        if (info.name, info.over) == (name, over):
            item = measure(algorithm, program, terms, info)
            if item is not None:
                yield change, item


class WeightPrice(NamedTuple):
    """What twice the weight of an output buys.

    Attributes:
      output: whose weight. own: its noise, over that of the plan. others: the largest such ratio
        of another output.
    """

    output: str
    own: float
    others: float


def weight_prices(
    config: PlanConfig, program: Program, alternatives: Iterable[Alternative]
) -> tuple[WeightPrice, ...]:
    """For each output of several; empty where errors are not known beforehand."""
    algorithm, terms = config.algorithm, config.terms()
    if not isinstance(algorithm, AggregatesAlgorithm) or len(algorithm.aggregates) < 2:
        return ()
    ticks = terms.ticks()
    fixed = _fixed(terms, alternatives)
    now = {(info.name, info.over): info.stddev_worst for info in program.describe(ticks)}
    result = []
    for name, aggregate in algorithm.aggregates.items():
        heavier = aggregate.model_copy(update={"weight": 2 * aggregate.weight})
        other = replace(algorithm, aggregates={**algorithm.aggregates, name: heavier})
        try:
            heavy = program_of(other, fixed, config.release_every)
        except ConfigError:
            return ()
        ratios: dict[bool, list[float]] = {True: [], False: []}
        for info in heavy.describe(ticks):
            before = now.get((info.name, info.over), 0.0)
            if before > 0:
                ratios[info.name == name].append(info.stddev_worst / before)
        if not ratios[True] or not ratios[False]:
            return ()
        result.append(WeightPrice(name, max(ratios[True]), max(ratios[False])))
    return tuple(result)


def caps_priced(
    config: PlanConfig,
    program: Program,
    outputs: Sequence[OutputInfo],
    alternatives: Iterable[Alternative],
    ticks: Ints,
) -> tuple[CapPrice, ...]:
    """What other contribution bounds would cost in noise; empty where the unit is an event."""
    terms = config.terms()
    chosen = next((alternative for alternative in alternatives if alternative.chosen), None)
    now = program.released_stddev()

    def of_events(other: Terms) -> float:
        if now is not None:
            other = replace(other, noise=None if chosen is None else chosen.noise)
        elif chosen is not None:
            other = replace(other, continual_sum=chosen.mechanism, noise=chosen.noise)
        built = program_of(config.algorithm, other, config.release_every)
        if now is not None:
            return (built.released_stddev() or 0.0) / now
        pairs = zip(built.describe(ticks), outputs, strict=True)
        ratios = [a.stddev_worst / b.stddev_worst for a, b in pairs if b.stddev_worst > 0]
        return max(ratios, key=lambda ratio: abs(math.log(ratio)), default=1.0)

    sums = program.sums
    if isinstance(program, Aggregates):
        sums = tuple(part.mechanism for part in program.parts if not part.hidden)
    if not sums and now is None:
        return ()
    return cap_prices(sums, terms, of_events)


def warnings_for(
    config: PlanConfig, promise: Guarantee, horizon: int | None, built: Compiled, share: float
) -> tuple[str, ...]:
    """What a reader should know before running the plan; share: see ``refuse_uneven``."""
    result, program = list[str](), built.program
    if any(math.isinf(row.epsilon) for row in promise.expiration):
        result.append(
            "This mechanism protects nothing after the window. mechanism.continual_sum: blt (or "
            "merging_tree for delta = 0) fades by degrees instead, usually with less noise."
        )
    if promise.epsilon > 10:
        result.append(
            f"epsilon = {promise.epsilon:g} is a weak guarantee; 1 is common, 10 the usual limit."
        )
    if promise.delta > 1e-4:
        result.append(
            f"delta = {promise.delta:g} is large: keep it well below one over the number of people."
        )
    tail = missing_tail(program.sums) if program.loss(1).kind == "pure" else 0.0
    if tail * COVERED > promise.delta:
        result.append(
            "Pure noise is computed in floating point from 64 random bits a number: its far "
            f"tail, about {tail:.0e} of the probability of every draw, is not covered by delta = "
            f"{promise.delta:g}."
        )
    if share > UNEVEN:
        result.append(
            "The guarantee is so strict, and its noise so large in steps of the fixed-point grid, "
            "that the rounding of doubles is not small compared with it. Take a larger epsilon, "
            "or mechanism.noise: discrete_gaussian, which rejects it."
        )
    if config.yaml11_numbers:
        result.append(
            f"Text was read as a number: {', '.join(config.yaml11_numbers)}. Tools of YAML 1.1 "
            "take 1e-6 for text; 1.0e-6 is a number to all."
        )
    if config.schema_.id is None and config.privacy.unit == "user":
        result.append(
            "schema.id is not set: an event that is delivered twice may count twice, within the "
            "contribution bounds of its user."
        )
    elif config.schema_.id is None:
        result.append(
            "schema.id is not set: an event that is delivered twice counts twice, and then "
            "the guarantee holds for each delivery, not for the event."
        )
    if config.key is not None and config.key.observed_keys_are_public:
        first = "" if config.clock is None else ", and the tick of their first event,"
        result.append(f"The keys that occur{first} are published as they are.")
    may_vanish = config.where is not None or config.schema_.arrival is not None
    of_events = config.privacy.unit != "user"
    if of_events and config.privacy.relation == "replace_one" and not may_vanish:
        is_public = "is public" if config.model is None else "is not covered by the guarantee"
        cell = "key" if config.clock is None else "key and tick"
        result.append(f"Under replace_one the number of events per {cell} {is_public}.")
    person = config.person(config.terms().clock)
    if person is not None and person.periods.longest is None:
        result.append(
            "per: all without clock.end keeps what every user has used up of the contribution "
            "bounds for ever: state grows with users, and contribution bounds never begin again. "
            "Take a period, like per: 30d."
        )
    dear = None if person is None else costly_periods(program, config.terms())
    if dear is not None:
        result.append(
            f"protect_for is short compared with the stays of users: {dear} periods of a user in "
            "a row cost more than as many guarantees added up, since what was added is seen in "
            "releases long after. A longer protect_for makes long stays less expensive."
        )
    result.extend(built.warnings)
    if horizon is None and promise.window is None:
        result.append("protect_for: all without clock.end is calibrated for 2^40 ticks.")
    return tuple(result)
