"""``weir estimate`` and ``released.estimates()``: rows, growing folders, refusals."""

from __future__ import annotations

import html
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import weir as package
from tests.pipelines.conftest import Weir
from weir.dpcore.estimates.rules import GUARD
from weir.dpcore.plan import Plan
from weir.pipelines.estimates.estimator import ESTIMATE_SCHEMA
from weir.pipelines.estimates.words import WHAT
from weir.pipelines.results.plan_file import plan_json
from weir.pipelines.watch.server import _drawn

TICKS = 40
TEXT = """
name: shop
schema: {{time: at}}
key: {{column: store, declared: [north, south]}}
clock: {{start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-02-10T00:00:00Z}}
privacy: {{epsilon: 0.2, delta: 1e-6, protect_for: all}}
aggregates:
{aggregates}
"""
AGGREGATES = """
  visits: {count: events, over: [all, 7]}
  spent: {sum: dollars, clip: [0, 10], over: 7}
  basket: {mean: dollars, clip: [0, 10]}
  sizes: {histogram: dollars, edges: [0, 5, 11], over: 1}
"""


def events() -> pa.Table:
    """About 30 a day in either store, of about 4 dollars each."""
    rng = np.random.default_rng(0)
    number = rng.poisson(30, (TICKS, 2))
    day = np.repeat(np.arange(TICKS), number.sum(axis=1))
    start = np.datetime64("2025-01-01T10:00:00")
    return pa.table(
        {
            "at": [f"{start + np.timedelta64(int(d), 'D')}Z" for d in day],
            "store": [
                name for n in number for name in ["north"] * int(n[0]) + ["south"] * int(n[1])
            ],
            "dollars": rng.gamma(4, 1, len(day)),
        }
    )


def run(text: str) -> package.Released:
    """With a secret that is always the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "weir.transforms.runtime.secret.secrets.token_bytes", lambda size=32: bytes(range(size))
        )
        return package.release(events(), text)


@pytest.fixture(scope="module")
def released() -> package.Released:
    return run(TEXT.format(aggregates=AGGREGATES))


@pytest.fixture(scope="module")
def folder(released: package.Released, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two files and the plan: nothing else."""
    place = tmp_path_factory.mktemp("out")
    write(place, released.table, 0, 19)
    write(place, released.table, 20, TICKS - 1)
    (place / "_plan.json").write_text(json.dumps(plan_json(released.plan)))
    return place


def write(place: Path, table: pa.Table, first: int, last: int) -> None:
    own = table.filter(
        pc.and_(pc.greater_equal(table["tick"], first), pc.less_equal(table["tick"], last))
    )
    pq.write_table(own, place / f"ticks-{first:08d}-{last:08d}.parquet")


def live(place: Path) -> bytes:
    return (place / "_estimates" / "live.csv").read_bytes()


@pytest.mark.slow
def test_rows_next_to_releases(
    released: package.Released, folder: Path, weir: Weir, tmp_path: Path
) -> None:
    place = shutil.copytree(folder, tmp_path / "out")
    result = weir("estimate", place)
    assert result.exit_code == 0, result.output
    shown = " ".join(result.stdout.split())
    assert " ".join(WHAT.split()) in shown
    assert "basket: has no estimates: it is a ratio of two noisy sums" in shown
    rows = released.estimates()
    assert rows.schema == ESTIMATE_SCHEMA
    assert rows.to_pylist() == pyarrow.csv.read_csv(
        place / "_estimates" / "live.csv",
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={field.name: field.type for field in ESTIMATE_SCHEMA},
            null_values=[""], strings_can_be_null=False,
        ),
    ).to_pylist()  # fmt: skip
    assert set(rows["name"].to_pylist()) == {"visits", "spent", "sizes"}
    assert rows.num_rows == (TICKS - 13) * 2 * (2 + 1 + 2)
    assert set(rows["how"].to_pylist()) == {"live"}
    given = {
        (row["name"], row["over"], row["key"], row["tick"], row["label"]): row
        for row in released.table.to_pylist()
    }
    ours, own = [], []
    for row in rows.to_pylist():
        release = given[row["name"], row["over"], row["key"], row["tick"], row["label"]]
        near = abs(row["estimate"] - release["value"]) <= GUARD * release["stddev"] + 1e-6
        assert near or row["estimate"] == 0.0
        assert row["model"] == "bank" or row["estimate"] == release["value"]
        if row["name"] == "visits" and row["over"] == 7:
            ours.append(row["estimate"] - 210)
            own.append(release["value"] - 210)
    assert np.std(ours) < 0.7 * np.std(own)


