"""Faults that libraries of this kind have had, one of each class, as changes of our own code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.audit.twins.bounding import past_the_clip, sums_clipped
from tests.audit.twins.twin import REPLACED, SUM, config, patched
from weir.dpcore.accounting.guarantee import PrivacyLoss

BLT = "weir.dpcore.continual.blt.Blt"
SUMMED = "weir.dpcore.continual.base.ContinualSum"
USERS = config(schema="{time: at, unit: who}").replace(
    "relation: add_remove",
    "unit: user, per: all, contributions: {ticks: 3, keys: 1, events: 2}",
)
TWO = USERS.replace("aggregates: {", "aggregates: {u: {count: users, over: 3}, ")
TWO = TWO.replace("mechanism: {continual_sum: blt, noise: gaussian}", "")


@dataclass(frozen=True)
class Mutant:
    """A fault.

    Attributes:
      name: of its class. config: under which it hurts. change: makes it so inside. catches: part
        of what is then broken.
    """

    name: str
    config: str
    change: Callable[[], AbstractContextManager[None]]
    catches: str


MUTANTS: list[Mutant] = []


def mutant(name: str, text: str, catches: str) -> Callable[..., Any]:
    """Registers a generator function as a mutant."""

    def register(function: Callable[[], Iterator[None]]) -> None:
        MUTANTS.append(Mutant(name, text, contextmanager(function), catches))

    return register


@mutant("sensitivity computed from data", SUM, "sensitivity of call")
def scale_of_data() -> Iterator[None]:
    def step(right: Any) -> Any:
        def stepped(self: Any, state: Any, leaves: Any, noise: Any) -> Any:
            most = max(1.0, float(np.abs(leaves).max())) / max(self.scales)
            own = replace(self, sensitivity=most, noise_scale=self.noise_scale * most)
            return right(own, state, leaves, noise)

        return stepped

    with patched(f"{SUMMED}.step", step):
        yield


@mutant("noise forgotten on a branch", SUM, "is 0 at")
def quiet_ticks() -> Iterator[None]:
    def draw(right: Any) -> Any:
        def drawn(self: Any, own: Any, chain: Any, leaf_digests: Any, noise: Any) -> Any:
            own, out = right(self, own, chain, leaf_digests, noise)
            out[~leaf_digests.any(axis=2)] = 0
            return own, out

        return drawn

    with patched("weir.dpcore.continual.blt.BufferedSum.draw", draw):
        yield


@mutant("budget split wrong", SUM, "times the declared deviation")
def each_takes_all() -> Iterator[None]:
    """Noise is drawn as if each of two sums had the whole budget."""

    def draw(right: Any) -> Any:
        def drawn(self: Any, *args: Any) -> Any:
            return right(replace(self, noise_scale=self.noise_scale / np.sqrt(2)), *args)

        return drawn

    with patched("weir.dpcore.continual.blt.BufferedSum.draw", draw):
        yield


@mutant("seed reuse", SUM, "same noise twice")
def one_seed() -> Iterator[None]:
    def streams(right: Any) -> Any:
        def of(self: Any, purpose: int, labels: Any, digests: Any) -> Any:
            return right(self, purpose, np.zeros_like(labels), np.zeros_like(digests))

        return of

    with patched("weir.dpcore.noise.prf.KeyedNoise._streams", streams):
        yield


@mutant("noise that does not follow the data", SUM, "stays when its data change")
def label_alone() -> Iterator[None]:
    def streams(right: Any) -> Any:
        def of(self: Any, purpose: int, labels: Any, digests: Any) -> Any:
            return right(self, purpose, labels, np.zeros_like(digests))

        return of

    with patched("weir.dpcore.noise.prf.KeyedNoise._streams", streams):
        yield


@mutant("clip after the sum", SUM, "more than its sensitivity")
def clip_late() -> Iterator[None]:
    with sums_clipped():
        yield


@mutant("unit confusion", USERS, "within 4 ticks")
def user_as_event() -> Iterator[None]:
    def units(right: Any) -> Any:
        return lambda form, rows, pattern: right(form, rows, None)

    with patched("weir.dpcore.continual.blt.units_of", units):
        yield


@mutant("early stop on private values", SUM, "called")
def skip_empty() -> Iterator[None]:
    def step(right: Any) -> Any:
        def stepped(self: Any, state: Any, leaves: Any, noise: Any) -> Any:
            if not leaves.any():
                return state, tuple(np.zeros(leaves.shape) for _ in self.overs)
            return right(self, state, leaves, noise)

        return stepped

    with patched(f"{SUMMED}.step", step):
        yield


@mutant("data-dependent defaults", SUM, "more than its sensitivity")
def centre_of_data() -> Iterator[None]:
    """Values are counted from the last one that came, in place of the middle of the clip."""

    def contribution(right: Any) -> Any:
        def of(self: Any, values: Any) -> Any:
            last = np.nan_to_num(np.clip(values[-1:], -10, 10)).sum()
            return right(self, values - last)

        return of

    with patched("weir.dpcore.aggregates.channel.Channel.contribution", contribution):
        yield


@mutant("wrong neighbour", REPLACED, "more than its sensitivity")
def added_not_replaced() -> Iterator[None]:
    def joint(right: Any) -> Any:
        return lambda changes, scales, relation, *rest: right(changes, scales, "add_remove", *rest)

    with patched("weir.dpcore.aggregates.leaf.joint_sensitivity", joint):
        yield


@mutant("partial composition", TWO, "within 4 ticks")
def first_part_alone() -> Iterator[None]:
    def loss(right: Any) -> Any:
        def of(self: Any, ticks: Any) -> PrivacyLoss:
            return min((part.loss(ticks) for part in self.sums), key=lambda item: item.value)

        return of

    with patched("weir.dpcore.aggregates.program.Aggregates.loss", loss):
        yield


@mutant("post-processing that reads clean data", SUM, "reads private data")
def zero_where_empty() -> Iterator[None]:
    def step(right: Any) -> Any:
        def stepped(self: Any, state: Any, leaves: Any, noise: Any) -> Any:
            new, arrays = right(self, state, leaves, noise)
            return new, tuple(np.where(leaves.any(axis=2)[..., None], x, 0.0) for x in arrays)

        return stepped

    with patched("weir.dpcore.aggregates.program.Aggregates.step", step):
        yield


@mutant("float overflow", SUM, "more than its sensitivity")
def infinity() -> Iterator[None]:
    with past_the_clip(np.isinf, 20.0):
        yield


@mutant("exception path that releases", SUM, "answers without noise")
def released_on_error() -> Iterator[None]:
    """What cannot be drawn at large sums is released as it is."""

    def silent(self: Any, own: Any, chain: Any, digests: Any, noise: Any) -> Any:
        return own, np.zeros((*digests.shape[:2], self.dimension), dtype=np.int64)

    def step(right: Any) -> Any:
        def stepped(self: Any, state: Any, leaves: Any, noise: Any) -> Any:
            try:
                if np.abs(leaves).max() > 0.9 * max(self.scales):
                    raise OverflowError
            except OverflowError:
                with patched(f"{BLT}.draw", lambda _: silent):
                    return right(self, state, leaves, noise)
            return right(self, state, leaves, noise)

        return stepped

    with patched(f"{SUMMED}.step", step):
        yield
