"""weir.release: a run like any other, over events in memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

import weir
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan_html import plan_html, table
from weir.pipelines.cli.main import main
from weir.pipelines.config.job import load
from weir.pipelines.notebook.release import job_of
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.results.series import flat_table
from weir.transforms.release.table import RELEASE_SCHEMA
from weir.transforms.sources.memory import held

HEX = "5a" * 32
TEXT = """
name: shop
schema: {time: at, id: no}
key: {column: store, declared: [north, "<b>south</b>"]}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-05T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: all}
aggregates:
  visits: {count: events, over: [all, 2]}
  spent: {sum: dollars, clip: [0, 10]}
"""


class Sale(NamedTuple):
    at: str
    store: str
    no: str
    dollars: float | None


SALES = [
    Sale(f"2025-01-0{1 + n % 4}T0{n % 7}:00:00Z", ["north", "<b>south</b>"][n % 2], f"n{n}", n / 8)
    for n in range(40)
]
FRAME = pd.DataFrame(SALES)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A secret, as a file."""
    file = tmp_path / "secret.key"
    file.write_text(HEX)
    file.chmod(0o600)
    return file


@pytest.mark.slow
def test_it_gives_what_weir_run_gives_of_the_same_events_in_a_file(
    tmp_path: Path, key: Path
) -> None:
    FRAME.to_csv(tmp_path / "sales.csv", index=False)
    common = f"{TEXT}secret: {{file: {key}}}\n"
    filed = tmp_path / "filed.yaml"
    filed.write_text(f"{common}source: {{csv: sales.csv}}\nsink: {{parquet: filed}}\n")
    done = CliRunner().invoke(main, ["run", str(filed)])
    assert done.exit_code == 0, done.output
    expected = flat_table(ResultFolder.open(tmp_path / "filed"))
    kinds: dict[str, Any] = {
        "frame": FRAME,
        "table": pa.Table.from_pandas(FRAME, preserve_index=False),
        "rows": SALES,
        "dictionaries": (one._asdict() for one in SALES),
    }
    for name, events in kinds.items():
        sink = "csv" if name == "table" else "ndjson" if name == "rows" else "parquet"
        found = weir.release(events, f"{common}sink: {{{sink}: {tmp_path / name}}}\n")
        assert found.to_arrow().schema == RELEASE_SCHEMA
        assert found.to_arrow().sort_by(
            [(n, "ascending") for n in ("tick", "key", "name", "over")]
        ) == (expected.sort_by([(n, "ascending") for n in ("tick", "key", "name", "over")]))
        assert found.counters["events"] == 40 and (tmp_path / name / "_COMPLETE").exists()
        assert found.notes == ()
    assert len(found) == 4 * 2 * 3 == len(list(found))


def test_events_are_let_go_and_nothing_of_them_stays_on_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    handles: list[str] = []
    from weir.transforms.sources import memory

    real: Callable[..., Any] = memory.OpenedMemory.__init__

    def noted(self: Any, handle: str, *more: Any) -> None:
        handles.append(handle)
        real(self, handle, *more)

    monkeypatch.setattr(memory.OpenedMemory, "__init__", noted)
    found = weir.release(FRAME, TEXT)
    assert "spends the budget again" in found.notes[0]
    assert os.listdir(tmp_path) == []
    with pytest.raises(ConfigError, match="in no reach"):
        held(handles[0])
    first = found.to_arrow().column("value").to_pylist()
    again = weir.release(FRAME, TEXT).to_arrow().column("value").to_pylist()
    assert first != again  # another secret


def test_frames_out() -> None:
    found = weir.release(FRAME, TEXT)
    frame = found.to_pandas()
    assert list(frame.columns) == RELEASE_SCHEMA.names and len(frame) == 24
    assert str(frame["over"].dtype) == "Int64" and frame["over"].isna().sum() == 16
    wide = found.to_wide()
    assert wide.index.names == ["key", "tick_start"] and len(wide) == 8
    assert [name for name, _ in wide.columns][::3] == ["visits", "visits last 2", "spent"]
    assert set(wide["visits"]) == {"value", "low", "high"}
    row = next(iter(found))
    assert row.name == "spent" and row.tick_start.to_rfc3339() == "2025-01-01T00:00:00Z"


def test_what_a_notebook_shows_is_escaped() -> None:
    bad = TEXT.replace("name: shop", "name: a<script>b").replace("visits:", '"<i>v</i>":')
    with pytest.raises(ConfigError):  # names are checked, and yet never trusted
        weir.Plan.from_yaml(bad)
    found = weir.release(FRAME, TEXT)
    for shown in (found._repr_html_(), found.plan._repr_html_()):
        assert "<b>" not in shown and "<script" not in shown
        assert found.plan.guarantee.statement.split(".")[0] in shown
    assert "&lt;b&gt;south&lt;/b&gt;" in found._repr_html_() and "&plusmn;" not in shown
    assert "40" not in repr(found)  # counts are private
    assert table(("<a>",), [("<b>", None, 1 / 3)], "<c>").count("&lt;") == 3
    facts = found.plan.to_json()
    facts["warnings"] = ["<img src=x onerror=alert(1)>"]
    facts["releases"][0]["unit"] = "<u>"
    page = plan_html(facts)
    assert "<img" not in page and "&lt;img" in page and "&lt;u&gt;" in page


