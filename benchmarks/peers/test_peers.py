"""The comparison with other libraries: every job is planned, and its errors are off the truth."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import yaml

from benchmarks.peers.__main__ import CONFIGS, RESULTS, frame_of, ours
from benchmarks.peers.cells import CELLS, DRAWS, data_of, error_of, truth
from weir.dpcore.plan import Plan


@pytest.mark.parametrize("job", CELLS)
def test_each_job_has_the_guarantee_of_all(job: str) -> None:
    guarantee = Plan.from_yaml(CONFIGS[job]).guarantee
    assert (guarantee.epsilon, guarantee.delta) == (1.0, 1e-6)
    assert guarantee.unit == ("user" if CELLS[job].unit == "user" else "event")
    assert yaml.safe_load(CONFIGS[job])["name"]


def test_errors_are_off_the_truth() -> None:
    data = data_of("histogram")
    exact = truth("histogram", data)
    assert exact.sum() == len(data.user) and error_of("histogram", data, exact) == 0
    assert error_of("histogram", data, exact + 3) == pytest.approx(3)
    weeks = truth("weekly", data_of("weekly"))
    assert (weeks[6:] > weeks[0]).all()
    rare = data_of("unknown")
    assert error_of("unknown", rare, []) > 0 == error_of("unknown", rare, range(2_000))


def test_a_release_is_read_in_the_order_of_the_truth() -> None:
    data = data_of("total")
    assert abs(ours("total", frame_of(data)) - truth("total", data)) < 40


def test_results_are_of_all_jobs() -> None:
    rows = list(csv.DictReader(RESULTS.open()))
    pairs = {(row["job"], row["who"]) for row in rows}
    assert pairs == {(job, who) for job, cell in CELLS.items() for who in ("weir", *cell.peers)}
    assert {int(row["draws"]) for row in rows} == {DRAWS}
    assert all(np.isfinite(float(row["error"])) for row in rows)
    assert all(bool(cell.unable) != ("diffprivlib" in cell.peers) for cell in CELLS.values())
