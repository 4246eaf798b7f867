"""Models in words: sets, losses, columns, and which algorithm would serve better."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weir.dpcore.algorithm import Shown
from weir.dpcore.config.schema import ListColumn
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import Program, takes_rows
from weir.dpcore.words import listing, number

SHOWN = 8
"""Things that are named; of more, how many there are."""

SIZES = {
    "l1_ball": "l1 ball of radius {0:g}",
    "l2_ball": "l2 ball of radius {0:g}",
    "simplex": "simplex of total {0:g}",
    "permutations": "permutations of {0} things",
}

CLIPPED = {
    "gradient": "gradients longer than {:.4g} are shortened to it",
    "features": "features of a norm above {:.4g} are shortened to it",
    "target": "targets of a norm above {:.4g} are shortened to it",
}
"""Fields of ``model.clip`` -> what they do, in scaled units."""

OWN_UNITS = Shown("in the columns' own units", role="model")
"""The release ``coefficients``."""


def loss_words(loss: str | Mapping[str, Any]) -> str:
    """squared; quantile 0.9."""
    if isinstance(loss, str):
        return loss
    return ", ".join(f"{name} {value}" for name, value in loss.items())


def columns_words(
    features: Sequence[str], intercept: bool, listed: ListColumn | None = None
) -> str:
    """Names of the features, and whether there is a constant term. listed: their list column."""
    if listed is not None:
        column = f"column {listed.column}"
        if listed.column is None:
            column = f"columns {listed.indices} and {listed.values}"
        return f"{listed.size:,} features of {column}" + (", and a constant" if intercept else "")
    names = ", ".join(features[:SHOWN])
    more = len(features) - SHOWN
    if more > 0:
        names += f" and {more:,} more"
    return names + (", and a constant" if intercept else "")


def set_words(spec: Mapping[str, Any]) -> str:
    """A set in words; what is too long for a line by its name."""
    ((name, value),) = spec.items()
    if name in SIZES and isinstance(value, int | float):
        return SIZES[name].format(value)
    if name == "box" and all(isinstance(end, int | float) for end in value):
        return f"box [{value[0]:g}, {value[1]:g}]"
    if name == "product":
        parts = [set_words({k: v for k, v in part.items() if k != "size"}) for part in value]
        return " x ".join(parts[:SHOWN]) + (" x ..." if len(parts) > SHOWN else "")
    if name == "polytope":
        return f"polytope of {len(value['vertices']):,} vertices"
    if name == "trace_norm_ball":
        m, n = value["shape"]
        return f"trace norm ball of radius {value['radius']:g}, {m} x {n} matrices"
    if name == "flow":
        return f"unit flows over {len(value['edges']):,} edges"
    return name.replace("_", " ")


def centre_words(curvature: float, centre: Sequence[float] | None) -> str:
    """The public regulariser."""
    shown = "0"
    if centre is not None and any(centre):
        some = ", ".join(f"{item:g}" for item in centre[:SHOWN])
        shown = f"[{some}{', ...' if len(centre) > SHOWN else ''}]"
    return f"{curvature:g} a tick, public, around {shown}"


def bounds_words(output: str, clips: Mapping[str, float | None], program: Program) -> str:
    """What ranges, clips and caps on rows do to a release of a model.

    Args:
      clips: bounds on one event by the field of ``model.clip``; None: no event exceeds it.
    """
    results = ["values outside their ranges count as the nearer bound"]
    results += [text.format(clips[name]) for name, text in CLIPPED.items() if clips.get(name)]
    if output == "loss" and clips.get("loss"):
        results.append(f"losses above {clips['loss']:.4g} count as that")
    if takes_rows(program):
        most, who = program.cap, "events"
        if program.most_users is not None:
            most, who = program.most_users, "users"
        results.append(f"at most {most:,} {who} of a key and tick count")
    return listing(results)


FEW = 6
"""Coefficients up to which regression.incremental had the smaller error late in a stream."""
MANY = 8
"""Coefficients from which online.follow_the_leader had it."""
LEADER, MOMENTS, ROWS = "online.follow_the_leader", "regression.incremental", "regression.erm"


def advice(
    name: str, squared: bool, coefficients: int, fades: bool | None, terms: Terms
) -> Iterator[str]:
    """Sentences for a plan.

    Args:
      name: of the algorithm. squared: whether that is its loss. coefficients: d.
      fades: whether its regularisation does; None: there is none, or the user chose it.
    """
    if fades is False and terms.events is None:
        yield (
            "The regularisation grows with the ticks and never fades. Say how many events a "
            "key has in a tick, as `expect: {events: 2000}`, and leave model.curvature out: then "
            "it fades, and steps fit."
        )
    elif name == ROWS and squared:
        yield (
            f"For squared losses {LEADER} (to predict the next events) and {MOMENTS} (to describe "
            "all so far, with margins) have less error at most ticks. This is for a few exact "
            "models: at four fits in all (model.every) its last one is nearer than theirs."
        )
    elif name == MOMENTS and coefficients >= MANY:
        yield (
            f"With {coefficients:,} coefficients {LEADER} has less noise, "
            f"{_times(coefficients):.1f} times less in a sum that a model follows, and is the one "
            "to predict next events, unless features change as slowly as seasons do. This "
            "describes all events so far, with margins."
        )
    elif name == LEADER and squared and fades and coefficients <= FEW:
        yield (
            f"With {coefficients:,} coefficients and squared losses {MOMENTS} comes as near or "
            "nearer late in a stream, and has margins; this learns sooner, and follows what drifts."
        )


def _times(d: int) -> float:
    """Noise in a sum of products over that in a sum of gradients, both of events that are evenly
    spread: sensitivities sqrt(2) |x|^2 (x x^T), with |x|^2 = (d + 2) / 3, and 2 L = sqrt(d)."""
    return math.sqrt(2) * (d + 2) / 3 / math.sqrt(d)


FEWER = "fewer features, coarser keys"
"""What of a model of sums is to be less where noise hides it."""


def noisy_excess(
    features: int, intercept: bool, stddev: float, events: float, curvature: float = 1.0
) -> float:
    """Excess of a mean loss by noise in a sum over events whose features are spread evenly over
    their ranges: second moments are 1/3 of each, and 1 of the constant.

    Args:
      stddev: of a coordinate of the noise in the sum that a model solves. curvature: of the loss.
    """
    return (3 * features + intercept) / (2 * curvature) * (stddev / events) ** 2


def hidden(excess: float, constant: float, fewer: str = "fewer features") -> Iterator[str]:
    """A warning where noise may hide a model.

    Args:
      excess: predicted. constant: what a constant loses. fewer: what is to be less.
    """
    if excess > constant / 4:
        yield (
            f"Noise may hide most of this model: predicted excess {number(excess)} of the "
            f"{number(constant)} that a constant loses. Take more records, {fewer} or more "
            "epsilon."
        )