def test_a_secret_needs_something_that_remembers_it(tmp_path: Path, key: Path) -> None:
    with pytest.raises(ConfigError, match="a ledger, or a sink"):
        weir.release(FRAME, TEXT, secret_file=key)
    out = f"{TEXT}sink: {{parquet: {tmp_path / 'out'}}}\n"
    weir.release(FRAME, out, secret_file=key)
    with pytest.raises(ConfigError, match="out"):  # it is complete
        weir.release(FRAME.iloc[1:], out, secret_file=key)


@pytest.mark.slow
def test_the_ledger_counts_refuses_and_knows_the_same_events(tmp_path: Path, key: Path) -> None:
    ledger = (
        f"ledger: {{sqlite: {tmp_path / 'ledger.db'}, scope: buyers, "
        "budget: {epsilon: 1.2, delta: 1e-5}}\n"
    )
    first = weir.release(FRAME, TEXT + ledger, secret_file=key)
    assert first.ledger is not None and first.ledger["scope"] == "buyers"
    again = weir.release(pa.Table.from_pandas(FRAME), TEXT + ledger, secret_file=key)
    assert again.to_arrow() == first.to_arrow()  # the same bits: nothing is spent
    with pytest.raises(ConfigError, match="over other events"):
        weir.release(FRAME.assign(dollars=1.0), TEXT + ledger, secret_file=key)
    with pytest.raises(ConfigError, match="is not enough in the scope"):
        weir.release(FRAME, TEXT + ledger)


def test_what_cannot_be_released_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean dolars"):
        weir.release(FRAME.rename(columns={"dollars": "dolars"}), TEXT)
    with pytest.raises(ConfigError, match="at"):
        weir.release([{"when": 1}], TEXT)
    with pytest.raises(ConfigError, match="cannot be given back"):
        weir.release(FRAME, TEXT + "sink: {stdout: true}\n")
    with pytest.raises(ConfigError, match="sink.layout"):
        weir.release(FRAME, TEXT + f"sink: {{parquet: {tmp_path / 'p'}, layout: packed}}\n")
    for events in ("sales.csv", {"at": 1}, 7):
        with pytest.raises(TypeError, match="files are read by weir run"):
            weir.release(events, TEXT)


@pytest.mark.slow
def test_too_much_that_is_rejected_says_what_and_why() -> None:
    times = ["no time"] * 3 + list(FRAME["at"][3:])
    shops = ["west"] * 20 + list(FRAME["store"][20:])
    with pytest.raises(weir.InputRejected) as raised:
        weir.release(FRAME.assign(at=times, store=shops), TEXT)
    error = raised.value
    assert isinstance(error, weir.WeirError) and (error.field, error.value) == (
        "limits.refused",
        0.05,
    )
    assert [(one.field, one.reason, one.count) for one in error.rejected] == [
        ("store", "unknown_key", 17),
        ("at", "unreadable_time", 3),
    ]
    assert error.records == 40 and "key.declared" in error.remedy
    said = "20 of 40 records were rejected (store: unknown key 17; at: unreadable time 3)"
    assert said in str(error) and "limits.refused = 0.05 allows 2" in str(error)
    assert error.remedy in str(error) and '`where: store in ["a", "b"]`' in error.remedy
    assert "west" not in str(error) and "no time" not in str(error)


@pytest.mark.slow
def test_values_that_cannot_be_read_say_their_field() -> None:
    with pytest.raises(weir.InputRejected, match="3 values of dollars in 40 records") as raised:
        weir.release([{**one._asdict(), "dollars": "X"} for one in SALES[:3]] + SALES[3:], TEXT)
    assert raised.value.remedy.startswith("Correct the values of dollars")


@pytest.mark.slow
def test_what_is_rejected_within_the_limit_is_said_without_its_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A notebook is passed on with what it shows: counts are private."""
    found = weir.release(FRAME.assign(store=["west", *FRAME["store"][1:]]), TEXT)
    assert found.counters["unknown_key"] == 1
    said = [one.getMessage() for one in caplog.records if "rejected" in one.getMessage()]
    assert len(said) == 1 and "counters" in said[0] and not any(map(str.isdigit, said[0]))
    assert "rejected" not in "".join(found.notes) + found._repr_html_()
    caplog.clear()
    weir.release(FRAME, TEXT)
    assert "rejected" not in caplog.text


def test_a_config_is_a_path_a_text_or_a_dictionary(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(TEXT)
    plain = json.loads(json.dumps(load(file).to_dict()))
    digests = {
        job_of(one).plan_config().to_dict()["name"] for one in (file, str(file), TEXT, plain)
    }
    assert digests == {"shop"}
    assert job_of(load(file)).name == "shop"
