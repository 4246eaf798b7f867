"""Folders, tables and records of releases: each file once, whole, and of one plan."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.utils.timestamp import Timestamp

from tests.transforms.cells import Bag, One
from tests.transforms.doubles import FakePlan, Silent, events, random_events
from tests.transforms.releases import PLAN, batch
from tests.transforms.running import KEPT, cut, keep
from weir.dpcore.errors import CodecError, ConfigError, WeirError
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.program import Released
from weir.transforms.beam.private_releases import PrivateReleases
from weir.transforms.beam.publish import PublishReleases, to_messages
from weir.transforms.beam.sinks import WriteBigQuery
from weir.transforms.beam.write_files import RangeDoFn, ToRange, WriteRanges
from weir.transforms.local.engine import LocalEngine
from weir.transforms.local.event_parts import EventParts
from weir.transforms.operators.write import Write
from weir.transforms.release.few import shape_for
from weir.transforms.release.table import (
    RELEASE_SCHEMA,
    ReleaseWriter,
    is_release,
    releases_only,
    span_of,
)
from weir.transforms.runtime import counters, fence
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.sinks import place
from weir.transforms.sinks.sorted_table import sorted_table
from weir.transforms.sinks.targets import bigquery_schema, folder, ranges_of, table, to_records
from weir.transforms.sinks.writer import FolderWriter

LOCAL = False
"""Whether files are written by the step of the local engine; else by that of Beam."""


def write(batches: list[pa.RecordBatch], place: Path, form: str = "parquet", **kw: Any) -> Any:
    counters.reset()
    target = folder(kw.pop("plan", PLAN), str(place), form, **kw)
    if LOCAL:
        step = Write(*target, fence.OPEN)
        with contextlib.closing(step):
            written = [one for each in batches for one in step.process(each)]
            return sorted([*written, *step.finish()])
    pipeline = beam.Pipeline(runner=FnApiRunner())
    source = pipeline | beam.Create(batches, reshuffle=False).with_output_types(pa.RecordBatch)
    token = keep(source | WriteRanges(target), "written")
    pipeline.run().wait_until_finish()
    return sorted(KEPT.pop(token))


@pytest.fixture(params=["local", "beam"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How releases wait for their file: as they are in this process, or as bytes in state."""
    monkeypatch.setattr(sys.modules[__name__], "LOCAL", request.param == "local")


def full_run(place: Path, form: str, plan: FakePlan = PLAN, seed: int = 0) -> None:
    counters.reset()
    data = cut(random_events(500, FakePlan(), seed), 2)
    target = folder(plan, str(place), form)
    if LOCAL:
        engine: Any = LocalEngine(plan, SecretRef.fresh(), noise=Silent())
        with contextlib.closing(Write(*target, fence.OPEN)) as step:
            for each in engine.releases(EventParts([lambda _: iter(data)]), 128):
                list(step.process(each))
            list(step.finish())
        return
    pipeline = beam.Pipeline(runner=FnApiRunner())
    source = pipeline | beam.Create(data, reshuffle=False).with_output_types(pa.RecordBatch)
    found = source | "Release" >> PrivateReleases(plan, noise=Silent())
    found.releases | "Write" >> WriteRanges(target)
    pipeline.run().wait_until_finish()


def test_files_have_the_columns_and_types_of_the_design(tmp_path: Path) -> None:
    full_run(tmp_path, "parquet")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [
        "ticks-000000000000-000000000127.parquet",
        "ticks-000000000128-000000000255.parquet",
        "ticks-000000000256-000000000299.parquet",
    ]
    table = pq.read_table(tmp_path / names[0])
    assert table.schema.names == RELEASE_SCHEMA.names
    for field, wanted in zip(table.schema, RELEASE_SCHEMA, strict=True):
        assert field.type == wanted.type, field.name
    rows = table.to_pylist()
    assert rows == sorted(rows, key=lambda r: (r["tick"], r["key"].encode(), r["name"]))
    assert len(rows) == 128 * 3 * 2 and rows[0]["over"] is None and rows[1]["stddev"] is None


@pytest.mark.slow
def test_the_three_formats_say_the_same(tmp_path: Path) -> None:
    for form in ("parquet", "csv", "ndjson"):
        full_run(tmp_path / form, form)
    file = "ticks-000000000256-000000000299."
    expected = pq.read_table(tmp_path / "parquet" / f"{file}parquet").to_pylist()
    lines = (tmp_path / "ndjson" / f"{file}ndjson").read_text().splitlines()
    ours = [json.loads(line) for line in lines]
    with open(tmp_path / "csv" / f"{file}csv", newline="") as handle:
        texts = list(csv.DictReader(handle))
    assert len(expected) == len(ours) == len(texts)
    for row, line, text in zip(expected, ours, texts, strict=True):
        assert list(row) == list(line) == list(text)
        iso = row["tick_start"].strftime("%Y-%m-%dT%H:%M:%SZ")
        assert line["tick_start"] == text["tick_start"] == iso
        for name in ("release", "key", "tick", "name", "over", "value", "stddev", "epsilon"):
            assert line[name] == row[name]
        assert text["over"] == "" and text["stddev"] == json.dumps(row["stddev"]).replace(
            "null", ""
        ).replace(" ", "")
        assert json.loads(text["value"]) == row["value"] and float(text["delta"]) == row["delta"]


