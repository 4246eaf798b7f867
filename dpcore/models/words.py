"""A model's set, loss and columns in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weir.dpcore.algorithm import Shown
from weir.dpcore.config.schema import ListColumn
from weir.dpcore.program import Program, by_users, takes_rows
from weir.dpcore.words import listing

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

OWN_UNITS = Shown("the same in the columns' own units", role="model")
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
        some = ", ".join(f"{one:g}" for one in centre[:SHOWN])
        shown = f"[{some}{', ...' if len(centre) > SHOWN else ''}]"
    return f"{curvature:g} a tick, public, around {shown}"


def bounds_words(output: str, clips: Mapping[str, float | None], program: Program) -> str:
    """What ranges, clips and caps on rows do to a release of a model.

    Args:
      clips: bounds on one event by the field of ``model.clip``; None: no event exceeds it.
    """
    found = ["values outside their ranges count as the nearer bound"]
    found += [text.format(clips[name]) for name, text in CLIPPED.items() if clips.get(name)]
    if output == "loss" and clips.get("loss"):
        found.append(f"losses above {clips['loss']:.4g} count as that")
    if takes_rows(program):
        most, who = program.cap, "events"
        if by_users(program) and program.most_users is not None:
            most, who = program.most_users, "users"
        found.append(f"at most {most:,} {who} of a key and tick count")
    return listing(found)
