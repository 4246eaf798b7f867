"""Compiles aggregates under the terms of a plan, with a count for partition selection."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.aggregates.active import ActiveLeaf, counts_active, refuse_active
from weir.dpcore.aggregates.aggregate import ONLY, Aggregate, AggregateOutput
from weir.dpcore.aggregates.channel import Channel
from weir.dpcore.aggregates.layout import ByAbsent, Centred, Layout
from weir.dpcore.aggregates.leaf import ChannelLeaf
from weir.dpcore.aggregates.learned import (
    LearnedLeaf,
    learns,
    leaves_of,
    refuse_learned,
)
from weir.dpcore.aggregates.private_keys import selecting
from weir.dpcore.aggregates.program import Aggregates, SumPart
from weir.dpcore.continual.active_users import ActiveUsers
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.learned import LearnedSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.pricing.alternatives import SPLIT, Offer, Strategy, best_way, sums_for
from weir.dpcore.pricing.calibration import Alternative, calibrated, share
from weir.dpcore.pricing.noises import noises_for
from weir.dpcore.pricing.terms import Terms, events_of

RUNNING = "blt"
SPLIT_INTO = (RUNNING, "sliding", "independent")
BY_ABSENT: tuple[ByAbsent, ...] = ("covered", "always")
NEVER: tuple[ByAbsent, ...] = ("never",)


def compile_aggregates(
    aggregates: Mapping[str, Aggregate], terms: Terms
) -> tuple[Aggregates, tuple[Alternative, ...]]:
    """Prices every alternative for what was asked and takes the best.

    Raises:
      ConfigError: nothing (or not what the user named) can serve the plan.
    """
    refuse_users(aggregates, terms)
    refuse_active(aggregates, terms)
    refuse_learned(aggregates, terms)

    def ways(noise: str) -> dict[str, Strategy[Aggregates]]:
        # A count of all that is replaced in its place is public, and has a channel of its own.
        rules = BY_ABSENT if terms.cell_relation != "replace_one" else NEVER
        events = events_of(terms)
        layouts: list[Outputs] = []
        for rule in rules:
            users = terms.person is not None
            plain = outputs_of(aggregates, events, rule, users=users)
            middle = set[Centred]() if terms.declared else centred_sums(aggregates, plain[0])
            layouts.append(plain)
            if middle:
                layouts.append(outputs_of(aggregates, events, rule, middle, users))
        norm = 1 if noise == "laplace" else 2
        leaves = [
            ChannelLeaf(channels, outputs, overs_of(outputs), terms, norm)
            for at, (channels, outputs) in enumerate(layouts)
            if (channels, outputs) not in layouts[:at]
        ]
        if norm == 1 and leaves[0].dimension == 1 and terms.noise is None:
            return {}  # K-norm noise of one coordinate is the same
        every = [ways_over(noise, leaf) for leaf in leaves]
        return {
            name: selecting(better(*(some[name] for some in every)), noise, terms)
            for name in every[0]
        }

    def ways_over(noise: str, leaf: ChannelLeaf) -> dict[str, Strategy[Aggregates]]:
        rest = tuple(output for output in leaf.outputs if not own_part(leaf, output))
        others = replace(leaf, outputs=rest, overs=overs_of(rest))

        def joint(mechanism: ContinualSum) -> Offer[Aggregates]:
            part = SumPart(mechanism, leaf.read, leaf.coordinates)
            return offer(Aggregates(leaf.channels, leaf.outputs, (part,)), terms)

        by_user, by_both = parts_of(leaf, by_over=False), parts_of(leaf, by_over=True)
        result = sums_for(noise, others, terms, joint)
        if others != leaf:
            if not all(serves_own(leaf, output, noise) for output in leaf.outputs):
                return {}
            if not rest:
                own = ActiveUsers.name if counts_active(leaf, leaf.outputs[0]) else LearnedSum.name
                return {own: partial(apart, leaf, by_user, None)}
            result = {name: partial(apart, leaf, by_user, name) for name in result}
        elif len(by_user) > 1:
            for name, way in result.items():
                result[name] = better(way, partial(apart, leaf, by_user, name))
        if noise == "gaussian" and sum(isinstance(own, str) for own, _ in by_both) > 1:
            result[SPLIT] = partial(apart, leaf, by_both, None)
        return result

    return best_way(terms, ways, SPLIT_INTO)


def refuse_users(aggregates: Mapping[str, Aggregate], terms: Terms) -> None:
    """Raises ConfigError: aggregates of users, in a plan that does not know any."""
    if terms.person is not None:
        return
    for name, aggregate in aggregates.items():
        if aggregate.of_users is not None:
            field, value, instead = aggregate.of_users
            remedy = ONLY.format(instead=instead)
            raise ConfigError(f"aggregates.{name}.{field}", value, remedy)


Outputs = tuple[tuple[Channel, ...], tuple[AggregateOutput, ...]]
"""Channels in the order of a leaf, and outputs in the user's order."""


