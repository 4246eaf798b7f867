"""The aggregates section and the terms -> a program over the best continual sums."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dpcore.accounting.guarantee import PrivacyLoss
from dpcore.aggregates.aggregate import Aggregate
from dpcore.aggregates.channel import Channel
from dpcore.aggregates.layout import Layout
from dpcore.aggregates.leaf import ChannelLeaf
from dpcore.aggregates.output import Output
from dpcore.aggregates.program import Aggregates, Part
from dpcore.continual.base import ContinualSum
from dpcore.pricing.best import SPLIT, Offer, Way, best_way, sums_for
from dpcore.pricing.calibrate import calibrated
from dpcore.pricing.price import Alternative, share
from dpcore.pricing.terms import Terms

RUNNING = "blt"
SPLIT_INTO = (RUNNING, "sliding", "independent")


def compile_aggregates(
    aggregates: Mapping[str, Aggregate], terms: Terms
) -> tuple[Aggregates, tuple[Alternative, ...]]:
    """Prices every alternative for what was asked and takes the best.

    Raises:
      ConfigError: nothing (or not what the user named) can serve the plan.
    """

    def ways(noise: str) -> dict[str, Way[Aggregates]]:
        channels, outputs = outputs_of(aggregates, whole=noise == "discrete_gaussian")
        leaf = ChannelLeaf(channels, outputs, overs_of(outputs), terms)

        def joint(mechanism: ContinualSum) -> Offer[Aggregates]:
            part = Part(mechanism, leaf.read, leaf.coordinates)
            return offer(Aggregates(channels, outputs, (part,)), terms)

        found = sums_for(noise, leaf, terms, joint)
        if noise == "gaussian" and len(leaf.overs) > 1:
            found[SPLIT] = lambda budget: offer(by_over(leaf, terms, budget), terms)
        return found

    return best_way(terms, ways, SPLIT_INTO)


def outputs_of(
    aggregates: Mapping[str, Aggregate], whole: bool
) -> tuple[tuple[Channel, ...], tuple[Output, ...]]:
    """Channels in the order of a leaf, and outputs in the user's order.

    whole: counts live on the integers (discrete noise).
    """
    centred = {one.centred for one in aggregates.values() if one.centred is not None}
    layout = Layout(whole, centred)
    outputs = tuple(one.output(name, layout) for name, one in aggregates.items())
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


def by_over(leaf: ChannelLeaf, terms: Terms, budget: PrivacyLoss) -> Aggregates:
    """One continual sum for each ``over``, each with the best mechanism for it alone, the budget
    split.

    Windows are direct sliding sums; single ticks independent noise. The error of a part is s / f (f
    its share of mu^2 or rho) or s / f^2 (f its share of epsilon), so the optimal f is proportional
    to s^(1/2) or s^(1/3).
    """
    names = {
        over: RUNNING if over is None else "independent" if over == 1 else "sliding"
        for over in leaf.overs
    }
    leaves = {
        over: ChannelLeaf(
            leaf.channels,
            tuple(output for output in leaf.outputs if over in output.overs),
            (over,),
            terms,
        )
        for over in leaf.overs
    }

    def program(fractions: dict[int | None, float]) -> Aggregates:
        parts = []
        for over, fraction in fractions.items():
            one = leaves[over]
            mechanism = calibrated(names[over], one, terms, share(budget, fraction))
            parts.append(Part(mechanism, one.read, one.coordinates))
        return Aggregates(leaf.channels, leaf.outputs, tuple(parts))

    trial = program({over: 1 / len(leaf.overs) for over in leaf.overs})
    ticks = terms.ticks()
    errors = {}
    for over in leaf.overs:
        errors[over] = sum(
            float(np.max(weight * trial.channel_variance(channel, over, ticks)))
            for output in leaves[over].outputs
            for channel, weight in output.importance().items()
        )
    power = 1 / 3 if budget.kind == "pure" else 1 / 2
    roots = {over: error**power for over, error in errors.items()}
    return program({over: root / sum(roots.values()) for over, root in roots.items()})
