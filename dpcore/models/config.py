"""The model section: which model, of which columns, over which set, within which public bounds.

Everything is in scaled units but ``ranges``: a feature and the target are mapped from their range
to [-1, 1], and the coefficients, the set, the clips and the losses are about those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from dpcore.config.event import Column, column_name
from dpcore.config.limits import FARTHEST, MOST_TICKS, NEAREST
from dpcore.config.section import Section, nearest, refusal
from dpcore.registry import MODELS

PROJECTION_FREE = "online.conditional_gradient"
RADIUS = 2.0
"""Of the default set, in scaled units: the target's whole range is 2."""
MOST_ROWS = 1 << 20
MOST_COEFFICIENTS = 1 << 16
MOST = 1 << 40
"""Of anything that is counted."""
SMALLEST_CLIP = 2.0**-8
"""Below, rows on their lattice would be too coarse."""


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _loss(value: Any) -> Any:
    if not isinstance(value, str | Mapping):
        raise ValueError("must be a name, like squared, or {quantile: 0.9}.")
    return value


Numbers = Annotated[tuple[float, ...], BeforeValidator(_as_tuple)]
Columns = Annotated[tuple[Column, ...], BeforeValidator(_as_tuple)]
Loss = Annotated[
    str | dict[str, Any],
    BeforeValidator(_loss, json_schema_input_type=str | dict[str, Any]),
]


def default_gradient_clip(dimension: int) -> float:
    """L where none is given: rows have norm at most sqrt(d), so an event whose loss has slope 1/2
    (squared: a prediction that is off by a quarter of the target's range) is never clipped."""
    return math.sqrt(dimension) / 2


def _target(value: Any) -> Any:
    """column | [column, ...] -> text or a tuple."""
    listed = value if isinstance(value, list | tuple) else [value]
    if not listed:
        raise ValueError("must name at least one column.")
    for name in listed:
        if not isinstance(name, str):
            raise ValueError("must be a column, or a list of columns.")
        column_name(name)
    return tuple(listed) if isinstance(value, list | tuple) else value


def _over(value: Any) -> Any:
    """all | N -> None or N."""
    if value == "all" or value is None:
        return "all"
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_TICKS:
        raise ValueError("must be all, or a number of ticks from 1 to 2^40.")
    return value