@pytest.mark.slow
def test_a_folder_that_grows_gives_the_same_bytes(folder: Path, weir: Weir, tmp_path: Path) -> None:
    place = shutil.copytree(folder, tmp_path / "out")
    later = place / f"ticks-{20:08d}-{TICKS - 1:08d}.parquet"
    later.rename(tmp_path / later.name)
    assert json.loads(weir("estimate", place, "--json").stdout)["tick"] == 19
    (tmp_path / later.name).rename(later)
    shown = json.loads(weir("estimate", place, "--json").stdout)
    assert shown["tick"] == TICKS - 1 and 0 < shown["new_rows"] < shown["rows"]
    grown = live(place)
    assert json.loads(weir("estimate", place, "--json").stdout)["new_rows"] == 0
    assert live(place) == grown
    shutil.rmtree(place / "_estimates")
    weir("estimate", place)
    assert live(place) == grown


@pytest.mark.slow
def test_hindsight_is_of_all_releases(
    released: package.Released, folder: Path, weir: Weir, tmp_path: Path
) -> None:
    place = shutil.copytree(folder, tmp_path / "out")
    assert weir("estimate", place, "--hindsight", "--name", "visits").exit_code == 0
    assert (place / "_estimates" / "hindsight.csv").exists()
    rows = released.estimates(["visits"], hindsight=True)
    assert rows.num_rows == TICKS * 2 * 2, "of the first ticks too"
    assert set(rows["as_of"].to_pylist()) == {TICKS - 1}
    assert "hindsight" in set(rows["how"].to_pylist())
    totals = rows.filter(pc.and_(pc.is_null(rows["over"]), pc.equal(rows["key"], "north")))
    bank = np.array([row["estimate"] for row in totals.to_pylist() if row["how"] == "hindsight"])
    table = released.table
    mine = pc.and_(pc.equal(table["name"], "visits"), pc.equal(table["key"], "north"))
    own = table.filter(pc.and_(mine, pc.is_null(table["over"]))).sort_by("tick")
    away = (bank - own["value"].to_numpy()) / own["stddev"].to_numpy()
    held = np.abs(np.abs(away) - GUARD) < 1e-6
    assert not held.all()
    free = ~held[1:] & ~held[:-1]
    assert np.all(np.diff(bank)[free] >= -1e-9), "totals of counts never fall but by the guard"


@pytest.mark.slow
def test_late_keys_and_missing_rows(folder: Path, weir: Weir, tmp_path: Path) -> None:
    place = shutil.copytree(folder, tmp_path / "out")
    first = pq.read_table(place / f"ticks-{0:08d}-{19:08d}.parquet")
    late = pc.invert(pc.and_(pc.equal(first["key"], "south"), pc.less(first["tick"], 9)))
    pq.write_table(first.filter(late), place / f"ticks-{0:08d}-{19:08d}.parquet")
    rows = weir("estimate", place, "--name", "visits")
    assert rows.exit_code == 0, rows.output
    gone = pc.invert(pc.and_(pc.equal(first["key"], "south"), pc.equal(first["tick"], 9)))
    pq.write_table(first.filter(gone), place / f"ticks-{0:08d}-{19:08d}.parquet")
    shutil.rmtree(place / "_estimates")
    refused = weir("estimate", place, "--name", "visits")
    assert refused.exit_code == 2
    assert "a filter needs every tick of a key from its first one on" in refused.stderr


