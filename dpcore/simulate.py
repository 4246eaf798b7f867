"""The whole way of the data in plain numpy: what any pipeline must release, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.bounded_events import Bound, Events, bounded
from weir.dpcore.discovery.reference import lives
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.hashes import event_hashes
from weir.dpcore.leaves.lattice import repeated
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.noise import replay
from weir.dpcore.noise.key_ring import KeyRing
from weir.dpcore.noise.noise import Noise
from weir.dpcore.noise.prf import KeyedNoise
from weir.dpcore.plan import Plan
from weir.dpcore.program import NoiseOf, Released, takes_rows

STRIDE = 128


@dataclass(frozen=True)
class Simulated:
    """Releases of one key: ``released`` holds arrays with K = 1 for ticks first_tick .. end.

    >>> import numpy as np
    >>> from weir.dpcore.program import Released
    >>> from weir import Simulated
    >>> two_ticks = Released("visits", None, value=np.ones((2, 1, 1)), stddev=None)
    >>> one = Simulated("north", first_tick=5, released=(two_ticks,))
    >>> {one.first_tick + i: row.item() for i, row in enumerate(one.released[0].value)}
    {5: 1.0, 6: 1.0}
    """

    key: str
    first_tick: int
    released: tuple[Released, ...]


def sum_leaves(plan: Plan, bound: Bound, ticks: int) -> Ints:
    """(ticks, K, D) int64, exact sums."""
    n_keys = len(bound.names)
    sums: Any = 0
    for at, keys in enumerate((bound.keys, *bound.others)):
        cells, rows = bound.ticks * n_keys + keys, bound.rows
        if at in bound.merged:
            order, rows = bound.merged[at]
            cells = cells[order]
        rows = repeated(rows, plan.program.times_of(at))
        sums = sums + plan.program.accumulate(rows, cells, ticks * n_keys)
    return np.asarray(sums, dtype=np.int64).reshape(ticks, n_keys, plan.program.dimension)


def row_leaves(
    plan: Plan, bound: Bound, members: list[int], hashes: NDArray[np.uint64]
) -> dict[int, RowLeaf]:
    """Tick -> capped rows of some of the keys; ticks without any row are left out."""
    program = plan.program
    assert takes_rows(program)
    local = np.full(len(bound.names), -1, dtype=np.int64)
    local[members] = np.arange(len(members))
    keys = local[bound.keys]
    results: dict[int, RowLeaf] = {}
    for tick in np.unique(bound.ticks[keys >= 0]).tolist():
        here = np.flatnonzero((keys >= 0) & (bound.ticks == tick))
        leaf = RowLeaf.from_events(
            keys[here], bound.rows[here], bound.times[here], hashes[here], len(members)
        )
        results[tick] = program.capped(leaf).leaf
    return results


LeavesOf = Callable[[int, int], Any]
"""Ticks [start, stop) -> what ``program.step`` takes."""


def leaves_for(plan: Plan, bound: Bound, ticks: int, secret: bytes) -> Callable[..., LeavesOf]:
    """Keys (their places) -> their leaves by stride."""
    program = plan.program
    if not takes_rows(program):
        sums = sum_leaves(plan, bound, ticks)
        return lambda members: lambda start, stop: sums[start:stop, members]
    hashes = bound.hashes
    if hashes is None:
        hashes = event_hashes(secret, plan.digest, bound.rows, bound.times, bound.ids)

    def of(members: list[int]) -> LeavesOf:
        result = row_leaves(plan, bound, members, hashes)
        nothing = RowLeaf.empty(len(members), program.width, program.dtype)
        return lambda start, stop: tuple(result.get(tick, nothing) for tick in range(start, stop))

    return of


def simulate(
    plan: Plan,
    events: Events,
    secret: bytes,
    ticks: int | None = None,
    noise: Noise | None = None,
    rotate: Sequence[tuple[int, bytes]] = (),
    stride: int = STRIDE,
) -> list[Simulated]:
    """Runs a plan over events in memory.

    Args:
      plan: the plan.
      events: the events; lateness and duplicates are the caller's business.
      secret: 32 bytes; the same secret gives the pipeline's bits.
      ticks: how many; None: all of a clock that ends.
      noise: for tests only, in place of the keyed noise (zeros, say).
      rotate: (first tick, 32 bytes), ticks increasing: noise from that tick on is keyed by these.
        Hashes of ids and rows stay keyed by ``secret``.
      stride: ticks that are stepped at once, at most; the bits do not depend on it.

    Returns:
      One entry per live key, sorted by the key's bytes.

    Raises:
      ConfigError: a clock without end and no ``ticks``.

        >>> import numpy as np
        >>> from weir import Events, Plan, simulate
        >>> plan = Plan.from_yaml('''
        ... name: visits
        ... schema: {time: at}
        ... key: {column: shop, declared: [north, south]}
        ... clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-08T00:00:00Z}
        ... privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
        ... aggregates: {visits: {count: events}}
        ... ''')
        >>> day = np.array(["2025-01-01", "2025-01-02"], dtype="datetime64[us]").astype(np.int64)
        >>> found = simulate(plan, Events(day, ["north", "north"], {}), secret=bytes(32))
        >>> [(one.key, one.first_tick, one.released[0].value.shape) for one in found]
        [('north', 0, (7, 1, 1)), ('south', 0, (7, 1, 1))]
    """
    ticks = plan.clock.ticks if ticks is None else ticks
    if ticks is None:
        raise ConfigError("clock.end", None, "is needed here, or say how many ticks to simulate.")
    ring = KeyRing.derive(secret, plan.name, bytes.fromhex(plan.digest), rotate)
    bound = bounded(plan, events, ticks, secret)
    simulateds: list[Simulated] = []
    if plan.discovery is not None:
        return _discovered(plan, bound, ticks, RingNoises(ring, noise), stride)
    leaves_of = leaves_for(plan, bound, ticks, secret)
    for birth, members in bound.born().items():
        keys, leaves = [bound.names[key] for key in members], leaves_of(members)
        state = plan.program.init(len(keys))
        pieces: list[tuple[Released, ...]] = []
        edges = sorted({*range(birth, ticks, stride), *ring.edges(birth, ticks), ticks})
        for start, stop in pairwise(edges):
            replay.at(start)

            def of_part(part: int, start: int = start, keys: list[bytes] = keys) -> Noise:
                return noise or KeyedNoise(ring.at(start), part, keys, start)

            state, noisy = plan.program.step(state, leaves(start, stop), of_part)
            span = np.arange(start, stop, dtype=np.int64)
            pieces.append(plan.program.solve_keys(noisy, span, keys))
        for key, released in zip(keys, _rows(pieces, len(keys)), strict=True):
            simulateds.append(Simulated(key.decode(), birth, released))
    return sorted(simulateds, key=lambda item: item.key.encode())


def _discovered(
    plan: Plan, bound: Bound, ticks: int, noises: RingNoises, stride: int
) -> list[Simulated]:
    """Keys that are found, all of them stepped from their period's start on."""
    assert plan.discovery is not None
    sums = sum_leaves(plan, bound, ticks)
    results = []
    for life in lives(plan.program, plan.discovery, noises, bound.names, sums, stride):
        pieces = [
            plan.program.solve(arrays, np.arange(first, first + len(arrays[0]), dtype=np.int64))
            for first, arrays in life.strides
        ]
        (released,) = _rows(pieces, 1)
        results.append(Simulated(bound.names[life.key].decode(), life.birth, released))
    return sorted(results, key=lambda item: item.key.encode())


