"""The moments that a pipeline releases have the claimed covariance, over coordinates and ticks."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.statistical.samples import SURE
from tests.transforms.running import run
from weir.dpcore.plan import Plan
from weir.transforms.runtime.secret import SecretRef

KEYS, TICKS, MINUTE = 700, 5, 60_000_000
START = 1_704_067_200_000_000
CONFIG = """
name: covariance
schema: {{time: t}}
key: {{column: k, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1m, end: 2024-01-01T00:05:00Z}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: all}}
mechanism: {{continual_sum: {sum}, noise: {noise}}}
model:
  algorithm: {algorithm}
  features: [u, v]
  target: y
  ranges: {{u: [0, 2], v: [-1, 3], y: [0, 16]}}
  set: {{l2_ball: 2}}
  statistics: true
"""
CASES = [
    ("regression.incremental", "blt", "gaussian"),
    ("regression.incremental", "tree", "discrete_gaussian"),
    ("regression.two_trees", "tree", "gaussian"),
]


def plan_of(algorithm: str, sum: str, noise: str) -> Plan:
    names = ", ".join(f"k{i:04d}" for i in range(KEYS))
    return Plan.from_yaml(CONFIG.format(keys=names, algorithm=algorithm, sum=sum, noise=noise))


def events() -> tuple[pa.RecordBatch, dict[str, Any], Any]:
    """The same few events for every key; their columns and ticks for one key."""
    rng, few = np.random.default_rng(2), 9
    ticks = rng.integers(0, TICKS, few)
    one = {"u": rng.uniform(-1, 3, few), "v": rng.uniform(-1, 3, few), "y": rng.uniform(0, 20, few)}
    names = np.repeat([f"k{i:04d}" for i in range(KEYS)], few)
    columns = {
        "@time": pa.array(np.tile(START + ticks * MINUTE, KEYS)).view(pa.timestamp("us", "UTC")),
        "@key": pa.array(names).dictionary_encode(),
        "@position": pa.array(np.arange(few * KEYS)),
        **{name: pa.array(np.tile(column, KEYS)) for name, column in one.items()},
    }
    return pa.RecordBatch.from_pydict(columns), one, ticks


@cache
def fixed_secret() -> SecretRef:
    """So that a test passes always or never."""
    file = Path(tempfile.mkdtemp()) / "secret.key"
    file.write_text("5a" * 32)
    file.chmod(0o600)
    return SecretRef(file=str(file))


@cache
def whitened(algorithm: str, sum: str, noise: str, wrong: float) -> Any:
    """(KEYS, TICKS, D): errors of the released moments in claimed independent units.

    By the stated deviations over coordinates, and by the mechanism's matrix over ticks.
    """
    made = plan_of(algorithm, sum, noise)
    program: Any = made.program
    parts = tuple(replace(p, noise_scale=p.noise_scale * wrong) for p in program.parts)
    batch, one, ticks = events()
    tampered = replace(made, program=replace(program, parts=parts))
    ran = run(tampered, [batch], secret=fixed_secret())
    moments = program.rows.moments
    leaves = program.accumulate(program.bound(one, len(ticks)).rows, ticks, TICKS)
    clean = np.cumsum(leaves, axis=0) * moments.resolution
    found = [row for row in ran.rows if row["name"] == "moments"]
    values = np.array([row["value"] for row in found]).reshape(TICKS, KEYS, -1)
    errors = (values - clean[:, None, :]).transpose(1, 0, 2)
    out, start = [], 0
    for part in program.parts:
        dense = part.materialize(TICKS)
        root = np.linalg.cholesky(dense @ dense.T * part.unit_variance)
        units = np.asarray(part.scales) * moments.resolution
        mine = errors[:, :, start : start + part.dimension] / units
        out.append(np.einsum("st,ktd->ksd", np.linalg.inv(root), mine))
        start += part.dimension
    return np.concatenate(out, axis=2)


def off_by(units: Any) -> Any:
    """Standard errors by which the covariance of whitened errors is off the identity."""
    flat = units.reshape(KEYS, -1)
    size = flat.shape[1]
    products = np.einsum("ki,kj->kij", flat, flat)
    error = products.std(axis=0) / np.sqrt(KEYS)
    return (products.mean(axis=0) - np.eye(size)) / error


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case))
def test_the_covariance_is_the_claimed_one(case: tuple[str, str, str]) -> None:
    units = whitened(*case, 1.0)
    off = off_by(units)
    assert np.abs(off).max() < SURE + 1  # of thousands of entries
    assert abs(np.diagonal(off).mean()) < SURE / np.sqrt(len(off))
    assert np.abs(units.mean(axis=0)).max() < (SURE + 1) / np.sqrt(KEYS)


@pytest.mark.parametrize(
    ("case", "wrong"), [*((case, 0.5) for case in CASES), (CASES[0], 0.9), (CASES[0], 1.1)]
)
def test_another_noise_is_caught(case: tuple[str, str, str], wrong: float) -> None:
    off = np.diagonal(off_by(whitened(*case, wrong)))
    assert wrong != 0.5 or (np.abs(off) > SURE).all()
    assert abs(off.mean()) > 3 * SURE / np.sqrt(len(off))
