"""A projected regression through the whole stream: against simulate, however the data are cut."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.doubles import START
from tests.transforms.running import SECRET, cut, run, shuffled
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import Events, simulate
from weir.transforms.runtime.secret import SecretRef

pytestmark = pytest.mark.slow

TICKS, MINUTE, WIDE = 40, 60_000_000, 30
FEATURES = [f"x{i}" for i in range(WIDE)]


def plan(**changed: Any) -> Plan:
    model = {
        "algorithm": "regression.projected",
        "features": FEATURES,
        "target": "y",
        "ranges": {name: [-1, 1] for name in [*FEATURES, "y"]},
        "set": {"l1_ball": 1},
        "inputs": {"k_sparse": 4},
        "projection": {"dimension": 7, "seed": 11},
        "statistics": True,
        **changed,
    }
    clock = {"start": "2024-01-01T00:00:00Z", "period": "1m", "end": "2024-01-01T00:40:00Z"}
    sections = {
        "name": "sparse",
        "schema": {"time": "t"},
        "key": {"column": "k", "declared": ["a", "b", "c"]},
        "clock": clock,
        "privacy": {"epsilon": 2.0, "delta": 1e-6, "protect_for": "16 ticks"},
        "model": model,
    }
    return Plan.from_yaml(json.dumps(sections))


def events(n: int) -> pa.RecordBatch:
    """Sparse events, one in ten dense, one in twenty with a missing number."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (n, WIDE)) * (rng.random((n, WIDE)).argsort(axis=1) < 4)
    x[::10] = 0.2
    x[5::20, 3] = np.nan
    columns = {
        "@time": pa.array(START + rng.integers(0, TICKS * MINUTE, n)).view(
            pa.timestamp("us", "UTC")
        ),
        "@key": pa.array(rng.choice(list("abc"), n)).dictionary_encode(),
        "@position": pa.array(np.arange(n)),
        **{name: pa.array(x[:, i]) for i, name in enumerate(FEATURES)},
        "y": pa.array(np.clip(x[:, 0] - x[:, 1] / 2, -1, 1)),
    }
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize(
    "changed",
    [{}, {"set": {"group_l1_ball": {"radius": 1, "groups": 3}}}, {"projection": {"dimension": 31}}],
    ids=["l1", "groups", "unprojected"],
)
def test_the_pipeline_is_what_simulate_says_bit_for_bit(
    changed: dict[str, Any], secret: SecretRef
) -> None:
    made, batch = plan(**changed), events(900)
    ran = run(made, cut(shuffled(batch), 3), secret=secret, every=16)
    columns = {name: batch.column(name).to_numpy() for name in [*FEATURES, "y"]}
    times = batch.column("@time").view(pa.int64()).to_numpy()
    found = simulate(made, Events(times, batch.column("@key").to_pylist(), columns, None), SECRET)
    wanted = {
        (tick, one.key, released.name): released.value[tick, 0].tolist()
        for one in found
        for released in one.released
        for tick in range(TICKS)
    }
    assert {(row["tick"], row["key"], row["name"]): row["value"] for row in ran.rows} == wanted
    projected = "projection" not in changed
    assert ran.counts.get("out_of_range", 0) == (90 if projected else 0)
    assert ran.counts["non_finite"] >= 45
