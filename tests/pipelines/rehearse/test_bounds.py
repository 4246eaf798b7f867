"""Contribution bounds in a dry run: raised together, and in the order of hashes."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.users.unit import Periods
from weir.pipelines.config.job import loads
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.rehearse.event_stats import _thirds
from weir.pipelines.rehearse.rehearse import Rehearsal, rehearse
from weir.pipelines.show.rehearsal import thirds
from weir.pipelines.show.users import in_order

TEXT = """\
name: visits
source: {csv: private.csv}
schema: {time: at, unit: who}
key: {column: shop, declared: [north, south]}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-31T00:00:00Z}
privacy:
  {epsilon: 4, delta: 1e-6, protect_for: all, unit: user, per: all,
   contributions: {ticks: 5, keys: 2, events: 1, total: 5}}
aggregates: {people: {count: users, over: 1}}
"""


def public(folder: Path) -> Path:
    """300 users who come to one or two shops in half of 30 days, at times twice."""
    rng, path = np.random.default_rng(1), folder / "public.csv"
    with path.open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["at", "who", "shop"])
        for user in range(300):
            for day in rng.choice(30, rng.integers(10, 20), replace=False).tolist():
                for shop in ("north", "south")[: rng.integers(1, 3)]:
                    for _ in range(rng.integers(1, 3)):
                        rows.writerow([f"2025-01-{day + 1:02d}", f"u{user}", shop])
    return path


@pytest.fixture(scope="module")
def in_time(tmp_path_factory: pytest.TempPathFactory) -> Rehearsal:
    folder = tmp_path_factory.mktemp("in_time")
    return rehearse(loads(TEXT), folder / "out", on=str(public(folder)))


def remedies(found: Rehearsal) -> dict[str, tuple[object, str]]:
    (output,) = found.advised
    return {item.field: (item.value, item.words) for item in output.remedies}


@pytest.mark.slow
def test_bounds_are_raised_together(in_time: Rehearsal) -> None:
    """One at a time changes nothing: the other one is used up as soon."""
    assert in_time.scores[0].share > 0.8
    changes = remedies(in_time)
    value, words = changes["privacy.contributions"]
    assert value == {"ticks": 20, "total": 40} and "which is not enough" not in words
    assert "privacy.contributions.events" not in changes, "a count of users does not depend on it"
    section = loads(TEXT, [f"privacy.contributions.{name}={n}" for name, n in value.items()])
    raised = rehearse(section, None, on=str(public(Path(in_time.result.folder or "").parent)))
    predicted = float(words.partition("about ")[2].partition(" %")[0]) / 100
    assert raised.scores[0].grade == "useful"
    assert raised.scores[0].share == pytest.approx(predicted, rel=0.5)


@pytest.mark.slow
def test_early_and_late_ticks_are_told_apart(in_time: Rehearsal) -> None:
    early, late = in_time.caps[0].early, in_time.caps[0].late
    assert early is not None and late is not None and early > 0.6 and late < 0.05
    assert "order: hash" in thirds(in_time)
    value, words = remedies(in_time)["privacy.contributions.order"]
    assert value == "hash" and words.startswith("hash (files and frames): about ")
    folder = Path(in_time.result.folder or "").parent
    job = loads(TEXT, ["privacy.contributions.order=hash"])
    found = rehearse(job, folder / "hash", on=str(public(folder)))
    early, late = found.caps[0].early, found.caps[0].late
    assert early is not None and late == pytest.approx(early, abs=0.05)
    assert "order: hash" not in thirds(found) and thirds(found).endswith("%.")
    assert found.scores[0].error < 0.8 * in_time.scores[0].error
    predicted = float(words.partition("about ")[2].partition(" %")[0]) / 100
    assert found.scores[0].share == pytest.approx(predicted, rel=0.3)
    assert "privacy.contributions.order" not in remedies(found)


def test_the_plan_says_which_ticks_bounds_keep(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(TEXT)
    by_hash = ("--set", "privacy.contributions.order=hash")
    text = " ".join(weir("plan", path, "--full").stdout.split())
    assert "Bounds are used up in order of time: of a user with a key in every tick" in text
    assert "of 30, the first 5 keep 5, the others none" in text
    text = " ".join(weir("plan", path, "--full", *by_hash).stdout.split())
    assert "order of time" not in text and "early and late ticks keep the same share" in text
    sets = ("--set", "privacy.contributions.total=null", "--set", "privacy.contributions.ticks=30")
    assert "of time" not in " ".join(weir("plan", path, "--full", *sets).stdout.split())
    assert in_order(plan_of(loads(TEXT)))


def test_thirds_of_periods() -> None:
    day = 86_400_000_000
    clock = Clock(0, day, 10 * day)
    ticks = np.arange(10)
    assert _thirds(ticks, Periods(clock, None)).tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert _thirds(ticks, Periods(clock, 3 * day)).tolist() == [0, 1, 2] * 3 + [1]
    assert _thirds(ticks, Periods(clock, day)).tolist() == [1] * 10
    assert math.isclose(_thirds(ticks[:0], Periods(clock, None)).sum(), 0)