def centred_sums(aggregates: Mapping[str, Aggregate], channels: Iterable[Channel]) -> set[Centred]:
    """Sums that may be taken around the middle of their clip, since their events are counted: all
    of them, or those that have a number in some column and the others.

    A value is then at most half the clip's width, and the sum is (centred sum) + middle * count,
    whose noise it gets: less noise for both, unless the count matters far less than the sum. A sum
    next to the mean of the same values is taken so in any case.
    """
    counted = {
        channel.where
        for channel in channels
        if (channel.kind, channel.takes) == ("count", "events") and channel.presence != "present"
    }
    averages = [item.average for item in aggregates.values() if item.average is not None]
    means = {item.centred for item in averages if item.takes == "events"}
    sums = {
        (aggregate.where, *aggregate.may_be_centred)
        for aggregate in aggregates.values()
        if aggregate.may_be_centred is not None and aggregate.where in counted
    }
    return sums - means


def outputs_of(
    aggregates: Mapping[str, Aggregate],
    events: int = 1,
    by_absent: ByAbsent = "covered",
    middle: Set[Centred] = frozenset(),
    users: bool = False,
) -> Outputs:
    """What a plan's outputs read, and what runs.

    events: of the unit in a cell. by_absent, middle, users: see Layout.
    """
    averages = [item.average for item in aggregates.values() if item.average is not None]
    spans = [over or 1 for item in aggregates.values() if item.distinct for over in item.overs]
    layout = Layout(averages, events, by_absent, middle, [], None, max(spans, default=1), users)
    outputs = tuple(
        aggregate.output(name, layout.under(aggregate.where))
        for name, aggregate in aggregates.items()
    )
    return tuple(layout.channels), outputs


def overs_of(outputs: tuple[AggregateOutput, ...]) -> tuple[int | None, ...]:
    """Everything asked of any output: since the start first, then by length, longest first."""
    asked = {over for output in outputs for over in output.overs}
    return tuple(sorted(asked, key=lambda over: math.inf if over is None else over))[::-1]


def offer(program: Aggregates, terms: Terms) -> Offer[Aggregates]:
    """The error: sum over outputs and overs of weight * (worst error / one event's effect)^2."""
    if terms.groups is not None:
        groups, kind = terms.groups, program.loss(1).kind
        program = replace(
            program, groups=groups.names, times=groups.times(kind), most_keys=groups.keys
        )
    known = program.variances(terms.ticks())
    named = {
        f"{info.name} over={'all' if info.over is None else info.over}": info.stddev_worst
        for info in program.described(known)
    }
    return Offer(program, program.score(known), named)


def better(*ways: Strategy[Aggregates]) -> Strategy[Aggregates]:
    """The offer of the smallest error; ConfigError where there is none."""

    def best(budget: PrivacyLoss) -> Offer[Aggregates]:
        offers: list[Offer[Aggregates]] = []
        refused: list[ConfigError] = []
        for way in ways:
            try:
                offers.append(way(budget))
            except ConfigError as error:
                refused.append(error)
        if not offers:
            raise refused[0]
        return min(offers, key=lambda item: item.score)

    return best