def _every(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("must be a number of ticks, 1 or more, or the name of a rule.")
    return value


Target = Annotated[
    str | tuple[str, ...], BeforeValidator(_target, json_schema_input_type=str | list[str])
]
Span = Annotated[
    Literal["all"] | int, BeforeValidator(_over, json_schema_input_type=Literal["all"] | int)
]
Every = Annotated[int | str, BeforeValidator(_every, json_schema_input_type=int | str)]


class ModelClip(Section):
    """Bounds of what one event may contribute, in scaled units. Public: never from the data."""

    gradient: float = Field(
        default_factory=lambda: default_gradient_clip(1),
        description="L: gradients of an event with a larger l2 norm are shortened to it; noise "
        "grows with it. Without it: half the root of the number of coefficients.",
        examples=[1.0],
    )
    loss: float = Field(
        default=1.0,
        description="B: the largest loss of an event that counts in the released running loss; 0 "
        "releases no loss.",
        examples=[1.0],
    )
    features: float | None = Field(
        default=None,
        description="X: an event whose features and constant have a larger l2 norm is scaled down "
        "to it as a whole, target and all, so that it counts for less and moves no model. Noise "
        "grows with its square. Without it: the root of the number of coefficients, which no "
        "event exceeds.",
        examples=[1.0],
    )
    target: float | None = Field(
        default=None,
        description="Y: targets (the vector of them, where there are several) of a larger l2 norm "
        "are shortened to it. Without it: the root of the number of targets, which none exceeds.",
        examples=[1.0],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("features", "target"):
            value = getattr(self, name)
            if value is not None and not (SMALLEST_CLIP <= value <= FARTHEST):
                raise refusal(name, value, f"must be a finite number, {SMALLEST_CLIP:g} or more.")
        if not (NEAREST <= self.gradient <= FARTHEST):
            raise refusal("gradient", self.gradient, "must be a finite number above 0, like 1.0.")
        if not (self.loss == 0 or NEAREST <= self.loss <= FARTHEST):
            raise refusal("loss", self.loss, "must be a finite number above 0, or 0 for no loss.")
        return self


class Projection(Section):
    """A public random map of the features to fewer dimensions."""

    dimension: int | None = Field(
        default=None,
        description="m, dimensions that are left. Without it: by the rule of the widths.",
        examples=[40],
    )
    constant: float = Field(
        default=1.0,
        description="Factor of the rule that chooses the dimension.",
        examples=[1.0],
    )
    seed: int = Field(
        default=0,
        description="Chooses the map, which is public and must not depend on the data.",
        examples=[0],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.dimension is not None and not 1 <= self.dimension <= MOST_COEFFICIENTS:
            raise refusal(
                "dimension", self.dimension, f"must be a number from 1 to {MOST_COEFFICIENTS:,}."
            )
        if not (NEAREST <= self.constant <= FARTHEST):
            raise refusal("constant", self.constant, "must be a finite number above 0, like 1.0.")
        if not 0 <= self.seed < 1 << 63:
            raise refusal("seed", self.seed, "must be a whole number from 0 to 2^63 - 1.")
        return self


class ModelConfig(Section):
    """A linear model that is learned and released at every tick, instead of aggregates."""

    algorithm: str = Field(
        description="Name of a learner; `weir algorithms` lists them.",
        examples=["online.follow_the_leader"],
    )
    features: Columns = Field(
        description="Numeric columns that predict; one coefficient each, in this order.",
        examples=[["departure_delay", "distance"]],
    )
    target: Target = Field(
        description="Numeric column that is predicted; losses of labels read its sign once scaled. "
        "regression.incremental takes a list of columns too, and fits a model for each.",
        examples=["arrival_delay"],
    )
    intercept: bool = Field(
        default=True,
        description="Whether the model has a constant term, its last coefficient.",
        examples=[True],
    )
    ranges: dict[str, Numbers] = Field(
        description="[low, high] of every feature and the target: values outside are moved to the "
        "nearer bound, then scaled to [-1, 1]. Public: choose them from what you know, never from "
        "the data.",
        examples=["{departure_delay: [-30, 120], distance: [0, 5000], arrival_delay: [-60, 180]}"],
    )
    loss: Loss = Field(
        default="squared",
        description="squared, absolute, {quantile: tau}, {huber: width}, logistic or hinge.",
        examples=["squared", "{quantile: 0.9}"],
    )
    set: dict[str, Any] = Field(
        default={"l2_ball": RADIUS},
        description="Where the coefficients lie, in scaled units: {l1_ball: r}, {l2_ball: r}, "
        "{simplex: 1}, {box: [low, high]}, {polytope: {vertices: [...]}}, {product: [...]}, "
        "{trace_norm_ball: ...}, {permutations: n}, {flow: ...}, {lp_ball: {radius: r, p: 1.5}} or "
        "{group_l1_ball: {radius: r, groups: 3}}. Without it: {l2_ball: 2}, or "
        "{l1_ball: 2} for online.conditional_gradient.",
        examples=["{l1_ball: 5}"],
    )
    clip: ModelClip = Field(
        default_factory=ModelClip,
        description="Bounds of one event's gradient and loss.",
        examples=["{gradient: 1.0, loss: 1.0}"],
    )
    curvature: float = Field(
        default=1.0,
        description="mu: weight of the public (mu/2) |x - centre|^2 that every tick adds, empty "
        "ones too. About a tenth of the events that a key has in a tick: with much less a model "
        "swings and follows the noise, with much more it hardly leaves the centre. regression.erm "
        "adds none unless it is given.",
        examples=[1.0],
    )
    centre: Numbers | None = Field(
        default=None,
        description="Where the curvature pulls to, and models start if the set holds it; in scaled "
        "units, a number a coefficient; 0 without it.",
        examples=[[0.5, 0.0]],
    )
    own_curvature: bool = Field(
        default=False,
        description="True: every tick's loss is mu-strongly convex by itself (one event a tick), "
        "so that no curvature is added.",
        examples=[False],
    )
    step: Literal["line_search", "constant"] = Field(
        default="line_search",
        description="Step of online.conditional_gradient: exact line search, or the constant of "
        "the theorem.",
        examples=["line_search"],
    )
    cap: int = Field(
        default=4096,
        description="Most events of a key and tick that are learned from; of more, a keyed hash "
        "chooses, and the others are counted as over capacity.",
        examples=[4096],
    )
    weight: float = Field(
        default=0.1,
        description="Share of the squared budget that the running loss takes from the gradients.",
        examples=[0.1],
    )
    ridge: float | None = Field(
        default=None,
        description="Weight of the |x|^2 that is added to the sum of squared errors, in events of "
        "scaled units: what noise does to directions that few events show fades with it. Without "
        "it: the size of the noise at each tick as the set lets it in, which is public; 0 adds "
        "none.",
        examples=[10.0],
    )
    solver: str = Field(
        default="accelerated",
        description="How the private objective is minimised: accelerated, to the tolerance, or "
        "noisy_projected_gradient, the paper's constant steps and averaged iterate. Of "
        "regression.erm: noisy_projected_gradient (its default), with noise on every full "
        "gradient, or noisy_sgd, on the gradients of batches.",
        examples=["accelerated"],
    )
    tolerance: float = Field(
        default=1e-9,
        description="Gap at which the accelerated solver stops, relative to the objective's size.",
        examples=[1e-9],
    )
    steps: int | None = Field(
        default=None,
        description="Most steps of the solver. Without it: its own rule.",
        examples=[1000],
    )
    error: bool = Field(
        default=False,
        description="Whether mean squared error and R^2 are released too. They need the sum of "
        "squared targets, for which the noise of everything is a little larger.",
        examples=[True],
    )
    statistics: bool = Field(
        default=False,
        description="Whether the noisy moments themselves are released too, as moments.",
        examples=[True],
    )
    over: Span = Field(
        default="all",
        description="all: a model of everything since the start; N: of the last N ticks.",
        examples=["all"],
    )
    projection: Projection = Field(
        default_factory=Projection,
        description="Of regression.projected: the random map to fewer dimensions.",
        examples=["{dimension: 40}"],
    )
    inputs: dict[str, Any] | None = Field(
        default=None,
        description="Of regression.projected: the set of small width that features are in, like "
        "{k_sparse: 10} or {l1_ball: 1}; an event outside counts as none, and is counted.",
        examples=["{k_sparse: 10}"],
    )
    every: Every | None = Field(
        default=None,
        description="Ticks between two runs of the private solver, or a rule: convex, "
        "strongly_convex or frank_wolfe. In between the last model is released again.",
        examples=[24],
    )
    rows: int | None = Field(
        default=None,
        description="Most rows of a key that are kept. Public; needed where the clock has no end.",
        examples=[100000],
    )
    iterations: int | None = Field(
        default=None,
        description="Most iterations of one run of the private solver.",
        examples=[200],
    )

    @property
    def dimension(self) -> int:
        """d, number of coefficients."""
        return len(self.features) + self.intercept

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read: features, then the targets."""
        return (*self.features, *self.targets)

    @property
    def targets(self) -> tuple[str, ...]:
        """Columns that are predicted."""
        return (self.target,) if isinstance(self.target, str) else self.target

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        """Defaults that follow from other fields."""
        if not isinstance(data, Mapping):
            return data
        filled = dict(data)
        features, clip = filled.get("features"), filled.get("clip")
        known = MODELS.get(str(filled.get("algorithm")))
        if known is not None:
            filled = {**known.defaults, **filled}
        if known is not None and not known.takes("clip.gradient"):
            return filled
        if isinstance(features, list | tuple) and (clip is None or isinstance(clip, Mapping)):
            dimension = len(features) + (filled.get("intercept", True) is True)
            gradient = default_gradient_clip(max(1, dimension))
            filled["clip"] = {"gradient": gradient, **(clip or {})}
        if filled.get("set") is None and filled.get("algorithm") == PROJECTION_FREE:
            filled["set"] = {"l1_ball": RADIUS}
        return filled

    @field_validator("algorithm")
    @classmethod
    def _algorithm(cls, value: str) -> str:
        if value not in MODELS:
            near = nearest(value, list(MODELS))
            raise ValueError(f"is not a learner here; {near} `weir algorithms` tells more.")
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_columns()
        self._check_ranges()
        self._check_numbers()
        return self

    def _check_columns(self) -> None:
        if not self.features:
            raise refusal("features", [], "must list at least one column.")
        if self.dimension > MOST_COEFFICIENTS:
            raise refusal(
                "features", len(self.features), f"must be at most {MOST_COEFFICIENTS - 1:,}."
            )
        if not isinstance(self.target, str) and not MODELS[self.algorithm].many_targets:
            raise refusal(
                "target", list(self.target), f"must be one column, as text, for {self.algorithm}."
            )
        if len(set(self.targets)) < len(self.targets):
            raise refusal("target", list(self.targets), "lists a column twice; list each once.")
        seen: dict[str, None] = {}
        for name in self.features:
            if name in self.targets:
                raise refusal(
                    "target",
                    name,
                    "is among the features too: it would predict itself; remove it from one.",
                )
            if name in seen:
                raise refusal("features", name, "is listed twice; list every column once.")
            seen[name] = None

    def _check_ranges(self) -> None:
        for name in self.columns:
            if name not in self.ranges:
                raise refusal(
                    f"ranges.{name}",
                    None,
                    "is missing; every feature and the target needs a public range, like "
                    f"`{name}: [0, 100]`.",
                )
        for name, bounds in self.ranges.items():
            if name not in self.columns:
                raise refusal(
                    f"ranges.{name}",
                    list(bounds),
                    f"is neither a feature nor the target; {nearest(name, self.columns)}",
                )
            if len(bounds) != 2 or not all(math.isfinite(bound) for bound in bounds):
                raise refusal(
                    f"ranges.{name}", list(bounds), "must be two finite numbers: [low, high]."
                )
            low, high = bounds
            if low >= high:
                raise refusal(
                    f"ranges.{name}", list(bounds), "must be [low, high] with low below high."
                )
            if max(abs(low), abs(high)) > FARTHEST or high - low < NEAREST:
                raise refusal(
                    f"ranges.{name}",
                    list(bounds),
                    f"must lie in [-{FARTHEST:g}, {FARTHEST:g}], its bounds {NEAREST:g} or more "
                    "apart; rescale the column.",
                )

    def _check_numbers(self) -> None:
        none = self.curvature == 0 == MODELS[self.algorithm].defaults.get("curvature")
        if not (none or NEAREST <= self.curvature <= FARTHEST):
            raise refusal("curvature", self.curvature, "must be a finite number above 0, like 1.0.")
        if self.centre is not None and not all(math.isfinite(one) for one in self.centre):
            raise refusal("centre", list(self.centre), "must hold finite numbers.")
        if self.centre is not None and len(self.centre) != self.dimension:
            raise refusal(
                "centre",
                list(self.centre),
                f"must hold {self.dimension} numbers, one a coefficient ({self._coefficients()}).",
            )
        self._check_settings()
        if not 1 <= self.cap <= MOST_ROWS:
            raise refusal("cap", self.cap, f"must be a whole number from 1 to {MOST_ROWS:,}.")
        if not 0 < self.weight < 1:
            raise refusal("weight", self.weight, "must lie between 0 and 1, like 0.1.")

        if self.ridge is not None and not 0 <= self.ridge <= FARTHEST:
            raise refusal("ridge", self.ridge, "must be a finite number, 0 or more.")
        if not 0 < self.tolerance < 1:
            raise refusal("tolerance", self.tolerance, "must lie between 0 and 1, like 1e-9.")
        for name in ("steps", "rows", "iterations"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MOST:
                raise refusal(name, value, f"must be a whole number from 1 to {MOST:,}.")

    def _check_settings(self) -> None:
        """What the algorithm does not read is refused by name."""
        model = MODELS[self.algorithm]
        if model.takes("solver") and self.solver not in model.solvers:
            raise refusal("solver", self.solver, f"must be one of {', '.join(model.solvers)}.")
        given = self.model_dump(include=self.model_fields_set)
        for name in type(self).model_fields:
            if name in given and not model.takes(name):
                raise refusal(
                    name, given[name], f"is not a setting of {self.algorithm}; remove it."
                )
        for name in ModelClip.model_fields:
            if name in self.clip.model_fields_set and not model.takes(f"clip.{name}"):
                value = getattr(self.clip, name)
                raise refusal(
                    f"clip.{name}", value, f"is not a setting of {self.algorithm}; remove it."
                )

    def _coefficients(self) -> str:
        names = [*self.features, *(["intercept"] if self.intercept else [])]
        return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
