"""Reports of synthetic folders: one key, many, unfinished, odd values, bad folders."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import math
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.pipelines import synthetic
from tests.pipelines.pages import Page, unpacked
from weir.dpcore.errors import ConfigError
from weir.pipelines.report import words
from weir.pipelines.report.data import KEYS_DRAWN, gather
from weir.pipelines.report.heat import heat_map
from weir.pipelines.report.page import packed
from weir.pipelines.report.report import report
from weir.pipelines.results import series
from weir.pipelines.results.files import lists_of, matrix
from weir.pipelines.results.run import ResultFolder

KEYS = ["north", "south", "east", "west", "centre", "harbour", "airport", "station"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("shop") / "out"
    return synthetic.folder(base, [""], 60, synthetic.SHOP, synthetic.shop_values(), every=16)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("stores") / "out"
    releases = [
        synthetic.release(name, over, synthetic.LABELS if name == "sizes" else ("",))
        for name, over in synthetic.SHOP
    ]
    return synthetic.folder(
        base,
        KEYS,
        20,
        synthetic.SHOP,
        synthetic.shop_values(),
        complete=False,
        planned=synthetic.plan(60, releases, keys=len(KEYS)),
    )


@pytest.mark.slow
def test_one_key_makes_a_picture_and_a_page(shop: Path, tmp_path: Path) -> None:
    made = report(shop, tmp_path / "pages")
    assert made.html is not None
    with Image.open(made.png) as picture:
        assert picture.width > 1000
    page = Page(made.html)
    assert page.section("period") == ["purchases", "dollars"], "figures per period come first"
    assert page.section("total") == ["purchases", "dollars", "basket", "sizes"]
    assert page.words.index("1997-01-01") < page.words.index("60 ticks"), "dates, then ticks"
    assert "1 key" not in page.words
    for word in ("epsilon", "1e-6", "365 days", "the whole clock", "10 or more", "sizes, 1, all"):
        assert word in page.words
    bins = page.data["figures"][5]
    assert bins["bins"] == ["1", "2", "3 to <5", "5 to <10", "10 or more"]
    assert bins["labels"] == list(synthetic.LABELS), "files and tables keep the exact bins"
    assert made.note == ""
    assert made.table.row_count == 7 and made.caption.startswith("The last ticks")


def test_expiration_ends_with_the_clock(stores: Path) -> None:
    run = ResultFolder.open(stores)
    rows = words.expiration(run)
    assert [row[0] for row in rows] == ["the whole clock, 60 ticks (60 days)"]
    open_ended = ResultFolder(run.directory, {**run.plan, "ticks": None}, False, run.files)
    rows = words.expiration(open_ended)
    assert rows[0] == ("365 ticks (365 days)", "1", "1e-6")
    assert rows[-1] == ("36,500 ticks (36,500 days)", "no protection", "")


@pytest.mark.slow
def test_page_needs_no_network(shop: Path, tmp_path: Path) -> None:
    made = report(shop, tmp_path)
    assert made.html is not None
    text = made.html.read_text()
    assert not re.findall(r"//cdn|@import|<link|<[^>]* src=", text[: text.index('id="data"')])
    policy = html.unescape(re.findall(r'Content-Security-Policy" content="([^"]*)', text)[0])
    assert "default-src 'none'" in policy and "connect-src 'none'" in policy
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert len(scripts) == 2 and "unsafe-eval" not in policy
    assert "prefers-color-scheme: dark" in text


@pytest.mark.slow
def test_unfinished_run_says_so(stores: Path, tmp_path: Path) -> None:
    made = report(stores, tmp_path)
    assert "20 of 60 ticks" in made.note
    assert made.html is not None
    assert "20 of 60 ticks" in made.html.read_text()


def test_many_keys_are_ranked_by_their_last_private_value(stores: Path) -> None:
    data = gather(ResultFolder.open(stores))
    assert data.keys == len(KEYS)
    assert data.drawn == tuple(KEYS[:KEYS_DRAWN])
    assert data.ranked_by is not None and data.ranked_by.name == "purchases"
    heat = data.panels[0].heat
    assert heat is not None
    assert heat.rows == tuple(KEYS)
    row = data.panels[0].series[0]
    np.testing.assert_array_equal(heat.value[0], row.value[:, 0])


@pytest.mark.parametrize(("signal", "drawn"), [(0.0, False), (1.0, False), (3.0, True)])
def test_ranks_of_noise_are_not_drawn(signal: float, drawn: bool) -> None:
    keys, ticks = tuple(f"k{i}" for i in range(200)), np.arange(20)
    rng = np.random.default_rng(1)
    level = rng.normal(0, 1, (200, 1))  # of running totals, whose noise lasts
    truth = signal * np.linspace(-1.7, 1.7, 200)[:, None]
    value = np.repeat((truth + level)[:, :, None], 20, axis=1)
    value[3, 7:] = np.nan
    value[:, -1] = rng.normal(0, 100, (200, 1))  # a last value says nothing of a rank
    half = np.full_like(value, 1.96)
    heat = heat_map(keys, ticks, value[:, :, 0], half[:, :, 0], 1.96)
    assert bool(heat.rows) == drawn
    assert heat.noise == pytest.approx(1)
    if drawn:
        assert heat.rows[0] == "rank 1 to 5" and heat.spread == pytest.approx(3.1, abs=0.3)
        assert np.all(np.diff(heat.value[:, 0]) <= 0)


@pytest.mark.slow
def test_chosen_keys_and_names(stores: Path, tmp_path: Path) -> None:
    data = gather(ResultFolder.open(stores), keys=["station", "north"], names=["basket"])
    assert data.drawn == ("station", "north")
    assert [panel.output.name for panel in data.panels] == ["basket"]
    assert data.panels[0].heat is None
    made = report(stores, tmp_path, keys=["station"], png_only=True)
    assert made.html is None and made.png.exists()
    with pytest.raises(ConfigError, match="did you mean 'north'"):
        report(stores, tmp_path, keys=["nort"])
    with pytest.raises(ConfigError, match="must be one of purchases"):
        report(stores, tmp_path, names=["profit"])


@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_every_format_reads_the_same(suffix: str, shop: Path, tmp_path: Path) -> None:
    other = synthetic.folder(
        tmp_path / "out", [""], 60, synthetic.SHOP, synthetic.shop_values(), suffix=suffix
    )
    one, two = gather(ResultFolder.open(shop)), gather(ResultFolder.open(other))
    for a, b in zip(one.panels, two.panels, strict=True):
        assert a.output == b.output
        np.testing.assert_array_equal(a.series[0].value, b.series[0].value)
        np.testing.assert_array_equal(a.series[0].half, b.series[0].half)
    assert ResultFolder.open(other).start == ResultFolder.open(shop).start == synthetic.START


@pytest.mark.slow
def test_ten_thousand_keys_make_a_small_page_fast(tmp_path: Path) -> None:
    keys, ticks = 10_000, 100
    names = [f"store-{i:05d}" for i in range(keys)]
    first = synthetic.rows(
        ["x"], range(1), [("purchases", None)], lambda *_: ([0.0], [14.0])
    ).slice(0, 1)
    rng = np.random.default_rng(3)
    level = 5000 / np.arange(1, keys + 1)
    columns = {name: first[name].combine_chunks() for name in first.column_names}
    parts = []
    for tick in range(ticks):
        value = level * (tick + 1) + 14 * rng.normal(size=keys)
        some = {
            name: pa.array([column[0].as_py()] * 1, column.type) for name, column in columns.items()
        }
        spread = {
            name: pa.DictionaryArray.from_arrays(
                pa.array(np.zeros(keys, np.int32)), one
            ).dictionary_decode()
            for name, one in some.items()
            if name not in ("value", "stddev")
        }
        offsets = pa.array(np.arange(keys + 1, dtype=np.int32))
        spread |= {
            "key": pa.array(names),
            "tick": pa.array(np.full(keys, tick)),
            **{
                name: pa.repeat(
                    pa.scalar(first[name][0].as_py() + tick * timedelta(days=1), first[name].type),
                    keys,
                )
                for name in ("tick_start", "tick_end")
            },
            "value": pa.ListArray.from_arrays(offsets, pa.array(value)),
            "stddev": pa.ListArray.from_arrays(offsets, pa.array(np.full(keys, 14.0))),
        }
        parts.append(pa.table({name: spread[name] for name in first.column_names}))
    pq.write_table(pa.concat_tables(parts), tmp_path / "ticks-000000000000-000000000099.parquet")
    (tmp_path / "_COMPLETE").touch()
    began = time.process_time()
    made = report(tmp_path)
    assert time.process_time() - began < 20
    assert made.html is not None
    text = made.html.read_text()
    assert len(text) < 5_000_000
    page = Page(made.html)
    assert len(page.data["keys"]) == keys and len(page.data["fine"]["keys"]) == KEYS_DRAWN
    assert "store-00000" in page.words and "10,000 keys" in page.words
    (figure,) = page.data["figures"]
    block, columns = figure["parts"][0]["coarse"], len(page.data["coarse"]["times"])
    held = unpacked(block["value"], columns, block["step"])
    assert held.shape == (keys, ticks), "every key at every tick"
    place = page.data["coarse"]["keys"].index("store-09999")
    np.testing.assert_allclose(held[place, -1], value[9999], atol=block["step"])
    half = unpacked(block["half"], columns, block["step"])
    assert half.shape == (1, ticks), "a margin that all keys share is held once"
    assert made.table.row_count == 12


def odd_values(name: str, over: int | None, k: int, tick: int) -> tuple[Any, Any]:
    if tick in (3, 4):
        return [math.nan], [math.nan]
    return [-50.0 - tick], None if name == "loss" else [5.0 if tick < 9 else math.inf]


@pytest.mark.slow
def test_negative_missing_and_unbanded_values(tmp_path: Path) -> None:
    outputs = [("profit", None), ("loss", 1)]
    folder = synthetic.folder(tmp_path / "out", [""], 12, outputs, odd_values)
    made = report(folder)
    assert made.html is not None
    page = Page(made.html)
    loss, profit = page.data["figures"]
    assert loss["caption"] == "each tick alone (1 day)" and "half" not in loss["parts"][0]["fine"]
    assert "NaN" not in page.words and "inf" not in page.words.replace("information", "")
    assert "\N{MINUS SIGN}61" in page.words
    block = profit["parts"][0]["fine"]
    value = unpacked(block["value"], 12, block["step"])[0]
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(value)), [3, 4])
    np.testing.assert_allclose(value[-1], -61)


@pytest.mark.slow
@pytest.mark.parametrize("keys", [[""], KEYS])
def test_single_tick(keys: list[str], tmp_path: Path) -> None:
    folder = synthetic.folder(
        tmp_path / "out", keys, 1, synthetic.SHOP, synthetic.shop_values(), complete=False
    )
    made = report(folder)
    Page(made.html)


@pytest.mark.slow
def test_a_key_is_text_and_never_markup(tmp_path: Path) -> None:
    nasty = ["</script><script>alert(1)</script>", "a&b", "[bold]x[/bold]"]
    folder = synthetic.folder(tmp_path / "out", nasty, 5, synthetic.SHOP, synthetic.shop_values())
    made = report(folder)
    assert made.html is not None
    page = Page(made.html)
    assert page.count["script"] == 3, "the data, the library, the page"
    assert "<script>alert" not in page.text and page.data["drawn"] == nasty


@pytest.mark.slow
def test_without_a_plan_file_the_rows_tell(stores: Path, tmp_path: Path) -> None:
    for path in stores.glob("ticks-*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    run = ResultFolder.open(tmp_path)
    assert [(o.name, o.over) for o in run.outputs] == list(synthetic.SHOP)
    assert len(run.outputs[-1].labels) == 5
    assert "known only by its numbers" in words.statement(run)
    report(tmp_path)


def test_folders_without_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a folder"):
        report(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="holds no results"):
        report(tmp_path)
    (tmp_path / "_plan.json").write_text("{}")
    with pytest.raises(ConfigError, match="has no ticks yet"):
        report(tmp_path)
    empty = synthetic.rows([], range(1), [], lambda *_: ([], []))
    synthetic.write(empty, tmp_path / "ticks-000000000000-000000000000.parquet")
    with pytest.raises(ConfigError, match="no key was live"):
        report(tmp_path)
    (tmp_path / "_plan.json").write_text("{")
    with pytest.raises(ConfigError, match="not JSON"):
        report(tmp_path)


def test_out_must_be_a_folder(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="must be a folder"):
        report(shop, tmp_path / "file")


def test_a_long_run_is_thinned_but_ends_at_its_last_tick(tmp_path: Path) -> None:
    folder = synthetic.folder(
        tmp_path / "out",
        [""],
        1500,
        [("purchases", None)],
        lambda name, over, k, tick: ([float(tick)], [1.0]),
        every=512,
    )
    data = gather(ResultFolder.open(folder))
    assert data.stride == 3
    series = data.panels[0].series[0]
    assert len(series.ticks) < 600
    assert list(series.ticks[-7:]) == list(range(1493, 1500))


def test_the_band_fits_the_noise(shop: Path) -> None:
    run = ResultFolder.open(shop)
    assert run.band == pytest.approx(1.96, abs=1e-3)
    pure = [{"mechanism": "merging_tree", "noise": "k_norm", "chosen": True}]
    laplace = ResultFolder(shop, {**run.plan, "alternatives": pure}, True, run.files)
    assert laplace.band == pytest.approx(np.log(20) / np.sqrt(2), abs=1e-3)
    one, two = gather(run).panels[0].series[0], gather(laplace).panels[0].series[0]
    np.testing.assert_allclose(two.half / one.half, laplace.band / run.band)


def test_lists_as_text() -> None:
    text = pa.array(["[1.5, -2e3]", "[]", None, "7", "[null, NaN]", ""])
    array = lists_of(text)
    assert array.to_pylist()[0] == [1.5, -2000.0]
    got = matrix(array, np.arange(6), 2)
    np.testing.assert_array_equal(got[0], [1.5, -2000.0])
    assert np.isnan(got[1:]).all()
    np.testing.assert_array_equal(matrix(array, np.array([3]), 1), [[7.0]])


@pytest.mark.parametrize(
    ("value", "half", "shown"),
    [
        (69612.3, 312.0, ("69,612", "312")),
        (35.88, 0.157, ("35.88", "0.16")),
        (-3.2, 27.4, ("\N{MINUS SIGN}3", "27")),
        (-0.2, 27.4, ("0", "27")),
        (math.nan, 1.0, ("no value", "")),
        (5.0, math.nan, ("5.000", "")),
    ],
)
def test_as_many_digits_as_the_noise_allows(
    value: float, half: float, shown: tuple[str, str]
) -> None:
    assert series.show_value(value, half) == shown


def test_a_band_that_is_wide_only_at_first_does_not_flatten_the_rest() -> None:
    value = np.full(500, 36.0)
    low, high = series.limits(value, 600.0 / np.arange(1, 501), (None, None))
    assert high - low < 100


def test_axes_and_bands_end_at_public_bounds() -> None:
    value, half = np.array([3.0, 5.0, 4.0]), np.full(3, 10.0)
    assert series.limits(value, half, (0.0, 8.0)) == (0.0, 8.0)
    np.testing.assert_array_equal(series.cut(value - half, (0.0, None)), 0)
    hidden = series.hidden(np.array([3.0, 50.0, -3.0]), np.array([4.0, 4.0, 2.0]), (None, None))
    assert hidden.tolist() == [True, False, False], "the margin is wider than the value"
    known = series.hidden(np.array([36.0]), np.array([20.0]), (0.0, 30.0))
    assert known.tolist() == [True], "the margin is wider than the clip"


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("[1, 2)", "1"),
        ("[1, 2]", "1 or 2"),
        ("[3, 5)", "3 to <5"),
        ("[0.5, 1.5)", "0.5 to <1.5"),
        ("[-inf, 0)", "below 0"),
        ("[10, inf]", "10 or more"),
        ("red", "red"),
    ],
)
def test_bins_read_like_words(label: str, shown: str) -> None:
    assert series.bin_name(label) == shown


def test_packed_numbers_keep_more_digits_than_the_noise_leaves() -> None:
    rng = np.random.default_rng(2)
    value = rng.normal(0, 1e5, (7, 50))
    value[2, :9] = np.nan
    for half in (rng.uniform(0.02, 5, (7, 50)), np.tile(rng.uniform(300, 9e4, 50), (7, 1))):
        block = packed(value, half)
        got = unpacked(block["value"], 50, block["step"])
        np.testing.assert_allclose(got, value, atol=block["step"])
        assert block["step"] <= max(half.min() / 10, 2e-3)
        bands = unpacked(block["half"], 50, block["step"])
        np.testing.assert_allclose(np.broadcast_to(bands, half.shape), half, atol=block["step"])
    assert "half" not in packed(value, np.full_like(value, np.nan))


@pytest.mark.parametrize(
    ("unit", "user", "shown", "since"),
    [
        ("event", None, "event", " after it arrived"),
        ("user", {"per": "3 months"}, "user in 3 months", " from the last tick of its period on"),
        ("user", {"per": None}, "user", ""),
    ],
)
def test_what_is_protected_is_named(
    unit: str, user: dict[str, str] | None, shown: str, since: str, tmp_path: Path
) -> None:
    folder = synthetic.folder(tmp_path / "out", [""], 9, synthetic.SHOP, synthetic.shop_values())
    run = ResultFolder.open(folder)
    plan = {**run.plan, "guarantee": {**run.plan["guarantee"], "unit": unit}, "user": user}
    run = dataclasses.replace(run, plan=plan)
    assert words.unit(run) == shown
    assert (f"one {shown}", "added or removed") in words.numbers(run)
    assert (
        words.against(run)
        == f"Privacy loss over time: of one {shown}, from everything released{since}"
    )