@dataclass(frozen=True)
class RingNoises:
    """Noise of strides, as Tick has it.

    Attributes:
      ring: the keys of the release. noise: for tests only, in place of the keyed noise.
    """

    ring: KeyRing
    noise: Noise | None = None

    def noise_of(self, keys: Sequence[bytes], first_tick: int) -> NoiseOf:
        """Part index -> keyed noise."""
        root = self.ring.at(first_tick)
        return lambda part: self.noise or KeyedNoise(root, part, keys, first_tick)

    def edges(self, first: int, stop: int) -> tuple[int, ...]:
        """Ticks inside (first, stop) at which another secret begins."""
        return self.ring.edges(first, stop)

    def sampled(self, keys: Sequence[bytes], share: float) -> list[bool]:
        """Which keys lie in a share of all."""
        return self.ring.sampled(keys, share)


def _rows(pieces: list[tuple[Released, ...]], rows: int) -> Iterator[tuple[Released, ...]]:
    """Each key's releases over all strides."""
    whole = []
    for group in zip(*pieces, strict=True):
        name, over, *arrays = zip(*group, strict=True)
        whole.append((name[0], over[0], *map(_joined, arrays)))
    for row in range(rows):
        own: list[Released] = []
        for name, over, *numbers in whole:
            mine = (x if x is None else x[:, row : row + 1] for x in numbers)
            own.append(Released(name, over, *mine))  # type: ignore[arg-type]
        yield tuple(own)


def _joined(pieces: Sequence[Floats | None]) -> Floats | None:
    """Numbers over all strides; None where one has none."""
    own = [piece for piece in pieces if piece is not None]
    return np.concatenate(own) if len(own) == len(pieces) else None
