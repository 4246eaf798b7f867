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
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 8 ticks}
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


BOTH = {
    "test_run", "test_held", "test_new_folder", "test_parts", "test_lost_files", "test_verdict",
    "test_changed_events",
}  # fmt: skip
"""Modules whose runs over files are held on both engines of this process."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name = metafunc.module.__name__.rpartition(".")[2]
    if name in BOTH and "weir" in metafunc.fixturenames:
        engines = ["local", pytest.param("direct", marks=pytest.mark.slow)]
        metafunc.parametrize("weir", engines, indirect=True)


@pytest.fixture
def weir(request: pytest.FixtureRequest) -> Weir:
    """Runs one command in this process: stdout and stderr apart. Its parameter is the runner of
    runs that name none."""
    engine = str(getattr(request, "param", "local"))

    def call(*words: object) -> Result:
        given = [str(word) for word in words]
        if engine != "local" and given[0] == "run" and "--runner" not in given:
            given += ["--runner", engine]
        return CliRunner().invoke(main, given)

    return call
