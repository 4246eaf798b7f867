"""Public random maps of features: made before any data, the same bits on every CPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.kit.rows import STEP
from weir.dpcore.noise.gaussian import PublicNormals

MOST_INPUTS = 1 << 12
"""Features that are mapped, at most: sums of products are exact, in any order."""
_GRID = 2.0**-16
_HALF_PI_HIGH = float.fromhex("0x1.921fb544p+0")  # 33 bits: exact times any turn
_HALF_PI_LOW = float.fromhex("0x1.0b4611a626331p-34")
_SINE = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(9, -1, -1))
_COSINE = tuple((-1) ** k / math.factorial(2 * k) for k in range(9, -1, -1))


class FeatureMap(Protocol):
    """A public function of one row's scaled features.

    Attributes:
      outputs: numbers that come out.
    """

    @property
    def outputs(self) -> int: ...

    def apply(self, features: Floats) -> Floats:
        """(n, p) whole multiples of ``STEP`` in [-1, 1] -> (n, outputs)."""

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""


@dataclass(frozen=True)
class MapProjection:
    """z = G x / sqrt(k), G of standard normals: keeps lengths about, in k dimensions.

    Attributes:
      inputs: p. outputs: k. seed: public.
    """

    inputs: int
    outputs: int
    seed: int

    name: ClassVar[str] = "projection"

    @cached_property
    def _matrix(self) -> Floats:
        """(p, k) whole multiples of 2^-16."""
        return _matrix(self.name, self.inputs, self.outputs, self.seed, 1.0)

    def apply(self, features: Floats) -> Floats:
        return _products(features, self._matrix) / math.sqrt(self.outputs)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"name": self.name, "outputs": self.outputs, "seed": self.seed}


@dataclass(frozen=True)
class RandomFourier:
    """z = (cos(G x / s), sin(G x / s)) / sqrt(k / 2): inner products near exp(-|x - x'|^2 / 2 s^2).

    Its l2 norm is 1. Source: Rahimi, Recht (2007).

    Attributes:
      inputs: p. outputs: k, even. seed: public. scale: s.
    """

    inputs: int
    outputs: int
    seed: int
    scale: float

    name: ClassVar[str] = "random_fourier"

    def __post_init__(self) -> None:
        if self.outputs % 2:
            raise ConfigError(
                "model.map.random_fourier", self.outputs, "must be even: a cosine and a sine each."
            )

    @cached_property
    def _matrix(self) -> Floats:
        """(p, k / 2) whole multiples of 2^-16."""
        return _matrix(self.name, self.inputs, self.outputs // 2, self.seed, self.scale)

    def apply(self, features: Floats) -> Floats:
        cosine, sine = circle(_products(features, self._matrix))
        return np.concatenate([cosine, sine], axis=1) / math.sqrt(self.outputs / 2)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "name": self.name,
            "outputs": self.outputs,
            "seed": self.seed,
            "scale": self.scale.hex(),
        }


def _matrix(name: str, inputs: int, outputs: int, seed: int, scale: float) -> Floats:
    """Public normals over the scale, on a grid on which sums of products are exact."""
    if inputs > MOST_INPUTS:
        raise ConfigError("model.map", inputs, f"features are more than {MOST_INPUTS:,}.")
    normals = PublicNormals(f"feature map {name}".encode(), seed).draw(0, inputs, outputs)
    steps = np.clip(np.rint(normals / (scale * _GRID)), -(2.0**20), 2.0**20)
    return np.asarray(steps * _GRID)


def _products(features: Floats, matrix: Floats) -> Floats:
    """Products of whole numbers below 2^20 and 2^20, 2^12 of them in a sum: exact in any order."""
    whole = np.rint(features * (1.0 / STEP)) @ (matrix * (1.0 / _GRID))
    return np.asarray(whole * (STEP * _GRID))


def circle(angles: Floats) -> tuple[Floats, Floats]:
    """Cosine and sine to about 2^-48 for angles below 2^19, by + - * and roundings alone."""
    turns = np.rint(angles * (2.0 / math.pi))
    rest = (angles - turns * _HALF_PI_HIGH) - turns * _HALF_PI_LOW
    square = rest * rest
    sine, cosine = np.full_like(rest, _SINE[0]), np.full_like(rest, _COSINE[0])
    for s, c in zip(_SINE[1:], _COSINE[1:], strict=True):
        sine = sine * square + s
        cosine = cosine * square + c
    sine *= rest
    quarter = turns - 4.0 * np.floor(turns / 4.0)
    odd = (quarter == 1.0) | (quarter == 3.0)
    first, second = np.where(odd, sine, cosine), np.where(odd, cosine, sine)
    first = np.where((quarter == 1.0) | (quarter == 2.0), -first, first)
    return first, np.where(quarter >= 2.0, -second, second)
