"""Operators without state between batches, as DoFns: Filter and Solve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from weir.dpcore.plan import Plan
from weir.transforms.beam.elements import tagged
from weir.transforms.beam.step import Step
from weir.transforms.operators.filter import Assign, Filter
from weir.transforms.operators.solve import Solve
from weir.transforms.operators.stride import NoisyStride


class FilterDoFn(Step):
    """Batches of decoded events -> those that count; dead letters tagged "dead".

    Args:
      plan: the public plan. keep: columns that something downstream needs; see ``Assign``.
    """

    def __init__(self, plan: Any, keep: Iterable[str]) -> None:
        self._plan, self._keep = plan, tuple(keep)
        self._start()  # a predicate that cannot be read is refused before anything runs

    def _start(self) -> None:
        self._rejected: list[pa.RecordBatch] = []
        assign = Assign(self._plan, self._keep)
        self._filter = Filter(assign, self._rejected.append)

    def __getstate__(self) -> dict[str, Any]:
        return {"_plan": self._plan, "_keep": self._keep}

    def setup(self) -> None:
        """Builds the tables once per worker."""
        self._start()

    def process(self, element: pa.RecordBatch) -> Iterator[Any]:
        """One batch."""
        yield from self._filter.process(element)
        yield from tagged(self._rejected)


class SolveDoFn(Step):
    """NoisyStride -> one release batch."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._solve: Solve | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_solve": None}

    def setup(self) -> None:
        """Builds the columns that never change."""
        self._solve = Solve(self._plan)

    def process(self, stride: NoisyStride) -> Iterator[pa.RecordBatch]:
        """Solves all keys of a stride at once."""
        assert self._solve is not None
        yield from self._solve.process(stride)
