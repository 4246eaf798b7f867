"""A small plan and program, so that the stream is tested apart from the mechanisms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tests.constant_noise import NoNoise
from weir.dpcore.accounting.guarantee import (
    NO_ASSUMPTIONS,
    Guarantee,
    PrivacyLoss,
    RuntimeAssumptions,
)
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.noise.noise import label
from weir.dpcore.program import Bounded, OutputInfo, Program, Released
from weir.dpcore.users.unit import UserUnit
from weir.transforms.operators.noise_source import NoiseSource

MINUTE = 60_000_000
START = 1_704_067_200_000_000  # 2024-01-01T00:00:00Z


class CountSumState(NamedTuple):
    total: Any
    chain: Any


@dataclass(frozen=True)
class CountSum(Program):
    """Running count and sum of ``v`` clipped to [0, 10], in units of 1/16."""

    sigma: float = 4.0
    dimension: int = 2
    columns: tuple[str, ...] = ("v",)

    def bound(self, columns: Mapping[str, Any], n_events: int) -> Bounded:
        values = np.nan_to_num(columns["v"], nan=0.0)
        clipped = np.clip(values, 0, 10)
        return Bounded(
            (clipped * 16).astype(np.int64),
            int((clipped != values).sum()),
            int(np.isnan(columns["v"]).sum()),
        )

    def accumulate(self, rows: Any, cells: Any, n_cells: int) -> Any:
        out = np.zeros((n_cells, 2), dtype=np.int64)
        out[:, 0] = np.bincount(cells, minlength=n_cells)
        out[:, 1] = np.bincount(cells, weights=rows, minlength=n_cells).astype(np.int64)
        return out

    def init(self, n_keys: int) -> Any:
        return CountSumState(np.zeros((n_keys, 2), np.int64), np.zeros((n_keys, 2), np.uint64))

    def step(self, state: Any, leaves: Any, noise: Any) -> Any:
        keyed = noise(0)
        chain = np.concatenate([state.chain[None], keyed.leaf_digests(leaves)])
        np.bitwise_xor.accumulate(chain, axis=0, out=chain)
        totals = state.total + np.cumsum(leaves, axis=0)
        n = len(leaves)
        labels = label(0, np.arange(keyed.first_tick, keyed.first_tick + n))
        drawn = keyed.gaussian(labels, chain[1:], 2)
        noisy = totals + np.rint(drawn * self.sigma * 16)
        return CountSumState(totals[-1].copy(), chain[-1].copy()), (noisy,)

    def solve(self, noisy: Any, ticks: Any) -> tuple[Released, ...]:
        (array,) = noisy
        error = np.full((*array.shape[:2], 1), self.sigma)
        return (
            Released("count", None, array[:, :, :1], error),
            Released("sum", None, array[:, :, 1:] / 16, None),
        )

    def loss(self, ticks: int | None) -> PrivacyLoss:
        return PrivacyLoss("gdp", 1.0)

    def describe(self, ticks: Any) -> tuple[OutputInfo, ...]:
        return tuple(
            OutputInfo(name, None, len(labels), 1.0, self.sigma, labels)
            for name, labels in (("count", ("",)), ("sum", ("",)), ("hist", ("low, 1", "high")))
        )

    def state_bytes(self) -> int:
        return 32

    def canonical(self) -> Mapping[str, Any]:
        return {}


@dataclass(frozen=True)
class FakeSchema:
    id: str | None = None


@dataclass(frozen=True)
class FakeConfig:
    schema_: FakeSchema = FakeSchema()
    model: Any = None


@dataclass(frozen=True)
class FakePlan:
    """What the transforms read of a Plan."""

    clock: Clock = Clock(START, MINUTE, START + 300 * MINUTE)
    keys: Keys = Keys.make("k", ("a", "b", "c"), False, None)
    program: Any = CountSum()
    name: str = "double"
    digest: str = "ab" * 32
    layout: str = "cd" * 32
    where: str | None = None
    band: float = 2.0
    config: FakeConfig = FakeConfig()
    circumstances: RuntimeAssumptions = NO_ASSUMPTIONS
    discovery: None = None
    person: UserUnit | None = None
    guarantee: Guarantee = field(
        default_factory=lambda: Guarantee(1.0, 1e-6, "event", "add_remove", 64, (), "")
    )

    def block_of(self, keys: Any) -> Any:
        return self.keys.block_of(keys)

    def block_keys(self, block: int) -> Any:
        return self.keys.block_keys(block)


@dataclass(frozen=True)
class Silent(NoiseSource):
    """Noise off: only tests can build one."""

    def noise_of(self, keys: Any, first_tick: int) -> Any:
        noise = NoNoise(first_tick)
        return lambda part: noise


def events(
    times: Any,
    keys: Any,
    values: Any,
    ids: Any = None,
    source: str = "test",
    users: Any = None,
) -> pa.RecordBatch:
    """A canonical batch. times: microseconds."""
    n = len(times)
    columns = {
        "@time": pa.array(np.asarray(times, dtype=np.int64)).cast(pa.timestamp("us", tz="UTC")),
        "@position": pa.array(np.arange(n, dtype=np.int64)),
        "v": pa.array(np.asarray(values, dtype=np.float64)),
    }
    if keys is not None:
        columns["@key"] = pa.array(list(keys), pa.string()).dictionary_encode()
    if ids is not None:
        columns["@id"] = pa.array(list(ids), pa.string())
    if users is not None:
        columns["@unit"] = pa.array(list(users), pa.string())
    return pa.RecordBatch.from_arrays(
        list(columns.values()), names=list(columns), metadata={"source": source}
    )


def random_events(n: int, plan: FakePlan, seed: int = 0, ids: bool = False) -> pa.RecordBatch:
    """Uniform over clock and keys, sorted by time."""
    rng = np.random.default_rng(seed)
    ticks = plan.clock.ticks or 100
    times = np.sort(rng.integers(0, ticks * plan.clock.period, n)) + plan.clock.start
    names = list(plan.keys.declared) or ["x", "y", "z", "zz"]
    keys = None if not plan.keys.columns else [names[i] for i in rng.integers(0, len(names), n)]
    values = rng.normal(5, 4, n)
    values[rng.random(n) < 0.01] = np.nan
    return events(times, keys, values, [f"id-{i}" for i in range(n)] if ids else None)
