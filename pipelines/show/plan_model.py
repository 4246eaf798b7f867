"""``weir plan`` of a model: what is learned and released, with which noise, and what is known of
it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from dpcore.models.config import PROJECTION_FREE, ModelConfig
from dpcore.models.notes import releases_loss
from dpcore.plan import Plan
from dpcore.registry import MODELS
from pipelines.show import plan_regression
from pipelines.terminal import number, span, table

SHOWN = 8
"""Columns that are named; of more, how many there are."""

WORDS = {
    "theta": "coefficients in scaled units, as played at the tick",
    "coefficients": "the same in the columns' own units",
    "loss": "losses since the start, and per tick",
}

SIZES = {
    "l1_ball": "l1 ball of radius {0:g}",
    "l2_ball": "l2 ball of radius {0:g}",
    "simplex": "simplex of total {0:g}",
    "permutations": "permutations of {0} things",
}


def facts_table(plan: Plan, model: ModelConfig) -> RenderableType:
    """What is learned, of what, where, and with which noise."""
    rows = table("", "")
    rows.show_header = False
    for name, words in facts(plan, model):
        rows.add_row(name, Text(words))
    return rows


def facts(plan: Plan, model: ModelConfig) -> Iterator[tuple[str, str]]:
    """Name and words of each fact."""
    takes = MODELS[model.algorithm].takes
    yield "algorithm", f"{model.algorithm}: {MODELS[model.algorithm].title}"
    yield "predicts", f"{', '.join(model.targets)}, with loss {loss_words(model.loss)}"
    yield "from", columns_words(model)
    yield "coefficients in", f"{set_words(model.set)}, dimension {model.dimension}"
    if takes("clip.gradient"):
        yield "one event adds", clip_words(model, releases_loss(plan.program))
    for name, worst in gradient_noise(plan).items():
        yield f"noise of {name}", f"{number(worst)} (std of a coordinate, worst tick)"
    if plan_regression.is_regression(model):
        yield from plan_regression.facts(plan, model)
        return
    yield "curvature", curvature_words(model)
    if model.algorithm == PROJECTION_FREE:
        yield "step", model.step.replace("_", " ")
    yield "regret", getattr(plan.program, "regret", "-")


def gradient_noise(plan: Plan) -> dict[str, float]:
    """What the private sums behind the model have for noise, but for what is released itself."""
    chosen = next((a for a in plan.alternatives if a.chosen), None)
    found: dict[str, float] = {}
    for name, worst in (chosen.stddev if chosen is not None else {}).items():
        what = name.partition(" over=")[0]
        if what not in WORDS and math.isfinite(worst):
            found["the gradient sum" if what == "gradient" else what] = worst
    return found


def releases_table(plan: Plan, facts: Mapping[str, Any], width: float) -> RenderableType:
    """Every output, and its error where one can be told before any data is there."""
    rows = table(
        "name", "what", "over", "values", "noise (std)", "95 % band",
        right=("values", "noise (std)", "95 % band"),
    )  # fmt: skip
    model = plan.config.model
    if model is not None and plan_regression.is_regression(model):
        for cells in plan_regression.rows_of(plan, facts, width):
            rows.add_row(*cells)
        return rows
    for release in facts["releases"]:
        worst = release["stddev_worst"]
        rows.add_row(
            release["name"],
            WORDS.get(release["name"], ""),
            span(release["over"]),
            f"{release['dimension']:,}",
            "-" if worst is None else number(worst),
            "-" if worst is None else f"± {number(width * worst)}",
        )
    return rows


def notes(plan: Plan, model: ModelConfig, facts: Mapping[str, Any]) -> Iterator[str]:
    """What the table of releases leaves open."""
    if plan_regression.is_regression(model):
        yield from plan_regression.notes(plan, model)
        return
    yield (
        "A model is fixed before its tick's events are seen: it follows from what was released "
        "before. Its distance to the model without noise is not additive and has no band."
    )
    if any(release["name"] == "loss" for release in facts["releases"]):
        yield (
            f"The loss is in scaled units, that of an event at most {model.clip.loss:g}; its noise "
            "is that of the total, per tick it is divided by the number of ticks."
        )


def refused(model: ModelConfig) -> Iterator[str]:
    """Which values are moved, and which events are not learned from."""
    sums = plan_regression.drops_bad_events(model)
    for name in model.columns[:SHOWN] if len(model.columns) > 2 * SHOWN else model.columns:
        low, high = model.ranges[name]
        yield f"values of {name} are moved into [{low:g}, {high:g}]" + (
            ""
            if sums
            else f"; missing and non-finite ones count as {(low + high) / 2:g}, the middle"
        )
    if len(model.columns) > 2 * SHOWN:
        yield f"and so are those of {len(model.columns) - SHOWN:,} more columns, into their ranges"
    if sums:
        yield "an event with a missing or non-finite number counts as none"
    if model.inputs is not None:
        yield "an event outside model.inputs counts as none, where features are projected"
    if not MODELS[model.algorithm].takes("cap"):
        return
    yield f"of more than {model.cap:,} events of a key and tick, a keyed hash chooses {model.cap:,}"


def loss_words(loss: str | Mapping[str, Any]) -> str:
    """squared; quantile 0.9."""
    if isinstance(loss, str):
        return loss
    return ", ".join(f"{name} {value}" for name, value in loss.items())


def columns_words(model: ModelConfig) -> str:
    """Names of the features, and whether there is a constant term."""
    names = ", ".join(model.features[:SHOWN])
    more = len(model.features) - SHOWN
    if more > 0:
        names += f" and {more:,} more"
    return names + (", and a constant" if model.intercept else "")


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


def clip_words(model: ModelConfig, with_loss: bool) -> str:
    """What one event may add."""
    gradient = f"a gradient of l2 norm at most {number(model.clip.gradient)}"
    loss = f", and a loss of at most {number(model.clip.loss)}" if with_loss else ""
    return f"{gradient}{loss} (scaled units)"


def curvature_words(model: ModelConfig) -> str:
    """The public regulariser, or that there is none."""
    if model.own_curvature:
        return f"{model.curvature:g}, the loss's own: nothing is added"
    centre = "0"
    if model.centre is not None and any(model.centre):
        shown = ", ".join(f"{one:g}" for one in model.centre[:SHOWN])
        centre = f"[{shown}{', ...' if len(model.centre) > SHOWN else ''}]"
    return f"{model.curvature:g} a tick, public, around {centre}"
