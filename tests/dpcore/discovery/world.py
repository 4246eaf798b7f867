"""A program whose first coordinate counts users, a rule over it, and leaves of synthetic keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weir import Plan
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.config.key import DiscoverConfig
from weir.dpcore.discovery.rule import DiscoveryRule
from weir.dpcore.discovery.step import Piece, step
from weir.dpcore.discovery.waiting import Block, KeyCells
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.noise.key_ring import KeyRing
from weir.dpcore.noise.noise import is_pure
from weir.dpcore.noise.prf import KeyedNoise
from weir.dpcore.users.unit import Periods

DAY = 86_400_000_000


class Ring:
    """Keyed noise as simulate has it."""

    def __init__(self, rotate: Sequence[tuple[int, bytes]] = ()) -> None:
        self._ring = KeyRing.derive(bytes(range(32)), "found", bytes(32), rotate)
        self.edges, self.sampled = self._ring.edges, self._ring.sampled

    def noise_of(self, keys: Sequence[bytes], first_tick: int) -> Any:
        root = self._ring.at(first_tick)
        return lambda part: KeyedNoise(root, part, tuple(keys), first_tick)


def program_of(
    mechanism: str,
    noise: str = "gaussian",
    ticks: int = 24,
    over: Any = "all",
    epsilon: float = 2,
    spent: bool = True,
) -> Aggregates:
    end = np.datetime64("2025-01-01") + ticks
    more = f", spent: {{sum: x, clip: [0, 4], over: {over}}}" if spent else ""
    plan = Plan.from_yaml(f"""
name: found
schema: {{time: at}}
clock: {{start: 2025-01-01T00:00:00Z, period: 1d, end: "{end}T00:00:00Z"}}
privacy: {{epsilon: {epsilon}, delta: {0 if is_pure(noise) else 1e-6}, protect_for: all}}
aggregates: {{users: {{count: events, over: {over}}}{more}}}
mechanism: {{continual_sum: {mechanism}, noise: {noise}}}
""")
    program = plan.program
    assert isinstance(program, Aggregates)
    return program


def rule_of(
    program: Aggregates,
    ticks: int = 24,
    per: int | None = 8,
    min_users: int = 1,
    delta: float = 0.05,
    touched: int = 2,
    hidden: bool = False,
    **more: Any,
) -> DiscoveryRule:
    clock = Clock(0, DAY, ticks * DAY)
    part = program.parts[0]
    return DiscoveryRule(
        discover=DiscoverConfig(min_users=min_users, **more),
        periods=Periods(clock, None if per is None else per * DAY),
        touched=touched,
        delta=delta,
        mechanism=part.mechanism,
        coordinate=0,
        array=part.mechanism.overs.index(None),
        leaf=0,
        part=0,
        read=part.coordinates,
        step=round(1 / program.channels[0].resolution),
        hidden=hidden,
    )


def leaves_of(program: Aggregates, seed: int, ticks: int, n_keys: int, crowd: int = 60) -> Any:
    """(T, K, D) int64: few users of many keys, crowds of some."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.15, (ticks, n_keys))
    counts[:, ::3] += rng.poisson(crowd / ticks, (ticks, len(range(0, n_keys, 3))))
    out = np.zeros((ticks, n_keys, program.dimension), dtype=np.int64)
    out[:, :, 0] = counts * round(1 / program.channels[0].resolution)
    out[:, :, 1] = counts * rng.integers(0, 1000, counts.shape)
    return out


def stepped(
    program: Any,
    rule: DiscoveryRule,
    noises: Any,
    names: Sequence[bytes],
    leaves: Any,
    edges: Sequence[int],
) -> tuple[Block, list[Piece]]:
    """All ticks, cut at ``edges`` and wherever they must be."""
    block, pieces = Block.empty(program.dimension), []
    ticks = len(leaves)
    cuts = sorted({0, ticks, *edges, *rule.edges(0, ticks), *noises.edges(0, ticks)})
    for low, high in zip(cuts, cuts[1:], strict=False):
        tick, key = np.nonzero(leaves[low:high].any(axis=2))
        some = np.unique(key)
        rows = np.searchsorted(some, key)
        cells = KeyCells(tick + low, rows, leaves[low:high][tick, key])
        here = [names[i] for i in some.tolist()]
        block, found = step(program, rule, noises, block, here, cells, low, high)
        unborn = np.arange(high - low)[:, None] < found.births
        assert not any(array[unborn].any() for array in found.arrays), "nothing leaves before"
        pieces.append(found)
    return block, pieces


def by_key(pieces: Sequence[Piece]) -> dict[bytes, tuple[int, list[Any]]]:
    """Key -> (birth, its arrays (n, w) one after the other)."""
    found: dict[bytes, tuple[int, list[Any]]] = {}
    for piece in pieces:
        for row, key in enumerate(piece.keys):
            birth = int(piece.births[row])
            arrays = [array[birth:, row] for array in piece.arrays]
            if key in found:
                old = found[key][1]
                arrays = [np.concatenate(pair) for pair in zip(old, arrays, strict=True)]
            found[key] = (found[key][0] if key in found else piece.first + birth, arrays)
    return found
