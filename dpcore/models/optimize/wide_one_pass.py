"""One-pass models of more features than tables have: rows stay sparse from the event to the sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.models.blocks.wide_inputs import WideInputs
from weir.dpcore.models.optimize.one_pass import OnePass
from weir.dpcore.program import Bounded, OutputInfo


@dataclass(frozen=True)
class WideOnePass(OnePass):
    """``OnePass`` of the features of one list column.

    **Formal guarantees**: those of ``OnePass``. A row is bounded in the dual norm by
    ``WideInputs``, alone and exactly; void and missing ones keep their place. State is a few
    vectors of d numbers, whatever the events hold.

    Attributes:
      inputs: from the list column to rows. Others: see ``OnePass``; ``scaling`` is of the target.
    """

    inputs: WideInputs

    @property
    def width(self) -> int:
        """Numbers in a row: the features, then the target."""
        return self.inputs.width

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read: of lists, and the target."""
        return self.inputs.columns

    @property
    def lists(self) -> Mapping[str, int]:
        """See ``dpcore.leaves.sparse_rows.width_of``: list columns that are read whole."""
        return self.inputs.lists

    def bound(self, columns: Mapping[str, Any], n_events: int) -> Bounded:
        """``SparseRows`` (n_events, width) of float32 in [-1, 1], clipped in the lq norm."""
        return self.inputs.bound(columns, n_events)

    def own_units(self, theta: Floats) -> Floats:
        """See OnePass."""
        return self.inputs.in_units(theta, self.course.intercept, self.course.labels)

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released; models over hulls of unit vectors without their zeros."""
        theta, own = self.inputs.names(self.course.intercept)
        nan, moved = float("nan"), self.course.moved
        few = self.course.set.sparse
        return (
            OutputInfo("theta", None, len(theta), moved, nan, theta, few),
            OutputInfo("coefficients", None, len(own), moved, nan, own, few),
            OutputInfo("model_of", None, 2, 0.0, nan, ("first", "last")),
        )

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        plain = {name: value for name, value in super().canonical().items() if name != "scaling"}
        return {**plain, "inputs": self.inputs.canonical()}
