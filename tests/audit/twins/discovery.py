"""Keys that are found privately, by a rule that lacks one of the things that its proof needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.audit.twins.twin import Aim, config, patched, twin
from weir.dpcore.audit.changes import Placed
from weir.pipelines.audit import trial as once


def found(
    users: int, ticks: int = 6, mechanism: str = "blt", delta: float = 0.01, each: int = 1
) -> str:
    """A config of keys that need so many users; a user has so many ticks."""
    caps = f"unit: user, per: all, contributions: {{ticks: {each}, keys: 1, events: 1}}"
    return (
        config(
            "aggregates: {n: {count: events}}",
            f"{{continual_sum: {mechanism}, noise: gaussian}}",
            ticks=ticks,
            window="all",
            epsilon=1.0,
            delta=delta,
            form="parquet",
            schema="{time: at, unit: who}",
        )
        .replace("declared: [north, south]", f"discover: {{min_users: {users}}}")
        .replace("relation: add_remove", caps)
    )


def at(tick: int, users: int = 1, slot: int = 0) -> tuple[Placed, ...]:
    """An event each of so many users."""
    return (Placed(slot, tick, 0),) * users


@contextmanager
def ruled(change: Callable[[Any], Any]) -> Iterator[None]:
    """Another rule finds keys than the plan tells of."""
    right = once.parts_of

    def wrong(*args: Any, **named: Any) -> Any:
        parts = right(*args, **named)
        return replace(parts, plan=replace(parts.plan, discovery=change(parts.plan.discovery)))

    with patch.object(once, "parts_of", wrong):
        yield


@twin(
    "noise from birth",
    found(1, ticks=15, mechanism="tree").replace("nowhere/out", "nowhere/out, every: 1"),
    "all releases",
    aim=Aim(at(0), behind=at(14, 24), whole=True),
)
def noise_from_birth() -> Iterator[None]:
    """Of a tree over 15 ticks the last sum has the noise of four nodes, or that of one. Files of a
    tick each make strides of a tick each."""

    def from_birth(right: Any) -> Any:
        def ready(program: Any, rule: Any, noises: Any, block: Any, low: int) -> Any:
            names, cells, faint = block.faint.split(rule.users)
            if not names:
                return block, cells
            begun = rule.start(low)
            late = cells.between(begun, low)
            users = np.zeros(len(names), dtype=np.int64)
            np.add.at(users, late.rows, late.values[:, rule.leaf])
            born = block.tested.joined(names, users, program.init(len(names)))
            shift = len(block.tested.names)
            return block._replace(tested=born, faint=faint), cells._replace(rows=cells.rows + shift)

        return ready

    with patched("weir.dpcore.discovery.step._ready", from_birth):
        yield


def gains(counts: Any) -> Any:
    """(n, K) whether data came."""
    return np.diff(counts, axis=0, prepend=0) > 0


@twin(
    "tests only when data come",
    found(1),
    "all releases",
    aim=Aim(at(5), behind=at(0, 10), whole=True),
)
def tests_only_with_data() -> Iterator[None]:
    def only_with_data(right: Any) -> Any:
        def passed(rule: Any, counts: Any, noisy: Any, bars: Any) -> Any:
            return right(rule, counts, noisy, bars) & gains(counts)

        return passed

    with patched("weir.dpcore.discovery.step.passed", only_with_data):
        yield


@twin(
    "silent keys evicted",
    found(1),
    "all releases",
    aim=Aim(at(1), behind=at(0, 10), whole=True),
)
def silent_evicted() -> Iterator[None]:
    def forgetful(right: Any) -> Any:
        def passed(rule: Any, counts: Any, noisy: Any, bars: Any) -> Any:
            held, lost, came = np.zeros_like(counts), np.zeros_like(counts[0]), gains(counts)
            for tick in range(len(counts)):
                before = counts[tick - 1] if tick else np.zeros_like(lost)
                lost = np.where(came[tick], lost, before)
                held[tick] = counts[tick] - lost
            return right(rule, held, noisy - (counts - held), bars)

        return passed

    with patched("weir.dpcore.discovery.step.passed", forgetful):
        yield


@twin(
    "a threshold for one user where five are needed",
    found(5),
    "all releases",
    aim=Aim(at(2), behind=at(0, 4), whole=True),
)
def threshold_for_one() -> Iterator[None]:
    def low(rule: Any) -> Any:
        class Low(type(rule)):  # type: ignore[misc]
            def thresholds(self, first: int, stop: int) -> Any:
                fewer = (self.discover.min_users - 1) * self.step
                return super().thresholds(first, stop) - fewer

        return Low(**{one.name: getattr(rule, one.name) for one in fields(rule)})

    with ruled(low):
        yield


@twin(
    "keys of a tick in place of a period",
    found(1, delta=0.1, each=6),
    "all releases",
    aim=Aim(tuple(Placed(slot, slot, 0) for slot in range(6)), slots=6, whole=True),
)
def keys_of_a_tick() -> Iterator[None]:
    """A user alone at six keys, one a tick, is found at any of them."""
    with ruled(lambda rule: replace(rule, touched=1)):
        yield
