"""Margins of error end at public edges, and are intervals where a value is not in their middle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import weir as public
from tests.pipelines.conftest import Weir
from tests.pipelines.pages import SCRIPT, unpacked
from weir.dpcore.bounded_events import Events
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate
from weir.pipelines.report.data import gather
from weir.pipelines.report.page import page
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.results.series import ends, interval, lopsided
from weir.transforms.release.table import INTERVAL_SCHEMA, PACKED_SCHEMA

LOW, HIGH = 1.0, 10000.0
CONFIG = """
name: latency
source: {csv: calls.csv}
schema: {time: at}
key: {column: host, declared: [a, b, empty]}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-05T00:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
aggregates:
  calls: {count: events}
  usual: {mean: ms, clip: [0, 200], over: [all, 1]}
  spread: {variance: ms, clip: [0, 200]}
  p95: {quantile: ms, at: 0.95, edges: {log: [1, 10000, 24]}, over: [all, 1]}
  some: {quantile: ms, at: [0.25, 0.5], edges: {log: [1, 10000, 24]}}
mechanism: {noise: gaussian}
secret: {file: secret.key}
sink: {SINK}
"""
BOUNDS = {"usual": (0, 200), "spread": (0, 1e4), "p95": (LOW, HIGH), "some": (LOW, HIGH)}
EVENTS = [
    {"at": f"2025-01-0{1 + n % 4}T10:00:00Z", "host": "ab"[n % 2], "ms": 5.0 + n % 40}
    for n in range(240)
]


def made(weir: Weir, folder: Path, sink: str) -> Path:
    """A run with a sink; the folder of its results."""
    rows = [",".join(map(str, event.values())) for event in EVENTS]
    (folder / "calls.csv").write_text("\n".join(["at,host,ms", *rows]) + "\n")
    (folder / "secret.key").write_text("5a" * 32)
    (folder / "secret.key").chmod(0o600)
    (folder / "job.yaml").write_text(CONFIG.replace("SINK", sink))
    result = weir("run", folder / "job.yaml")
    assert result.exit_code == 0, result.output
    (folder / "told").write_text(result.stdout)
    return folder / "out"


def margins(run: ResultFolder) -> dict[Any, tuple[Any, ...]]:
    """(output, over, key) -> value, half, low and high of its ticks."""
    return {
        (panel.output.name, panel.output.over, one.key): (one.value, one.half, one.low, one.high)
        for panel in gather(run, ["a", "b", "empty"]).panels
        for one in panel.series
    }


def test_rows_have_margins_inside_public_edges_that_hold_the_value(
    weir: Weir, tmp_path: Path
) -> None:
    out = made(weir, tmp_path, "parquet: out/")
    rows = pq.read_table(out).to_pylist()
    apart = 0
    for row in rows:
        value, low, high = (row[name] for name in ("value", "low", "high"))
        if row["name"] in BOUNDS:
            least, most = BOUNDS[row["name"]]
            assert least <= low <= value <= high <= most, row
            apart += lopsided(value, low, high)
        else:
            assert (
                (value - low)
                == pytest.approx(high - value)
                == pytest.approx(1.959964 * row["stddev"])
            )
    assert apart > 40, "the values of these few events are near an edge"
    silent = [row for row in rows if row["key"] == "empty" and row["name"] == "p95"]
    whole = [(row["low"], row["high"]) == (LOW, HIGH) for row in silent if row["over"] == 1]
    assert len(whole) == 4 and sum(whole) >= 3, "noise alone makes an interval one time in 20"


@pytest.mark.slow
@pytest.mark.parametrize(
    "sink",
    [
        "csv: out/",
        "ndjson: out/",
        "parquet: out/, layout: packed",
        "csv: out/, layout: packed",
        "ndjson: out/, layout: packed",
    ],
)
def test_every_format_and_layout_gives_the_same_margins(
    sink: str, weir: Weir, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    one = margins(ResultFolder.open(made(weir, folders[0], "parquet: out/")))
    other = margins(ResultFolder.open(made(weir, folders[1], sink)))
    assert one.keys() == other.keys()
    for place, found in one.items():
        for a, b in zip(found, other[place], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, err_msg=str(place))


def test_packed_rows_have_ends_in_plans_with_intervals_alone(weir: Weir, tmp_path: Path) -> None:
    out = made(weir, tmp_path, "parquet: out/, layout: packed")
    table = pq.read_table(out)
    assert table.schema.names == INTERVAL_SCHEMA.names
    ended = {row["name"] for row in table.to_pylist() if row["low"] is not None}
    assert ended == {"usual", "spread", "p95", "some"}
    assert {"low", "high"}.isdisjoint(PACKED_SCHEMA.names)


@pytest.mark.slow
def test_tables_print_intervals(weir: Weir, tmp_path: Path) -> None:
    out = made(weir, tmp_path, "parquet: out/")
    run = ResultFolder.open(out)
    last = margins(run)["p95", None, "a"]
    value, low, high = (float(last[i][-1, 0]) for i in (0, 2, 3))
    shown = interval(value, low, high)
    assert lopsided(value, low, high) and "±" not in shown
    told = (tmp_path / "told").read_text()
    assert shown in told and f"± {high - value:,.0f}" not in told
    assert shown in weir("report", out, "--name", "p95", "--key", "a").stdout
    text = page(gather(run, ["a"]))
    cells = text.split('id="last"')[1].split("</section>")[0]
    assert f"({shown.partition('(')[2]}" in cells
    (found,) = (
        one
        for one in json.loads(SCRIPT.search(text)[1])["figures"]  # type: ignore[index]
        if one["name"] == "p95" and one["over"] is None
    )
    assert found["interval"] and found["between"] == [LOW, HIGH]
    block = found["parts"][0]["fine"]
    for name, end in (("low", low), ("high", high)):
        assert unpacked(block[name], 4, block["step"])[0, -1] == pytest.approx(end, rel=5e-3)
    wide = weir("report", out, "--wide", "--key", "a", "--name", "p95").stdout.splitlines()
    assert "p95 low" in wide[0] and "p95 high" in wide[0] and "± p95" not in wide[0]
    config = CONFIG.replace("source: {csv: calls.csv}\n", "").replace("sink: {SINK}\n", "")
    released = public.release(EVENTS, config.replace("secret: {file: secret.key}\n", ""))
    quantiles = [row for row in released if row.name == "p95" and row.tick == 3]
    told = [interval(row.value, row.low, row.high) for row in quantiles]  # type: ignore[arg-type]
    assert all(words in released._repr_html_() for words in told)
    frame = released.to_wide()
    assert (frame["p95"]["low"] >= LOW).all() and (frame["p95"]["high"] <= HIGH).all()


def test_a_quantile_is_not_ranked_by_a_deviation_that_it_has_not(
    weir: Weir, tmp_path: Path
) -> None:
    out = made(weir, tmp_path, "parquet: out/")
    refused = weir("top", out, "--of", "p95")
    assert refused.exit_code == 2 and "--of" in refused.stderr
    assert weir("top", out, "--of", "calls").exit_code == 0


def test_at_every_nth_tick_margins_are_repeated_with_their_values() -> None:
    text = (
        CONFIG.replace("key: {column: host, declared: [a, b, empty]}\n", "")
        .replace("aggregates:", "release_every: 2\naggregates:")
        .replace(", over: [all, 1]", "")
        .replace("sink: {SINK}\n", "")
    )
    plan = Plan.from_yaml(text.replace("secret: {file: secret.key}\n", ""))
    start = plan.clock.start
    at = np.array([start + 3_600_000_000 * n for n in range(90)])
    lives = simulate(plan, Events(at, None, {"ms": np.linspace(5, 90, 90)}), bytes(32))
    (one,) = (r for r in lives[0].released if r.name == "p95")
    assert one.low is not None and one.high is not None
    for numbers in (one.value, one.low, one.high):
        assert np.isnan(numbers[0]).all() and (numbers[1] == numbers[2]).all()


def test_ends() -> None:
    from weir.pipelines.results.run import ReleasedOutput

    plain = ReleasedOutput("mean", None, between=(0.0, 200.0))
    low, high = ends(plain, [[10.0]], [[50.0]])
    assert (low.item(), high.item()) == (0.0, 60.0)
    apart = ReleasedOutput("p95", None, between=(1.0, 100.0), interval=True)
    assert [x.item() for x in ends(apart, [[10.0]], [[80.0]], [[4.0]], [[90.0]])] == [4.0, 90.0]
    assert [x.item() for x in ends(apart, [[10.0]], [[80.0]])] == [1.0, 90.0], "of an older run"
    count = ReleasedOutput("count", None, between=(0.0, None))
    assert [x.item() for x in ends(count, [[-3.0]], [[5.0]])] == [-8.0, 2.0]