Part = tuple[str | type[ContinualSum], ChannelLeaf]
"""What suits a leaf, by its name, or what alone serves it; and the leaf."""


def parts_of(leaf: ChannelLeaf, by_over: bool) -> list[Part]:
    """Leaves of what is to have a continual sum of its own, and the mechanism that suits each.

    What counts a user once a key and period is apart from the rest: it costs a fraction of it.
    ``by_over``: every span by itself too; windows are direct sliding sums, single ticks independent
    noise. Active users are apart span by span.
    """
    results: list[Part] = []
    active = tuple(output for output in leaf.outputs if counts_active(leaf, output))
    for over in overs_of(active):
        outputs = tuple(output for output in active if over in output.overs)
        results.append((ActiveUsers, ActiveLeaf(leaf.channels, outputs, (over,), leaf.terms)))
    learned = tuple(output for output in leaf.outputs if learns(output))
    results.extend(leaves_of(leaf, learned))
    active += learned
    for over in leaf.overs if by_over else (None,):
        spans = (over,) if by_over else leaf.overs
        for newcomers in (False, True):
            outputs = tuple(
                output
                for output in leaf.outputs
                if newcomers == counts_once(leaf, output)
                and set(spans) & set(output.overs)
                and output not in active
            )
            if outputs:
                overs = spans if by_over else overs_of(outputs)
                name = RUNNING if over is None else "independent" if over == 1 else "sliding"
                results.append((name, replace(leaf, outputs=outputs, overs=overs)))
    return results


def own_part(leaf: ChannelLeaf, output: AggregateOutput) -> bool:
    """Whether an output has a part of its own, whatever serves the others."""
    return counts_active(leaf, output) or learns(output)


def serves_own(leaf: ChannelLeaf, output: AggregateOutput, noise: str) -> bool:
    """Whether an output can have the noise in its own part. A learned clip has pure noise only
    where the guarantee or the config asks for it."""
    if counts_active(leaf, output):
        return noise in ActiveUsers.kinds
    asked = noise == "gaussian" or noise in noises_for(leaf.terms)
    return not learns(output) or (noise in LearnedSum.kinds and asked)


def counts_once(leaf: ChannelLeaf, output: AggregateOutput) -> bool:
    """Whether a user counts once a key and period in all that an output reads."""
    return replace(leaf, outputs=(output,), overs=output.overs).once


def apart(
    whole: ChannelLeaf,
    parts: Sequence[Part],
    name: str | None,
    budget: PrivacyLoss,
) -> Offer[Aggregates]:
    """A continual sum for each part, the budget split. name: of all of them; None: each its own.

    The error of a part is s / f (f its share of mu^2 or rho) or s / f^2 (f its share of epsilon),
    so the optimal f is proportional to s^(1/2) or s^(1/3).

    Formal guarantees: parts compose adaptively, each within its share.
    """

    def program(fractions: list[float]) -> Aggregates:
        built = []
        for (own, leaf), fraction in zip(parts, fractions, strict=True):
            part = share(budget, fraction)
            if isinstance(own, str) and isinstance(leaf, LearnedLeaf):
                mechanism: ContinualSum = leaf.mechanism(own, part)
            else:
                named = (name or own) if isinstance(own, str) else own
                mechanism = calibrated(named, leaf, leaf.terms, part)
            built.append(SumPart(mechanism, leaf.read, leaf.coordinates))
        return Aggregates(whole.channels, whole.outputs, tuple(built))

    trial = program([1 / len(parts) for _ in parts])
    known = trial.variances(whole.terms.ticks())
    errors = [
        sum(
            float(np.max(weight * known[over][channel]))
            for over in leaf.overs
            for output in leaf.outputs
            if over in output.overs
            for channel, weight in output.importance().items()
        )
        for _, leaf in parts
    ]
    power = 1 / 3 if budget.kind == "pure" else 1 / 2
    roots = [error**power for error in errors]
    return offer(program([root / sum(roots) for root in roots]), whole.terms)
