"""The aggregates section and the terms -> a program over the best continual sums."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.aggregates.aggregate import Aggregate
from weir.dpcore.aggregates.channel import Channel
from weir.dpcore.aggregates.layout import Layout
from weir.dpcore.aggregates.leaf import ChannelLeaf
from weir.dpcore.aggregates.output import Output
from weir.dpcore.aggregates.people import ONLY
from weir.dpcore.aggregates.program import Aggregates, Part
from weir.dpcore.aggregates.selection import selecting
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.pricing.best import SPLIT, Offer, Way, best_way, sums_for
from weir.dpcore.pricing.calibrate import calibrated
from weir.dpcore.pricing.price import Alternative, share
from weir.dpcore.pricing.terms import Terms, events_of

RUNNING = "blt"
SPLIT_INTO = (RUNNING, "sliding", "independent")


def compile_aggregates(
    aggregates: Mapping[str, Aggregate], terms: Terms
) -> tuple[Aggregates, tuple[Alternative, ...]]:
    """Prices every alternative for what was asked and takes the best.

    Raises:
      ConfigError: nothing (or not what the user named) can serve the plan.
    """
    refuse_users(aggregates, terms)

    def ways(noise: str) -> dict[str, Way[Aggregates]]:
        on_integers = noise == "discrete_gaussian"
        channels, outputs = outputs_of(aggregates, on_integers, events_of(terms))
        leaf = ChannelLeaf(channels, outputs, overs_of(outputs), terms)

        def joint(mechanism: ContinualSum) -> Offer[Aggregates]:
            part = Part(mechanism, leaf.read, leaf.coordinates)
            return offer(Aggregates(channels, outputs, (part,)), terms)

        by_user, by_both = parts_of(leaf, by_over=False), parts_of(leaf, by_over=True)
        found = sums_for(noise, leaf, terms, joint)
        if len(by_user) > 1:
            for name, way in found.items():
                found[name] = better(way, partial(apart, leaf, by_user, name))
        if noise == "gaussian" and len(by_both) > 1:
            found[SPLIT] = partial(apart, leaf, by_both, None)
        return {name: selecting(way, noise, terms) for name, way in found.items()}

    return best_way(terms, ways, SPLIT_INTO)


def refuse_users(aggregates: Mapping[str, Aggregate], terms: Terms) -> None:
    """Raises ConfigError: aggregates of users, in a plan that does not know any."""
    if terms.person is not None:
        return
    for name, one in aggregates.items():
        if one.of_users is not None:
            field, value, instead = one.of_users
            remedy = ONLY.format(instead=instead)
            raise ConfigError(f"aggregates.{name}.{field}", value, remedy)


def outputs_of(
    aggregates: Mapping[str, Aggregate], whole: bool, events: int = 1
) -> tuple[tuple[Channel, ...], tuple[Output, ...]]:
    """Channels in the order of a leaf, and outputs in the user's order.

    whole: counts live on the integers (discrete noise). events: of the unit in a cell.
    """
    centred = {(one.where, *one.centred) for one in aggregates.values() if one.centred is not None}
    layout = Layout(whole, centred, events)
    outputs = tuple(one.output(name, layout.under(one.where)) for name, one in aggregates.items())
    return tuple(layout.channels), outputs


def overs_of(outputs: tuple[Output, ...]) -> tuple[int | None, ...]:
    """Everything asked of any output: since the start first, then by length, longest first."""
    asked = {over for output in outputs for over in output.overs}
    return tuple(sorted(asked, key=lambda over: math.inf if over is None else over))[::-1]


def offer(program: Aggregates, terms: Terms) -> Offer[Aggregates]:
    """The error: sum over outputs and overs of weight * (worst error / one event's effect)^2."""
    ticks = terms.ticks()
    named = {
        f"{info.name} over={'all' if info.over is None else info.over}": info.stddev_worst
        for info in program.describe(ticks)
    }
    return Offer(program, program.score(ticks), named)


def better(*ways: Way[Aggregates]) -> Way[Aggregates]:
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
        return min(offers, key=lambda one: one.score)

    return best


def parts_of(leaf: ChannelLeaf, by_over: bool) -> list[tuple[str, ChannelLeaf]]:
    """Leaves of what is to have a continual sum of its own, and the mechanism that suits each.

    What counts a user once a key and period is apart from the rest: it costs a fraction of it.
    ``by_over``: every span by itself too; windows are direct sliding sums, single ticks independent
    noise.
    """
    found: list[tuple[str, ChannelLeaf]] = []
    for over in leaf.overs if by_over else (None,):
        spans = (over,) if by_over else leaf.overs
        for newcomers in (False, True):
            outputs = tuple(
                output
                for output in leaf.outputs
                if newcomers == counts_once(leaf, output) and set(spans) & set(output.overs)
            )
            if outputs:
                overs = spans if by_over else overs_of(outputs)
                name = RUNNING if over is None else "independent" if over == 1 else "sliding"
                found.append((name, ChannelLeaf(leaf.channels, outputs, overs, leaf.terms)))
    return found


def counts_once(leaf: ChannelLeaf, output: Output) -> bool:
    """Whether a user counts once a key and period in all that an output reads."""
    return ChannelLeaf(leaf.channels, (output,), output.overs, leaf.terms).once


def apart(
    whole: ChannelLeaf,
    parts: list[tuple[str, ChannelLeaf]],
    name: str | None,
    budget: PrivacyLoss,
) -> Offer[Aggregates]:
    """A continual sum for each part, the budget split. name: of all of them; None: each its own.

    The error of a part is s / f (f its share of mu^2 or rho) or s / f^2 (f its share of epsilon),
    so the optimal f is proportional to s^(1/2) or s^(1/3).

    Formal guarantees: parts compose adaptively, each within its share.
    """

    def program(fractions: list[float]) -> Aggregates:
        made = []
        for (own, leaf), fraction in zip(parts, fractions, strict=True):
            mechanism = calibrated(name or own, leaf, leaf.terms, share(budget, fraction))
            made.append(Part(mechanism, leaf.read, leaf.coordinates))
        return Aggregates(whole.channels, whole.outputs, tuple(made))

    trial = program([1 / len(parts) for _ in parts])
    ticks = whole.terms.ticks()
    errors = [
        sum(
            float(np.max(weight * trial.channel_variance(channel, over, ticks)))
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
