"""A small job that every test of the command line starts from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from weir.pipelines.cli.main import main

SMALL = """\
name: shop
source: {csv: events.csv}
schema: {time: at, id: id}
key: {column: store, declared: [north, south]}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 8}
aggregates:
  visits: {count: events}
  paid: {sum: amount, clip: [0, 50]}
mechanism: {continual_sum: tree, noise: gaussian}
sink: {parquet: out/}
"""

Weir = Callable[..., Result]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The config in a folder of its own."""
    path = tmp_path / "shop.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def weir() -> Weir:
    """Runs one command in this process: stdout and stderr apart."""

    def call(*words: object) -> Result:
        return CliRunner().invoke(main, [str(word) for word in words])

    return call
