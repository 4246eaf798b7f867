"""One process steps declared keys in few blocks: releases are those of any number of blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transforms.doubles import events
from weir.dpcore.leaves.keys import PER_BLOCK
from weir.dpcore.plan import Plan
from weir.transforms.decode.canonical import Decoded
from weir.transforms.local import engine
from weir.transforms.local.engine import SMALL, LocalEngine, in_few_blocks
from weir.transforms.runtime import counters
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.sinks.targets import folder
from weir.transforms.sources.opened import BoundedEvents

START, HOUR, KEYS = 1_704_067_200_000_000, 3_600_000_000, 41
CONFIG = """
name: few
schema: {{time: t}}
key: {{column: k, {keys}}}
blocks: {blocks}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-13T12:00:00Z}}
privacy: {{epsilon: 1, delta: 1e-6, protect_for: 24 ticks}}
{what}
"""
SUMS = """aggregates:
  visits: {count: events, over: [all, 24]}
  paid: {sum: v, clip: [0, 10]}
  middle: {quantile: v, at: [0.5], edges: [0, 2, 4, 6, 10]}"""
ROWS = """model:
  algorithm: regression.erm
  target: w
  features: [v]
  every: 100
  cap: 4
  ranges: {v: [0, 10], w: [0, 10]}"""


def plan_of(blocks: int, n_keys: int = KEYS, what: str = SUMS, observed: bool = False) -> Plan:
    names = ", ".join(f"key{i}" for i in range(n_keys))
    keys = "observed_keys_are_public: true" if observed else f"declared: [{names}]"
    return Plan.from_yaml(CONFIG.format(blocks=blocks, keys=keys, what=what))


class Given(BoundedEvents):
    """Events of all but a few of the keys."""

    def splits(self) -> Iterator[int]:
        yield from range(3)

    def decode(self, split: Any, alone: bool = True) -> Iterator[Decoded]:
        rng = np.random.default_rng(split)
        times = START + rng.integers(0, 300 * HOUR, 2_000)
        keys = [f"key{i}" for i in rng.integers(0, KEYS - 3, 2_000)]
        yield Decoded(events(times, keys, rng.gamma(2, 2, 2_000)), None)


def files_of(
    plan: Plan, secret: SecretRef, out: Path, blocks: tuple[int, ...] | None = None
) -> dict[str, bytes]:
    target = folder(plan, str(out), "parquet")
    LocalEngine(plan, secret, blocks=blocks).run(Given(), target)
    return {one.name: one.read_bytes() for one in sorted(out.glob("ticks-*"))}


@pytest.mark.slow
@pytest.mark.parametrize(("blocks", "small", "expected"), [(4, 0, 2), (16, 0, 2), (64, SMALL, 1)])
def test_files_have_the_same_bytes_in_any_number_of_blocks(
    tmp_path: Path,
    secret: SecretRef,
    monkeypatch: pytest.MonkeyPatch,
    blocks: int,
    small: int,
    expected: int,
) -> None:
    monkeypatch.setattr(engine, "SMALL", small)
    plan, keys = plan_of(blocks), in_few_blocks(plan_of(blocks))
    assert keys.blocks == expected and keys.declared == plan.keys.declared
    few = files_of(plan, secret, tmp_path / "few")
    assert len(few) == 3 and few == files_of(plan, secret, tmp_path / "all", plan.keys.live_blocks)


@pytest.mark.parametrize("small", [0, SMALL])
@pytest.mark.parametrize("blocks", [1, 2, 4, 16])
def test_ticks_count_as_those_of_all_blocks(
    tmp_path: Path, secret: SecretRef, monkeypatch: pytest.MonkeyPatch, blocks: int, small: int
) -> None:
    """A run is held to what its plan owes, in blocks that are not those that it steps."""
    monkeypatch.setattr(engine, "SMALL", small)
    plan = plan_of(blocks)
    counters.reset()
    files_of(plan, secret, tmp_path / "out")
    assert plan.clock.ticks is not None and len(plan.keys.live_blocks) == blocks
    assert counters.snapshot()["ticks_released"] == plan.clock.ticks * blocks


@pytest.mark.slow
def test_what_is_not_known_or_too_much_keeps_its_blocks() -> None:
    for plan in (plan_of(1), plan_of(16, observed=True), plan_of(16, what=ROWS)):
        assert in_few_blocks(plan) is plan.keys
    edges = ", ".join(map(str, range(4097)))
    wide = f"{SUMS}\n  spread: {{histogram: v, edges: [{edges}], over: 240}}"
    assert in_few_blocks(plan_of(16, what=wide)) == plan_of(16).keys, "few have much state"
    assert in_few_blocks(plan_of(64, what=wide)).blocks == 16
    many = plan_of(16, 3 * PER_BLOCK)
    assert in_few_blocks(many).blocks == 4
    assert in_few_blocks(plan_of(4, 3 * PER_BLOCK)).blocks == 4
