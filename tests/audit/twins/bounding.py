"""Events that weigh more than they may."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.audit.twins.twin import CSV, IDS, SUM, behind, patched, stepping, twin
from weir.dpcore.aggregates.channel import Contribution


@contextmanager
def past_the_clip(which: Callable[[Any], Any], times: float) -> Iterator[None]:
    """Values of a kind become ``times`` the upper end of the clip, and are held by nothing."""

    def loose(right: Any) -> Any:
        def clip_values(values: Any, low: float, high: float, fill: float = 0.0) -> Any:
            found = right(values, low, high, fill)
            found.values[which(values)] = times * high
            return found

        return clip_values

    def unbounded(right: Any) -> Any:
        def contribution(self: Any, values: Any) -> Any:
            found = right(self, values)
            if self.kind == "value":
                moved = values - self.centre
                far = np.abs(moved) > 1.5 * self.half
                found.amount[far] = np.rint(moved[far] / self.resolution)
            return found

        return contribution

    with (
        patched("weir.dpcore.aggregates.bounding.clip_values", loose),
        patched("weir.dpcore.aggregates.channel.Channel.contribution", unbounded),
    ):
        yield


@twin("NaN past the clip", CSV, "other changes")
def nan_passes() -> Iterator[None]:
    with past_the_clip(np.isnan, 1e3):
        yield


@twin("infinity past the clip", CSV, "other changes")
def infinity_passes() -> Iterator[None]:
    with past_the_clip(np.isinf, 20.0):
        yield


@twin("deduplication off", IDS, "other changes")
def every_copy() -> Iterator[None]:
    def all_count(right: Any) -> Any:
        return lambda held: np.ones_like(right(held))

    with patched("weir.transforms.operators.deduplicate.which_count", all_count):
        yield


@twin("clip after the sum", SUM, "other changes")
def sums_clipped() -> Iterator[None]:
    """One event may move a clipped sum from one end to the other."""

    def loose(right: Any) -> Any:
        return lambda values, low, high, fill=0.0: right(values, 1e3 * low, 1e3 * high, fill)

    def whole(right: Any) -> Any:
        def contribution(self: Any, values: Any) -> Any:
            return Contribution(None, np.rint((values - self.centre) / self.resolution))

        return contribution

    def held(program: Any) -> Any:
        most = round(program.channels[0].half / program.channels[0].resolution)
        return stepping(program, before=lambda leaves: np.clip(leaves, -most, most))

    with (
        patched("weir.dpcore.aggregates.bounding.clip_values", loose),
        patched("weir.dpcore.aggregates.channel.Channel.contribution", whole),
        behind(held),
    ):
        yield