@pytest.mark.slow
def test_what_a_folder_is_refused_for(folder: Path, weir: Weir, tmp_path: Path) -> None:
    place = shutil.copytree(folder, tmp_path / "out")

    def refusal(*words: str) -> str:
        result = weir("estimate", place, *words)
        assert result.exit_code == 2, result.output
        return " ".join(result.stderr.split())

    assert "is a ratio of two noisy sums" in refusal("--name", "basket")
    assert "did you mean visits?" in refusal("--name", "visit")
    later = place / f"ticks-{20:08d}-{TICKS - 1:08d}.parquet"
    table = pq.read_table(later)
    column = table.schema.get_field_index("plan")
    pq.write_table(table.set_column(column, "plan", pa.array(["other"] * len(table))), later)
    assert "holds releases of two plans" in refusal()
    later.unlink()
    path = place / f"ticks-{0:08d}-{19:08d}.parquet"
    table = pq.read_table(path)
    column = table.schema.get_field_index("stddev")
    none = pc.multiply(table["stddev"], 0.0)
    pq.write_table(table.set_column(column, "stddev", none), path)
    assert "without noise there is nothing to estimate" in refusal()
    twice = pc.multiply(table["stddev"], 2.0)
    pq.write_table(table.set_column(column, "stddev", twice), path)
    assert "is not that of the plan" in refusal()
    pq.write_table(table.filter(pc.less(table["tick"], 13)), path)
    assert "13 ticks': are too few: a key has estimates from its 14th tick on" in refusal()
    plan = json.loads((place / "_plan.json").read_text())
    del plan["estimates"]
    (place / "_plan.json").write_text(json.dumps(plan))
    assert "an earlier version of Weir began it" in refusal()


@pytest.mark.parametrize(
    ("more", "aggregates", "reason"),
    [
        ("release_every: 5\n", "  visits: {count: events}", "release_every repeats a release"),
        ("", "  middle: {quantile: dollars, at: [0.5], edges: [0, 5, 10]}", "no count or sum"),
        ("mechanism: {noise: laplace}\n", "  visits: {count: events}", "no interval of a filter"),
        (
            "mechanism: {continual_sum: window_tree}\n",
            "  visits: {count: events, over: 7}",
            "no finite state here",
        ),
    ],
)  # fmt: skip
def test_plans_without_estimates_say_why(more: str, aggregates: str, reason: str) -> None:
    text = TEXT.format(aggregates=aggregates) + more
    (entry,) = plan_json(Plan.from_yaml(text))["estimates"]["outputs"]
    assert reason in entry["refused"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", ["ended", "tree", "independent", "{continual_sum: tree, noise: discrete_gaussian}"]
)
def test_every_noise_that_has_a_filter(mechanism: str) -> None:
    """The rows' standard deviation is that of the law, or this is refused."""
    text = TEXT.format(aggregates="  visits: {count: events, over: 7}")
    named = mechanism if mechanism.startswith("{") else f"{{continual_sum: {mechanism}}}"
    released = run(f"{text}mechanism: {named}\n")
    assert released.estimates().num_rows == (TICKS - 13) * 2


@pytest.mark.slow
def test_estimates_read_releases_and_the_plan_alone(released: package.Released) -> None:
    """They cost no privacy: other data with the same releases have the same estimates."""
    other = package.Released(Plan.from_config(released.plan.config), released.table, {})
    assert other.estimates(hindsight=True).equals(released.estimates(hindsight=True))


@pytest.mark.slow
def test_report_and_watch_draw_estimates_that_lie_in_the_folder(
    folder: Path, weir: Weir, tmp_path: Path
) -> None:
    """Each in a colour of its own, with what they are; watch takes the ticks that came since."""
    place = shutil.copytree(folder, tmp_path / "out")
    later = place / f"ticks-{20:08d}-{TICKS - 1:08d}.parquet"
    later.rename(tmp_path / later.name)
    bare, _ = _drawn(place)
    assert not (place / "_estimates").exists()
    assert "estimates (" not in bare and '"estimate":' not in bare
    weir("estimate", place)
    page, data = _drawn(place)
    assert "Dashed orange lines and margins are estimates (of the releases before each)" in page
    assert WHAT in html.unescape(page)
    (visits,) = (f for f in json.loads(data)["figures"] if (f["name"], f["over"]) == ("visits", 7))
    assert {"value", "low", "high"} <= set(visits["parts"][0]["estimate"])
    (tmp_path / later.name).rename(later)
    _drawn(place)
    assert f',{TICKS - 1},"visits"' in live(place).decode()
    weir("estimate", place, "--hindsight")
    page, _ = _drawn(place)
    assert "estimates (in hindsight, of all releases)" in page
    drawn = weir("report", place, "--out", tmp_path / "page", "--name", "visits")
    assert drawn.exit_code == 0, drawn.output
