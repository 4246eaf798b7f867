"""The whole way of the data in plain numpy: what any pipeline must release, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.errors import ConfigError
from dpcore.mechanism import Ints, Noise
from dpcore.noise.prf import KeyedNoise, RootKey
from dpcore.plan import Plan
from dpcore.program import Released

STRIDE = 128


@dataclass(frozen=True)
class Events:
    """Events that passed the filter, in any order.

    Attributes:
      times: (n,) int64 microseconds since 1970-01-01T00:00:00Z.
      keys: (n,) text; None where the plan has no key column.
      columns: numeric column -> (n,) float64.
    """

    times: Ints
    keys: Sequence[str] | None
    columns: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Simulated:
    """Releases of one key: ``released`` holds arrays with K = 1 for ticks first_tick .. end."""

    key: str
    first_tick: int
    released: tuple[Released, ...]


def leaves_of(plan: Plan, events: Events, ticks: int) -> dict[bytes, tuple[int, Ints]]:
    """Bounds and sums events into leaves.

    Returns:
      For every live key: (tick of its birth, (ticks, D) int64). Events outside the clock or of
        unknown keys
      are left out, as the pipeline dead-letters them.
    """
    n = len(events.times)
    names = np.full(n, b"", dtype=object)
    if events.keys is not None:
        names[:] = [key.encode() for key in events.keys]
    tick = plan.clock.tick_of(np.asarray(events.times, dtype=np.int64))
    live = (tick >= 0) & (tick < ticks)
    known = set(plan.keys.ordered)
    if not plan.keys.observed:
        live &= np.array([name in known for name in names], dtype=bool)
    columns = {
        name: np.asarray(events.columns[name], dtype=np.float64)[live]
        for name in plan.program.columns
    }
    names, tick = names[live], tick[live]
    found = sorted(set(names)) if plan.keys.observed else list(plan.keys.ordered)
    place = {name: i for i, name in enumerate(found)}
    rows = np.array([place[name] for name in names], dtype=np.int64)
    bounded = plan.program.bound(columns, len(tick))
    cells = rows * ticks + tick
    sums = plan.program.accumulate(bounded.rows, cells, len(found) * ticks)
    sums = sums.reshape(len(found), ticks, plan.program.dimension)
    births = {
        name: int(tick[rows == i].min()) if plan.keys.observed else 0 for name, i in place.items()
    }
    return {name: (births[name], sums[i]) for name, i in place.items()}


def simulate(
    plan: Plan,
    events: Events,
    secret: bytes,
    ticks: int | None = None,
    noise: Noise | None = None,
) -> list[Simulated]:
    """Runs a plan over events in memory.

    Args:
      plan: the plan.
      events: the events; lateness and duplicates are the caller's business.
      secret: 32 bytes; the same secret gives the pipeline's bits.
      ticks: how many; None: all of a clock that ends.
      noise: for tests only, in place of the keyed noise (zeros, say).

    Returns:
      One entry per live key, sorted by the key's bytes.

    Raises:
      ConfigError: a clock without end and no ``ticks``.
    """
    ticks = plan.clock.ticks if ticks is None else ticks
    if ticks is None:
        raise ConfigError("clock.end", None, "is needed here, or say how many ticks to simulate.")
    root = RootKey.derive(secret, plan.name, bytes.fromhex(plan.digest))
    leaves = leaves_of(plan, events, ticks)
    by_birth: dict[int, list[bytes]] = {}
    for key, (birth, _) in leaves.items():
        by_birth.setdefault(birth, []).append(key)
    found: list[Simulated] = []
    for birth, keys in sorted(by_birth.items()):
        block = np.stack([leaves[key][1] for key in keys], axis=1)
        state = plan.program.init(len(keys))
        pieces: list[tuple[Released, ...]] = []
        for start in range(birth, ticks, STRIDE):
            stop = min(start + STRIDE, ticks)

            def of_part(part: int, start: int = start, keys: list[bytes] = keys) -> Noise:
                return noise if noise is not None else KeyedNoise(root, part, keys, start)

            state, noisy = plan.program.step(state, block[start:stop], of_part)
            pieces.append(plan.program.solve(noisy, np.arange(start, stop, dtype=np.int64)))
        for row, key in enumerate(keys):
            found.append(Simulated(key.decode(), birth, _row(pieces, row)))
    return sorted(found, key=lambda one: one.key.encode())


def _row(pieces: list[tuple[Released, ...]], row: int) -> tuple[Released, ...]:
    """One key's releases over all strides."""
    joined = []
    for group in zip(*pieces, strict=True):
        value = np.concatenate([one.value[:, row : row + 1] for one in group])
        errors = [one.stddev[:, row : row + 1] for one in group if one.stddev is not None]
        stddev = np.concatenate(errors) if len(errors) == len(group) else None
        joined.append(Released(group[0].name, group[0].over, value, stddev))
    return tuple(joined)
