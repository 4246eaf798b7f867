"""``weir init``: a config from a header, with placeholders where bounds would be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.config import yaml
from weir.pipelines.config.job import load
from weir.pipelines.init.init import config_text
from weir.pipelines.init.words import output_name, release_name, word

CSV = """\
date,purchase_id,customer_id,store,dollar value,n,no
2024-01-05,a,c1,north,777.25,3,x
2024-01-06,b,c2,south,888.5,4,y
"""


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "shop events.csv"
    path.write_text(CSV)
    return path


def test_it_proposes_what_the_names_say(events: Path) -> None:
    found = yaml.parse_mapping(config_text(events, events.parent / "c.yaml"))
    assert found["name"] == "shop-events"
    assert found["schema"] == {"time": "date", "id": "purchase_id", "unit": "customer_id"}
    assert found["aggregates"]["events"] == {"count": "events", "over": ["all", 1]}
    assert found["aggregates"]["users"] == {"count": "users"}
    text = config_text(events)
    assert '# dollar_value: {sum: "dollar value", clip: [LOW, HIGH]}' in text
    assert found["privacy"]["unit"] == "user"
    assert found["privacy"]["contributions"] == {"ticks": 4, "keys": 1, "events": 2}
    for field in ("clock.start and clock.end", "key: store", "privacy.contributions", "sums"):
        assert f"# - {field}" in text.partition("# Not decided here:")[2]


def test_no_value_of_the_data_gets_into_it(events: Path) -> None:
    text = config_text(events)
    for value in ("777", "888", "north", "2024-01-05", "c1"):
        assert value not in text


def test_placeholders_are_refused_until_they_are_filled_in(weir: Weir, events: Path) -> None:
    config = events.parent / "c.yaml"
    assert weir("init", events, "-o", config, "--model", "n").exit_code == 0
    result = weir("plan", config)
    assert result.exit_code == 2
    assert "expect.events = '<EVENTS>': is a placeholder" in result.stderr
    for other in ("model.ranges.dollar value[0] (<LOW>)", "model.ranges.n[1] (<HIGH>)"):
        assert other in " ".join(result.stderr.split()), "all of them at once"
    text = config.read_text().replace("<EVENTS>", "20")
    config.write_text(text)
    assert "model.ranges" in weir("plan", config).stderr
    config.write_text(text.replace("<LOW>", "0").replace("<HIGH>", "200"))
    assert weir("plan", config).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("header", ["date,purchase_id,customer_id,store,paid", "at,city", "a,b"])
@pytest.mark.parametrize("once", [(), ("--once",)])
def test_it_plans_without_an_edit(
    weir: Weir, tmp_path: Path, header: str, once: tuple[str, ...]
) -> None:
    path, config = tmp_path / "events.csv", tmp_path / "c.yaml"
    rows = {"date,purchase_id,customer_id,store,paid": "2026-01-05,p1,c1,north,7",
            "at,city": "2026-01-05T10:00:00Z,Rome", "a,b": "7,x"}  # fmt: skip
    path.write_text(f"{header}\n{rows[header]}\n{rows[header]}\n")
    result = weir("init", path, "-o", config, *once)
    assert result.exit_code == 0 and "fill in" not in result.stderr, result.output
    plan = weir("plan", config)
    assert plan.exit_code == 0, plan.output
    timeless = bool(once) or header == "a,b"
    assert ("none: all rows are one release" in plan.stdout) == timeless
    written = config.read_text()
    assert ("no column looks like a time" in " ".join(written.replace("#", "").split())) == (
        header == "a,b"
    )
    assert ("count: users" in written) == ("customer_id" in header)
    run = weir("run", config)
    assert run.exit_code in (0, 1), run.output  # too few rows to publish, or published


def test_a_model_of_one_release(weir: Weir, tmp_path: Path) -> None:
    path, config = tmp_path / "rides.csv", tmp_path / "c.yaml"
    path.write_text(RIDES)
    assert weir("init", path, "--once", "--model", "count", "-o", config).exit_code == 0
    text = config.read_text().replace("<EVENTS>", "1000").replace("<LOW>", "0")
    config.write_text(text.replace("<HIGH>", "100"))
    assert "regression.incremental" in text and weir("plan", config).exit_code == 0
    refused = weir("init", path, "--once", "--model", "note")
    assert refused.exit_code == 2 and "--once" in refused.stderr


def test_the_path_is_relative_to_the_config(weir: Weir, events: Path) -> None:
    folder = events.parent / "configs"
    folder.mkdir()
    result = weir("init", events, "-o", folder / "c.yaml")
    assert result.exit_code == 0
    source = load(folder / "c.yaml").source
    assert source is not None and source.path == str(events)


def test_it_does_not_overwrite(weir: Weir, events: Path) -> None:
    config = events.parent / "c.yaml"
    config.write_text("mine")
    result = weir("init", events, "-o", config)
    assert result.exit_code == 2 and config.read_text() == "mine"
    assert weir("init", events, "-o", config, "--force").exit_code == 0


def test_stdout_is_yaml(weir: Weir, events: Path) -> None:
    result = weir("init", events)
    assert result.exit_code == 0
    assert yaml.parse_mapping(result.stdout)["source"] == {"csv": str(events)}


def test_semicolons(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("at;amount\n2024-01-01T00:00:00Z;5\n2024-01-02T00:00:00Z;6\n")
    found = yaml.parse_mapping(weir("init", path).stdout)
    assert found["source"]["delimiter"] == ";"


@pytest.mark.parametrize("content", [b"", b"\x00\x01\x02garbage" * 9])
def test_files_that_hold_no_events(weir: Weir, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(content)
    result = weir("init", path)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "garbage" not in result.stderr


def written(weir: Weir, path: Path, *options: str) -> dict[str, Any]:
    result = weir("init", path, *options)
    assert result.exit_code == 0, result.stderr
    assert not any(word in result.stdout + result.stderr for word in SECRETS)
    return yaml.parse_mapping(result.stdout)


def refused(weir: Weir, path: Path, *options: str) -> str:
    result = weir("init", path, *options)
    assert result.exit_code == 2 and result.stdout == ""
    assert not any(word in result.stderr for word in SECRETS)
    return " ".join(result.stderr.split())


SECRETS = ("XYZZY", "881250949", "ada@")
HEADLESS = "196,XYZZY,3,881250949\n186,tea,2,891717742\n"


def test_a_file_without_a_header(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "u.csv"
    path.write_text(HEADLESS)
    text = refused(weir, path)
    assert "line 1 has 4 fields: 3 of numbers, 1 of names" in text
    assert f"weir init {path} --no-header" in text
    found = written(weir, path, "--no-header")
    names = ["c1", "c2", "c3", "c4"]
    assert found["source"] == {"csv": str(path), "header": False, "columns": names}
    # A time is known by its name too.
    found = written(weir, path, "--no-header", "--columns", "user,item,stars,at_time")
    assert found["source"]["columns"] == ["user", "item", "stars", "at_time"]
    assert found["schema"]["time"] == {"column": "at_time", "format": "epoch_s", "zone": "UTC"}
    assert "all 4 fields" in refused(weir, path, "--no-header", "--columns", "a,b")


def test_a_header_that_may_be_none(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "u.csv"
    path.write_text(",date,XYZZY 12345678\n0,2024-01-05,7\n")
    assert "3 fields: 1 of nothing, 1 of names, 1 of other text" in refused(weir, path)
    assert written(weir, path, "--columns", "date")["schema"] == {"time": "date"}
    assert "is not a column of" in refused(weir, path, "--columns", "day")
    path.write_text("date,date\n2024-01-05,7\n")
    assert "some of them the same" in refused(weir, path)


def test_keys_of_json_objects_are_not_written_down(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "u.ndjson"
    path.write_text('{"at": "2024-01-05", "XYZZY": 1, "ada@example.org": 2, "paid": 7}\n')
    assert written(weir, path)["schema"] == {"time": "<COLUMN>"}
    found = written(weir, path, "--columns", "at,paid")
    assert found["schema"] == {"time": "at"}
    assert "# paid: {sum: paid," in weir("init", path, "--columns", "at,paid").stdout


def test_names_of_a_binary_file_that_may_be_none(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "u.parquet"
    pq.write_table(pa.table({"2024-01-05": ["x"], "ada@example.org": [1], "paid": [1]}), path)
    assert "1 of times, 1 of addresses, 1 of names" in refused(weir, path)
    assert written(weir, path, "--columns", "paid")["schema"] == {}
    assert "# paid: {sum: paid," in weir("init", path, "--columns", "paid").stdout


def test_other_encodings(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "u.csv"
    path.write_bytes("date,größe\n2024-01-05,7\n".encode("latin-1"))
    assert "--encoding = 'utf-8': is not how line 1 of" in refused(weir, path)
    found = written(weir, path, "--encoding", "latin-1")
    assert found["source"]["encoding"] == "iso8859-1"
    assert '# gr_e: {sum: "größe",' in weir("init", path, "--encoding", "latin-1").stdout
    path.write_bytes("date,größe\n2024-01-05,7\n".encode("utf-16"))
    assert "holds UTF-16 text" in refused(weir, path)
    assert written(weir, path, "--encoding", "utf-16")["source"]["encoding"] == "utf-16"
    path.write_bytes(b"date,name\n2024-01-05,x\n2024-01-06,\xeb\n")
    assert "is not how line 3 of" in refused(weir, path)


def test_newlines_in_quotes(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "u.csv"
    path.write_text('date,note,n\n2024-01-05,"XYZZY\nx",7\n')
    found = written(weir, path)
    assert found["source"]["quoted_newlines"] is True
    assert "# n: {sum: n," in weir("init", path).stdout


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"%PDF", "a PDF"), (b"PK\x03\x04", "a zip archive"), (b"<x>", "XML")],
)
def test_other_formats(weir: Weir, tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "u.csv"
    path.write_bytes(content + b"XYZZY")
    assert f"holds {told}" in refused(weir, path)


def test_a_missing_file(weir: Weir) -> None:
    assert weir("init", "none.csv").exit_code == 2


@pytest.mark.parametrize(
    "text", ["no", "true", "5", "a b", "a: b", "", "-x", "null", "ö", 'q"', "a.csv"]
)
def test_words_mean_themselves(text: str) -> None:
    assert yaml.parse(f"{{a: {word(text)}}}") == {"a": text}


def test_names() -> None:
    assert release_name("/x/My data (2).csv.gz") == "My-data-2"
    assert release_name("___.csv") == "events"
    assert output_name("dollar value %") == "dollar_value"
    assert output_name("2nd") == "v_2nd"


RIDES = """\
at,ride_id,station,temp,windspeed,count,note
2024-01-05T00:00:00Z,a,1,777.25,3,4312,x
2024-01-05T01:00:00Z,b,2,888.5,4,4315,y
"""


def test_a_model_from_a_header(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "rides.csv"
    path.write_text(RIDES)
    config = tmp_path / "c.yaml"
    assert weir("init", path, "--model", "count", "-o", config).exit_code == 0
    text = config.read_text()
    assert not any(value in text for value in ("777", "888", "2024-01-05T00", "431"))
    found = yaml.parse_mapping(text)
    assert "aggregates" not in found and found["expect"] == {"events": "<EVENTS>"}
    assert found["model"]["target"] == "count"
    assert found["model"]["features"] == ["temp", "windspeed"]
    assert list(found["model"]["ranges"]) == ["temp", "windspeed", "count"]
    filled = text.replace("<START>", "2024-01-01T00:00:00Z").replace(
        "<END>", "2024-02-01T00:00:00Z"
    )
    config.write_text(filled.replace("<LOW>", "0").replace("<HIGH>", "100"))
    assert "expect.events = '<EVENTS>': is a placeholder" in weir("plan", config).stderr
    config.write_text(config.read_text().replace("<EVENTS>", "24"))
    assert weir("plan", config).exit_code == 0


def test_a_model_of_classes_from_a_header(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "rides.csv"
    path.write_text(RIDES)
    config = tmp_path / "c.yaml"
    assert weir("init", path, "--model", "note", "-o", config).exit_code == 0
    text = config.read_text().replace("# id: COLUMN", "id: ride_id")
    found = yaml.parse_mapping(text)["model"]
    assert found["algorithm"] == "erm.sliding_window" and found["target"] == "note"
    assert found["features"] == ["temp", "windspeed", "count"] == list(found["ranges"])
    for name, value in {
        "START": "2024-01-01T00:00:00Z", "END": "2024-02-01T00:00:00Z", "LOW": "0", "HIGH": "9",
    }.items():  # fmt: skip
        text = text.replace(f"<{name}>", value)
    config.write_text(text)
    assert "is a placeholder" in weir("plan", config).stderr
    config.write_text(text.replace("<CLASS>, <CLASS>", "x, y").replace("<RECORDS>", "50"))
    assert weir("plan", config).exit_code == 0


def test_targets_that_are_none(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "rides.csv"
    path.write_text(RIDES)
    assert "is not a column of" in refused(weir, path, "--model", "counts")
    assert "a target is a number or a text" in refused(weir, path, "--model", "at")
    path.write_text("at,count\n2024-01-05T00:00:00Z,12\n")
    assert "nothing predicts it" in refused(weir, path, "--model", "count")
    path = tmp_path / "rides.ndjson"
    path.write_text('{"at": "2024-01-05T00:00:00Z", "XYZZY": 1, "count": 7, "temp": 3}\n')
    assert "--columns a,b,c" in refused(weir, path, "--model", "count")
    found = written(weir, path, "--model", "count", "--columns", "at,temp,count")
    assert found["model"]["features"] == ["temp"]


def test_many_columns_are_not_all_features(weir: Weir, tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    names = [f"x{i}" for i in range(40)]
    path.write_text(",".join(["at", *names]) + "\n2024-01-05T00:00:00Z" + ",1" * 40 + "\n")
    found = written(weir, path, "--model", "x3")
    assert found["model"]["features"] == [name for name in names if name != "x3"][:32]


def test_a_list_column_is_proposed_where_the_header_fixes_its_size(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from weir.pipelines.init.header import sniff
    from weir.pipelines.init.init import check_target, model

    numbers = [[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]
    for kind, proposed in ((pa.list_(pa.float32(), 3), True), (pa.list_(pa.float32()), False)):
        path = str(tmp_path / f"{proposed}.parquet")
        columns = {"pixels": pa.array(numbers, kind), "sales": pa.array([1.0, 2.0])}
        pq.write_table(pa.table(columns), path)
        found = sniff(path)
        assert found["lists"] == ({"pixels": 3} if proposed else {})
        if proposed:
            check_target(found, "sales", path)
            assert any("{column: pixels, size: 3}" in line for line in model(found, "sales"))


def test_texts_without_an_extent_are_no_samples(tmp_path: Path) -> None:
    """Offsets that go backwards: their names and types are enough."""
    from weir.transforms.decode.encoding import TextForm
    from weir.transforms.formats.registry import FORMATS

    offsets = pa.py_buffer(np.array([0, 4, 1, 5], dtype=np.int32).tobytes())
    texts = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"north"))
    path = tmp_path / "a.arrow"
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, pa.schema({"k": pa.string()})) as out,
    ):
        out.write_batch(pa.record_batch({"k": texts}))
    types, samples = FORMATS.of("arrow", TextForm()).samples(str(path))
    assert types == {"k": "text"} and samples == {"k": []}


@pytest.mark.slow
def test_the_schema_that_the_first_line_names_is_written_on_request(
    weir: Weir, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("at,n\n2025-01-01,1\n")
    out = tmp_path / "job.yaml"
    assert "needs --out" in refused(weir, tmp_path / "a.csv", "--schema")
    assert weir("init", tmp_path / "a.csv", "-o", out, "--schema").exit_code == 0
    named = out.read_text().splitlines()[0].partition("$schema=")[2]
    assert (out.parent / named).read_text() == weir("schema").stdout


def test_a_glob_or_a_folder_is_read_as_one(weir: Weir, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.csv").write_text("at,order_id,n,x\n2025-01-01,7,1,2\n2025-01-02,8,3,4\n")
    (tmp_path / "d" / "b.csv").write_text("at,order_id,n,x\n2025-01-03,9,1,2.5\n")
    for given in (tmp_path / "d" / "*.csv", tmp_path / "d"):
        text = weir("init", given, "--columns", "at,order_id,n,x").stdout
        assert "x (number)" in text and "n (integer)" in text
        assert "{sum: n, clip" in text
        assert "sum: order_id" not in text, "ids are no amounts"
        assert "--model COLUMN" in text and text.startswith("# yaml-language-server: $schema=")
    (tmp_path / "d" / "c.csv").write_text("at,order_id,n,y\n2025-01-03,9,1,2.5\n")
    assert "is not a column of" in refused(weir, tmp_path / "d", "--columns", "at,n,x")
    (tmp_path / "d" / "c.csv").unlink()
    (tmp_path / "d" / "c.ndjson").write_text('{"at": "2025-01-01", "n": 1}\n')
    assert "a source has one format" in refused(weir, tmp_path / "d", "--columns", "at,n")


@pytest.mark.parametrize(
    ("name", "amount"),
    [
        ("zip", False),
        ("user_code", False),
        ("tripId", False),
        ("paid", True),
        ("number_of_cds", True),
    ],
)
def test_numbers_that_name_something_are_no_amounts(
    weir: Weir, tmp_path: Path, name: str, amount: bool
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"at,{name},total\n2025-01-01,7,1\n2025-01-02,8,3\n")
    text = weir("init", path).stdout
    assert (f"sum: {name}," in text) == amount and "sum: total," in text


def test_json_tells_the_config_and_what_is_left_to_be_filled_in(weir: Weir, tmp_path: Path) -> None:
    (tmp_path / "rides.csv").write_text("at,id,fare\n2024-01-01T00:00:00Z,a,3\n")
    told = json.loads(weir("init", tmp_path / "rides.csv", "--json").stdout)
    assert told["out"] is None and "fare" in told["config"]
    assert told["to_fill_in"] == []
    assert [item.partition(":")[0] for item in told["undecided"]] == [
        "clock.start and clock.end",
        "privacy.unit",
        "sums, like that of fare",
    ]
    out = tmp_path / "rides.yaml"
    told = json.loads(weir("init", tmp_path / "rides.csv", "--out", out, "--json").stdout)
    assert told["out"] == str(out) and out.read_text() == told["config"]
