"""Pricing: every continual sum that can serve what was asked, calibrated to the same promise and
compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpcore.accounting.guarantee import Loss
from dpcore.accounting.joint import ChannelGroup, group_sensitivity, joint_sensitivity, split_scales
from dpcore.aggregates.output import Output
from dpcore.aggregates.program import Aggregates, Part
from dpcore.errors import ConfigError
from dpcore.pricing.price import round_up, within_memory
from dpcore.pricing.question import Question
from dpcore.registry import CONTINUAL_SUMS

SLACK = 1.05
"""Among mechanisms within 5 % of the smallest error, the one with the smallest state is chosen."""


def share(budget: Loss, fraction: float) -> Loss:
    """A fraction of a budget: mu in squares, rho and epsilon straight; rounded down."""
    value = budget.value * (math.sqrt(fraction) if budget.kind == "gdp" else fraction)
    return Loss(budget.kind, value * (1 - 1e-12))


def build_part(
    name: str,
    question: Question,
    members: Sequence[Output],
    overs: tuple[int | None, ...],
    budget: Loss,
) -> Part:
    """One calibrated continual sum over the channels that ``members`` read, its noise split
    optimally."""
    channels = tuple(sorted({channel for output in members for channel in output.channels}))
    groups, resolutions, start = [], [], 0
    for channel in channels:
        info = question.channels[channel]
        groups.append(info.group(start))
        resolutions.append(info.resolution)
        start += info.size
    cls = CONTINUAL_SUMS[name]
    common: dict[str, Any] = {
        "overs": overs,
        "window": question.window,
        "horizon": question.horizon,
        "budget": budget,
    }
    settings = getattr(cls, "settings", {})
    common.update({key: value for key, value in question.options if key in settings})
    trial = cls.calibrated(dimension=start, scales=(1.0,) * start, sensitivity=1.0, **common)
    within_memory(name, trial.state_bytes())
    ticks = question.ticks()
    worst = {over: float(trial.factor(ticks, over).max()) for over in overs}
    importance = dict.fromkeys(channels, 0.0)
    for output in members:
        for over in output.overs:
            for channel, weight in output.importance().items():
                if over in worst:
                    importance[channel] += weight * worst[over]
    sensitivities = [
        group_sensitivity(group, question.relation, question.may_vanish) * step
        for group, step in zip(groups, resolutions, strict=True)
    ]
    split = split_scales(np.asarray(sensitivities), np.asarray([importance[c] for c in channels]))
    scales = [
        float(scale) / step
        for scale, group, step in zip(split, groups, resolutions, strict=True)
        for _ in range(group.size)
    ]
    scales = [round_up(scale) for scale in scales]
    sensitivity = sensitivity_of(name, groups, scales, question, budget)
    if sensitivity == 0:
        raise ConfigError(
            "aggregates",
            [output.name for output in members],
            "nothing here depends on what a neighbour changes: counts are public under "
            "replace_one. Use relation: add_remove to protect them.",
        )
    mechanism = cls.calibrated(
        dimension=start, scales=tuple(scales), sensitivity=sensitivity, **common
    )
    mechanism = replace(mechanism, noise_scale=round_up(mechanism.noise_scale))
    starts = np.cumsum([0, *(channel.size for channel in question.channels)])
    coordinates = tuple(
        int(starts[c]) + i for c in channels for i in range(question.channels[c].size)
    )
    return Part(mechanism, channels, coordinates)


def sensitivity_of(
    name: str,
    groups: Sequence[ChannelGroup],
    scales: Sequence[float],
    question: Question,
    budget: Loss,
) -> float:
    """Joint l2 sensitivity for a mechanism.

    Under replace_anywhere the two versions of a record may lie in different ticks or keys. The
    bound max(same cell, sqrt(||v||^2 + ||v'||^2)) needs losses that add in squares and a strategy
    whose columns have no negative inner product. Pure epsilon adds ||v|| + ||v'||, and sliding sums
    have negative coefficients: both get the sum of the norms.
    """
    scale = np.asarray(scales)
    if question.relation == "replace_anywhere" and (
        budget.kind == "pure" or CONTINUAL_SUMS[name].signed
    ):
        return 2 * joint_sensitivity(groups, scale, "add_remove", question.may_vanish)
    return joint_sensitivity(groups, scale, question.relation, question.may_vanish)


def score_of(program: Aggregates, question: Question) -> float:
    """Sum over outputs and overs of weight * (worst error / largest effect of one event)^2."""
    ticks = question.ticks()
    total = 0.0
    for output in question.outputs:
        for over in output.overs:
            variances = sum(
                weight * program.channel_variance(channel, over, ticks)
                for channel, weight in output.importance().items()
            )
            total += float(np.max(variances))
    return total


def joint(name: str, question: Question, budget: Loss) -> Aggregates:
    """Everything in one continual sum."""
    part = build_part(name, question, question.outputs, question.overs, budget)
    return Aggregates(question.channels, question.outputs, (part,))


def by_over(question: Question, budget: Loss, running: str) -> Aggregates:
    """One continual sum for each ``over``, each with the best mechanism for it alone, the budget
    split.

    ``running`` serves running totals; windows are direct sliding sums; single ticks independent
    noise. The error of a part is s / f (f its share of mu^2 or rho) or s / f^2 (f its share of
    epsilon), so the optimal f is proportional to s^(1/2) or s^(1/3).
    """
    names = {
        over: running if over is None else "independent" if over == 1 else "sliding"
        for over in question.overs
    }
    members = {
        over: [output for output in question.outputs if over in output.overs]
        for over in question.overs
    }

    def program(fractions: dict[int | None, float]) -> Aggregates:
        parts = tuple(
            build_part(names[over], question, members[over], (over,), share(budget, f))
            if len(question.overs) > 1
            else build_part(names[over], question, members[over], (over,), budget)
            for over, f in fractions.items()
        )
        return Aggregates(question.channels, question.outputs, parts)

    even = {over: 1 / len(question.overs) for over in question.overs}
    if len(even) == 1:
        return program(even)
    trial = program(even)
    ticks = question.ticks()
    errors = {}
    for over in question.overs:
        errors[over] = sum(
            float(np.max(weight * trial.channel_variance(channel, over, ticks)))
            for output in members[over]
            for channel, weight in output.importance().items()
        )
    power = 1 / 3 if budget.kind == "pure" else 1 / 2
    roots = {over: error**power for over, error in errors.items()}
    return program({over: root / sum(roots.values()) for over, root in roots.items()})