TWO = replace(
    PLAN,
    keys=Keys.make("k", ("a", "b"), False, 16),
    clock=replace(PLAN.clock, end=PLAN.clock.start + 6 * PLAN.clock.period),
)


def whole(add: float = 0.0) -> list[pa.RecordBatch]:
    return [batch(0, 4, [b"a"], 0, add), batch(4, 2, [b"a"], 0, add)] + [
        batch(0, 4, [b"b"], 1, add),
        batch(4, 2, [b"b"], 1, add),
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_a_file_waits_for_every_block_and_tick(tmp_path: Path) -> None:
    assert write(whole(), tmp_path, plan=TWO, every=4) == [(0, 3), (4, 5)]
    assert write(whole()[1:], tmp_path / "2", plan=TWO, every=4) == [(4, 5)]
    assert write(whole()[:-1] * 2, tmp_path / "3", plan=TWO, every=4) == [(0, 3)]


@pytest.mark.slow
def test_a_drain_writes_what_every_block_has_released(tmp_path: Path) -> None:
    endless = replace(TWO, clock=replace(TWO.clock, end=None))
    assert write(whole(), tmp_path, plan=endless, every=4) == [(0, 3), (4, 5)]
    uneven = [*whole()[:2], *whole()[2:3], batch(4, 1, [b"b"], 1)]
    assert write(uneven, tmp_path / "2", plan=endless, every=4) == [(0, 3), (4, 4)]
    name = "ticks-000000000004-000000000004.parquet"
    assert pq.read_table(tmp_path / "2" / name)["tick"].unique().to_pylist() == [4]


class Timer:
    """A timer that somebody fires by hand."""

    def __init__(self) -> None:
        self.at: Any = None

    def set(self, at: Any) -> None:
        self.at = at

    def clear(self) -> None:
        self.at = None


def test_a_range_that_is_over_leaves_nothing_behind_and_replays_double_nothing(
    tmp_path: Path,
) -> None:
    endless = replace(TWO, clock=replace(TWO.clock, end=None))
    dofn = RangeDoFn(ranges_of(endless, 4), FolderWriter(str(tmp_path), "parquet", None))
    to_range = ToRange(ranges_of(endless, 4))
    cells: dict[int, Any] = {}

    def give(batches: list[pa.RecordBatch]) -> list[tuple[int, int]]:
        written = []
        for one in batches:
            to_range.start_bundle()
            assert not list(to_range.process(one, Timestamp(7)))
            for element in to_range.finish_bundle():
                state = cells.setdefault(element.value[0], (Bag(), One(), One(), Timer(), Timer()))
                written += dofn.process(element.value, element.timestamp, *state)
        return written

    def kept() -> list[Any]:
        return [value for state in cells.values() for cell in state[:3] for value in cell.values]

    counters.reset()
    assert give(whole()) == [(0, 3)]
    parts, seen, done, end, forget = cells[0]
    assert (end.at, forget.at) == (None, Timestamp(7)) and done.read() == 4
    assert give(whole()[:1]) == [] and not counters.snapshot().get("divergent")
    dofn.on_forget(done)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert [len(cell.values) for cell in (parts, seen, done)] == [0, 0, 0]

    assert give(whole()[:1]) == []  # a repeat of some of it, behind its time
    assert list(dofn.on_end(0, parts, seen, done)) == []
    assert give([*whole()[:1], whole()[2]]) == [(0, 3)]  # and of all
    dofn.on_forget(done)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert not counters.snapshot().get("divergent")
    assert give([batch(0, 4, [b"a"], 0, 1.0), batch(0, 4, [b"b"], 1, 1.0)]) == [(0, 3)]
    assert counters.snapshot()["divergent"] > 0
    dofn.on_forget(done)
    cells.pop(1)  # not complete yet
    assert kept() == []


def test_parts_of_a_file_that_are_damaged_are_refused(tmp_path: Path) -> None:
    dofn = RangeDoFn(ranges_of(TWO, 4), FolderWriter(str(tmp_path), "parquet", None))
    to_range = ToRange(ranges_of(TWO, 4))
    to_range.start_bundle()
    first, _, second, _ = whole()
    payloads = []
    for one in (first, second):
        assert not list(to_range.process(one, Timestamp(7)))
        payloads += [element.value[1] for element in to_range.finish_bundle()]
    rest = (0, payloads[1]), Timestamp(7)
    parts, seen = Bag(), One()
    assert not list(
        dofn.process((0, payloads[0]), Timestamp(7), parts, seen, One(), Timer(), Timer())
    )
    for cell in (parts, seen):
        (good,) = cell.values
        for bit in range(0, 8 * len(good), 11):
            bad = bytearray(good)
            bad[bit // 8] ^= 1 << bit % 8
            held = [Bag(good if cell is seen else bytes(bad)), One(*seen.values)]
            if cell is seen:
                held = [Bag(*parts.values), One(bytes(bad))]
            with pytest.raises(CodecError):
                list(dofn.process(*rest, *held, One(), Timer(), Timer()))


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    write(whole(), tmp_path, plan=TWO, every=4)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write(whole(), tmp_path, plan=TWO, every=4)
    assert counters.snapshot().get("divergent", 0) == 0
    write(whole(add=1), tmp_path, plan=TWO, every=4)
    assert counters.snapshot()["divergent"] == 6 * 2 * 4
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("layout", ["flat", "packed"])
@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_a_repeat_after_the_write_is_compared(tmp_path: Path, form: str, layout: Any) -> None:
    writer = FolderWriter(str(tmp_path), form, shape_for(PLAN, layout))
    ready = sorted_table(whole()[::2])
    assert writer.write(0, 3, ready) == 0 and writer.write(0, 3, ready) == 0
    assert writer.compare(0, 3, sorted_table([batch(1, 1, [b"a"], 0, -999.0)])) == 0
    rows = 4 if layout == "flat" else 3
    assert writer.compare(0, 3, sorted_table([batch(1, 1, [b"a"], 0, 3.0)])) == rows


@pytest.mark.usefixtures("way")
def test_repeats_across_bundles_are_compared_with_the_file(tmp_path: Path) -> None:
    write(whole() + whole(), tmp_path, plan=TWO, every=4)
    assert counters.snapshot().get("divergent", 0) == 0


def test_the_local_engine_and_beam_write_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for local in (False, True):
        monkeypatch.setattr(sys.modules[__name__], "LOCAL", local)
        full_run(tmp_path / str(local), "parquet")
    ours, theirs = ({p.name: p.read_bytes() for p in (tmp_path / way).iterdir()}
                    for way in ("True", "False"))  # fmt: skip
    assert ours == theirs and len(ours) == 3


@pytest.mark.slow
def test_files_are_put_in_order_and_none_behind_one_that_fails(tmp_path: Path) -> None:
    """Whichever of them is encoded first."""
    last_first = threading.Barrier(2)
    put: list[int] = []

    class Slow(FolderWriter):
        def encode(self, table: pa.Table) -> bytes:
            if table["tick"].chunk(0).dictionary[0].as_py() < 4:
                last_first.wait(10)
            else:
                threading.Timer(0.1, last_first.wait, [10]).start()
            return super().encode(table)

        def put(self, first: int, last: int, content: bytes, divergent: int) -> int:
            put.append(first)
            if how == "fails":
                raise WeirError("it is full")
            return super().put(first, last, content, divergent)

    for how in ("fails", "holds"):
        step = Write(ranges_of(TWO, 4), Slow(str(tmp_path), "parquet", None), fence.OPEN)
        written = [one for each in whole() for one in step.process(each)]
        if how == "fails":
            with pytest.raises(WeirError, match="it is full"):
                list(step.finish())
            assert put == [0] and not list(tmp_path.iterdir())
            put.clear()
        else:
            assert [*written, *step.finish()] == [(0, 3), (4, 5)]
            assert put == [0, 4]
        step.close()


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_a_killed_run_goes_on_and_ends_in_the_same_bytes(tmp_path: Path) -> None:
    full_run(tmp_path / "a", "parquet")
    full_run(tmp_path / "b", "parquet")
    files = sorted((tmp_path / "b").iterdir())
    files[1].unlink()
    (tmp_path / "b" / ".ticks-x.part").write_bytes(b"half a file")
    full_run(tmp_path / "b", "parquet")
    assert counters.snapshot().get("divergent", 0) == 0
    for path in sorted((tmp_path / "a").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_sinks_take_nothing_but_releases() -> None:
    event = events([PLAN.clock.start], ["a"], [42.42])
    released = batch(0, 1, [b"a"])
    assert is_release(released) and span_of(released) == (0, 0, 1)
    assert releases_only(released) is released
    for thing in (event, released.replace_schema_metadata(None), released.to_pylist(), None):
        with pytest.raises(WeirError, match="releases only") as caught:
            releases_only(thing)
        assert "42.42" not in str(caught.value)
    flat = shape_for(PLAN, "flat")
    for how in (flat, None):
        with pytest.raises(WeirError):
            list(to_records(event, how))
        with pytest.raises(WeirError):
            list(to_messages(event, PLAN.layout, "ndjson", how))
    with pytest.raises(WeirError):
        flat.batch(event)


def test_a_folder_belongs_to_one_plan(tmp_path: Path) -> None:
    plan = {"layout": "aa", "digest": "dd"}
    folder = str(tmp_path / "out")
    assert place.prepare(folder, plan, "sink.csv") is False
    assert json.loads((tmp_path / "out" / "_plan.json").read_text()) == plan
    assert place.prepare(folder, plan, "sink.csv") is True
    with pytest.raises(ConfigError, match=r"sink\.csv.*another plan"):
        place.prepare(folder, {"layout": "bb", "digest": "ee"}, "sink.csv")
    (tmp_path / "out" / "ticks-000000000000-000000000003.csv").write_text("x")
    with pytest.raises(ConfigError, match="another secret"):
        place.refuse_fresh(folder, "sink.csv")
    place.finish(folder)
    with pytest.raises(ConfigError, match="complete"):
        place.prepare(folder, plan, "sink.csv")


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"")
    with pytest.raises(ConfigError, match="no run of this plan"):
        place.check(str(tmp_path), "aa", "sink.parquet")
    with pytest.raises(ConfigError, match="is a file"):
        place.check(str(tmp_path / "holiday.jpg"), "aa", "sink.parquet")
    assert list(tmp_path.iterdir()) == [tmp_path / "holiday.jpg"]
    (tmp_path / "_plan.json").write_text("{nonsense")
    with pytest.raises(ConfigError, match="another plan"):
        place.check(str(tmp_path), "aa", "sink.parquet")


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    parts = [batch(0, 6, [b"a"], 0), batch(0, 6, [b"b"], 1)]
    source = pipeline | beam.Create(parts, reshuffle=False).with_output_types(pa.RecordBatch)
    source | WriteRanges(table(TWO, every=8))
    pipeline.run().wait_until_finish()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 6 * 2 * 4 and lines[0].split()[:2] == ["tick_start", "key"]
    first = "  ".join(["2024-01-01T00:00:00Z", "a", "hist low, 1", "all", "0.0", "1.0"])
    assert " ".join(lines[1].split()) == " ".join(first.split())
    assert lines[2].split()[2:] == ["hist", "high", "all", "-0.0", "1.0"]


@pytest.mark.parametrize("layout", ["flat", "packed"])
def test_records(layout: Any) -> None:
    records = list(to_records(batch(0, 1, [b"a"]), shape_for(PLAN, layout)))
    fields = bigquery_schema(layout)["fields"]
    assert all(list(record) == [field["name"] for field in fields] for record in records)
    errors = [record["stddev"] for record in records]
    assert errors == ([None, 0.5, 1.0, 1.0] if layout == "flat" else [[], [0.5], [1.0, 1.0]])
    modes = {field["name"]: field["mode"] for field in fields}
    assert modes["value"] == modes["stddev"] == ("NULLABLE" if layout == "flat" else "REPEATED")
    assert modes["over"] == "NULLABLE"


def test_records_of_bigquery_hold_no_infinity() -> None:
    odd = np.array([np.nan, np.inf, 1.5]).reshape(1, 1, 3)
    one = ReleaseWriter(PLAN).batch(0, 0, 1, [b"a"], [Released("x", None, odd, abs(odd))])
    records = list(to_records(one, shape_for(PLAN, "flat")))
    assert [record["value"] for record in records] == [None, None, 1.5]
    assert [record["high"] for record in records] == [None, None, 4.5]
    types = {field["name"]: field["type"] for field in bigquery_schema()["fields"]}
    assert types == {
        **dict.fromkeys(["release", "key", "name", "label", "plan"], "STRING"),
        **dict.fromkeys(["tick", "index", "over", "window"], "INTEGER"),
        **dict.fromkeys(["tick_start", "tick_end"], "TIMESTAMP"),
        **dict.fromkeys(["value", "stddev", "low", "high", "epsilon", "delta"], "FLOAT"),
    }


def test_the_graphs_of_the_cloud_sinks_build() -> None:
    options = beam.options.pipeline_options.PipelineOptions(
        ["--streaming", "--project=some-project", "--temp_location=gs://bucket/tmp"]
    )
    pipeline = beam.Pipeline(options=options)
    source = pipeline | beam.Create([batch(0, 1, [b"a"])]).with_output_types(pa.RecordBatch)
    source | "BigQuery" >> WriteBigQuery("some-project:shop.releases", PLAN)
    source | "PubSub" >> PublishReleases("projects/some-project/topics/releases", PLAN)
    labels = [node.full_label for node in pipeline.transforms_stack[0].parts]
    assert {"BigQuery", "PubSub"} <= set(labels)
