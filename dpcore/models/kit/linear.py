"""What programs of linear models share: rows by public ranges, and how models are named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.models.kit.rows import Scaling
from weir.dpcore.program import Bounded, OutputInfo, Released, RowProgram

NAN = float("nan")


class ScaledRows(RowProgram):
    """A program of rows of features and a target, each scaled by its public range.

    Attributes:
      scaling: the public ranges.
    """

    scaling: Scaling

    @property
    def width(self) -> int:
        """Numbers in a row: the features, then the target."""
        return len(self.scaling.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns that are read."""
        return tuple(dict.fromkeys(self.scaling.columns))

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Rows (n_events, width) float64 in [-1, 1]: scaled by the public ranges."""
        return self.scaling.bound(columns, n_events)


def released_models(
    theta: Floats, coefficients: Floats | None, behind: Floats | None = None
) -> tuple[Released, ...]:
    """Models in scaled units (n, K, d), the same in the user's (None where features are mapped),
    and what is behind each (n, K, 2)."""
    named = (("theta", theta), ("coefficients", coefficients), ("model_of", behind))
    return tuple(Released(name, None, x, None) for name, x in named if x is not None)


def model_outputs(
    theta: tuple[str, ...],
    coefficients: tuple[str, ...] | None,
    moved: float,
    sparse: bool = False,
    behind: bool = False,
) -> tuple[OutputInfo, ...]:
    """What a plan says of ``released_models``. A model's error is not additive: NaN.

    Args:
      theta, coefficients: names of their numbers. moved: most that one event changes.
      sparse: see ``OutputInfo``. behind: whether what is behind each model is released.
    """
    found = [OutputInfo("theta", None, len(theta), moved, NAN, theta, sparse)]
    if coefficients is not None:
        own = coefficients
        found.append(OutputInfo("coefficients", None, len(own), moved, NAN, own, sparse))
    if behind:
        found.append(OutputInfo("model_of", None, 2, 0.0, NAN, ("first", "last")))
    return tuple(found)


def names_of_models(scaling: Scaling, intercept: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the numbers of theta and of coefficients, of features that are columns."""
    features = scaling.columns[:-1]
    own = (*features, "intercept")
    return own if intercept else features, own
