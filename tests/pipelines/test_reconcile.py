"""``weir estimate --reconcile``: figures of a run that add up."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import loads
from weir.pipelines.estimates.reconciled import reconcile
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.report import estimates
from weir.pipelines.report.data import gather
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.run.run import run

CONFIG = """
name: shop
source: {{csv: {place}/e.csv}}
schema: {{time: t, id: i{unit}}}
key: {{columns: [city, kind], {keys}}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1d, end: 2024-01-13T00:00:00Z}}
privacy: {{epsilon: 1, delta: 1e-6, protect_for: all{privacy}}}
aggregates:
  n: {{count: events, over: [all, 3]}}
  paid: {{sum: x, clip: [-5, 5]}}
  sizes: {{histogram: x, edges: [0, 2, 5]}}
  own: {{mean: x, clip: [0, 5]}}
sink: {{parquet: {place}/out}}
"""
LISTED = "declared: [[a, x], [a, y], [b, x], [b, y]], groups: "


def ran(place: Path, keys: str, privacy: str = "", unit: str = "") -> Path:
    lines = ["t,i,city,kind,x,who"]
    for i in range(900):
        lines.append(f"2024-01-{1 + i % 12:02d}T00:00:00Z,e{i},{'ab'[i % 7 == 0]},{'xy'[i % 2]},"
                     f"{i % 5},u{i % 90}")  # fmt: skip
    (place / "e.csv").write_text("\n".join(lines) + "\n")
    text = CONFIG.format(place=place, keys=keys, privacy=privacy, unit=unit)
    run(parts_of(loads(text), "local"), "local")
    return place / "out"


@pytest.mark.slow
@pytest.mark.parametrize("groups", [
    "[[city], [city, kind], []]",
    "[[city], [kind], [city, kind], []], weights: [1, 1, 4, 1]",
])  # fmt: skip
def test_figures_of_every_tick_add_up(groups: str, tmp_path: Path) -> None:
    out = ran(tmp_path, LISTED + groups)
    result = reconcile(out)
    assert result.left_out == ("own",)
    with result.path.open() as file:
        rows = list(csv.DictReader(file))
    made: dict[tuple[str, ...], dict[tuple[str | None, ...], float]] = {}
    for row in rows:
        spot = (row["name"], row["label"], row["over"], row["tick"])
        made.setdefault(spot, {})[tuple(json.loads(row["key"]))] = float(row["value"])
        assert float(row["low"]) <= float(row["value"]) <= float(row["high"])
        assert row["name"] == "paid" or float(row["low"]) >= 0
    assert len(made) == 12 * 5
    for values in made.values():
        for key, value in values.items():
            if None in key:
                cells = {cell: x for cell, x in values.items() if None not in cell}
                parts = [
                    x
                    for cell, x in cells.items()
                    if all(a in (None, b) for a, b in zip(key, cell, strict=True))
                ]
                assert sum(parts) == pytest.approx(value, abs=1e-6)


@pytest.mark.slow
def test_what_does_not_add_up_is_refused_by_name(weir: Weir, tmp_path: Path) -> None:
    out = ran(tmp_path, LISTED + "[[city], [city, kind], []]")
    with pytest.raises(ConfigError, match="users, means and ratios"):
        reconcile(out, ["own"])
    with pytest.raises(ConfigError, match="did you mean"):
        reconcile(out, ["paied"])
    shown = weir("estimate", out, "--reconcile", "--name", "n").stdout
    assert "figures that add up" in shown and "epsilon does not change" in " ".join(shown.split())
    facts = json.loads(weir("estimate", out, "--reconcile", "--json").stdout)
    assert facts["left_out"] == ["own"] and len(facts["reconciled"]) == 7 * 5
    (tmp_path / "one").mkdir()
    plain = ran(tmp_path / "one", LISTED.removesuffix(", groups: "))
    with pytest.raises(ConfigError, match=r"add key\.groups"):
        reconcile(plain)
    users = ", unit: user, per: 6d, contributions: {ticks: 3, keys: 2, events: 2}"
    (tmp_path / "two").mkdir()
    found = "discover: {min_users: 2}, groups: [[city], [city, kind], []]"
    private = ran(tmp_path / "two", found, users, ", unit: who")
    with pytest.raises(ConfigError, match="found in private"):
        reconcile(private)


@pytest.mark.slow
def test_a_report_draws_them_over_the_releases(tmp_path: Path, weir: Weir) -> None:
    out = ran(tmp_path, LISTED + "[[city], [city, kind], []]")
    assert weir("report", out, "--out", tmp_path / "bare").exit_code == 0
    assert "figures that add up" not in (tmp_path / "bare" / "report.html").read_text()
    table = reconcile(out).table
    assert weir("report", out, "--out", tmp_path / "page").exit_code == 0
    page = (tmp_path / "page" / "report.html").read_text()
    assert "Dashed orange lines and margins are figures that add up." in page
    assert "They are estimates, not releases." in page and page.count('"estimate":') >= 3

    data = gather(ResultFolder.open(out))
    drawn = data.estimates
    assert drawn is not None and ("own", None) not in drawn.value
    seen = 0
    for row in table.to_pylist():
        key = data.run.shown(row["key"])
        (output,) = [o for o in data.run.outputs if (o.name, o.over) == (row["name"], row["over"])]
        part = list(output.labels).index(row["label"]) if row["label"] else 0
        own = drawn.of(output.shown(), key, np.asarray([row["tick"]]), part)
        if own is not None:
            seen += 1
            assert [end[0] for end in own] == [row["value"], row["low"], row["high"]]
    assert seen > 100


def test_filtered_estimates_are_drawn_where_nothing_adds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ran(tmp_path, LISTED + "[[city], [city, kind], []]")
    rows = [
        {
            "name": name, "over": None, "key": '["a",null]', "tick": 3, "label": "",
            "model": "level", "how": "live", "estimate": 7.0, "estimate_low": 6.0,
            "estimate_high": 8.0,
        }
        for name in ("paid", "own")
    ]  # fmt: skip
    monkeypatch.setattr(estimates.estimate, "stored", lambda run: pa.Table.from_pylist(rows))

    def value(name: str) -> float:
        data = gather(ResultFolder.open(out))
        assert data.estimates is not None
        (output,) = [o for o in data.run.outputs if (o.name, o.over) == (name, None)]
        own = data.estimates.of(output.shown(), data.run.shown(rows[0]["key"]), np.array([3]), 0)
        assert own is not None
        return float(own[0][0])

    assert value("paid") == value("own") == 7.0
    reconcile(out)
    assert value("paid") != 7.0 and value("own") == 7.0
    data = gather(ResultFolder.open(out))
    assert data.estimates is not None
    assert "Those of other outputs are estimates (of the releases before" in data.estimates.words
