"""What is known in public of a stream's sizes and values, so that synthetic events have its shape.

A file of it, for ``--like``, is YAML; every field may be left out::

    keys: {north: 1500, south: 500}     # events a tick of each; or events: 2000, of all keys
    users: 300                          # different people in all
    values:
      amount: {median: 20, p95: 90}     # many small, few large: log-normal
      hours: {low: 0, high: 24}         # all alike
      grade: {mean: 5, std: 2}          # a bell
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from scipy.special import ndtri

from weir.dpcore.config import yaml
from weir.dpcore.config.schema import FEWEST_EVENTS, MOST_EVENTS
from weir.dpcore.config.section import Says, Section, refusal
from weir.dpcore.config.validation import validate
from weir.dpcore.errors import ConfigError

Floats = NDArray[np.float64]
_P95 = 1.6448536269514722

Count = Annotated[
    float,
    Field(ge=FEWEST_EVENTS, le=MOST_EVENTS, allow_inf_nan=False),
    Says("must be a finite number above 0."),
]
Number = Annotated[float, Field(allow_inf_nan=False), Says("must be a finite number.")]


class ValueSpread(Section):
    """How the values of a column are spread: by two of its numbers."""

    median: Number | None = Field(default=None, description="Half of the values are below it.")
    p95: Number | None = Field(default=None, description="19 of 20 values are below it.")
    low: Number | None = Field(default=None, description="The least value.")
    high: Number | None = Field(default=None, description="The largest value.")
    mean: Number | None = Field(default=None, description="The mean of the values.")
    std: Number | None = Field(default=None, description="Their standard deviation.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        value = set(self.model_fields_set)
        if value not in ({"median", "p95"}, {"low", "high"}, {"mean", "std"}):
            raise refusal(
                "",
                sorted(value),
                "must be median and p95 (many small, few large), low and high (all alike), or mean "
                "and std (a bell).",
            )
        if self.median is not None and self.p95 is not None and not 0 < self.median < self.p95:
            raise refusal("median", self.median, "must lie above 0 and below p95.")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise refusal("low", self.low, "must lie below high.")
        if self.std is not None and not self.std >= 0:
            raise refusal("std", self.std, "must be 0 or more.")
        return self

    def values(self, u: Floats) -> Floats:
        """Uniform numbers in (0, 1) -> values."""
        if self.median is not None and self.p95 is not None:
            wide = math.log(self.p95 / self.median) / _P95
            return np.asarray(self.median * np.exp(wide * ndtri(u)))
        if self.low is not None and self.high is not None:
            return self.low + (self.high - self.low) * u
        assert self.mean is not None and self.std is not None
        return np.asarray(self.mean + self.std * ndtri(u))


class Shape(Section):
    """Public sizes of a stream. Write down what is known of it, and nothing that was counted in
    private events."""

    events: Count | None = Field(default=None, description="Events a tick, of all keys together.")
    keys: Mapping[str, Count] | None = Field(
        default=None, description="Events a tick of each key, by its name in releases."
    )
    users: Annotated[int, Field(ge=1, le=1 << 40), Says("must be 1 or more.")] | None = Field(
        default=None, description="Different people in the whole stream."
    )
    values: dict[str, ValueSpread] = Field(
        default_factory=dict, description="Column -> how its values are spread."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.events is not None and self.keys is not None:
            raise refusal(
                "events", self.events, "cannot be combined with keys, which say it of each."
            )
        if self.keys is not None and not self.keys:
            raise refusal("keys", {}, "must name at least one key.")
        return self

    @property
    def each_tick(self) -> float | None:
        """Events a tick; None: it does not say."""
        return self.events if self.keys is None else sum(self.keys.values())


def load_shape(path: Path) -> Shape:
    """Reads a file of it.

    Raises:
      ConfigError: names ``--like`` or the field that is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ConfigError("--like", str(path), "cannot be read; name a YAML file.") from None
    return validate(Shape, yaml.parse_mapping(text, {}), "like")
