"""``--wide``: a row for each key and tick, of the sink on the screen and of a folder."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.pipelines.conftest import SMALL, Weir
from tests.pipelines.result_rows import result_rows
from tests.transforms.doubles import FakePlan
from weir.dpcore.program import Released
from weir.pipelines.results.run import ResultFolder
from weir.transforms.release.table import ReleaseWriter
from weir.transforms.sinks.sorted_table import sorted_table
from weir.transforms.sinks.wide import Wide, number

EVENTS = [
    "at,id,store,item,amount",
    *(
        f"2024-01-01T{i % 24:02d}:00:00Z,e{i},{('north', 'south')[i % 2]},{'ba'[i % 3 > 0]},{i % 9}"
        for i in range(300)
    ),
]
MORE = """\
  sizes: {histogram: amount, edges: [0, 3, 9]}
  mean: {mean: amount, clip: [0, 9], over: [4]}
"""
TEXT = SMALL.replace("mechanism:", MORE + "mechanism:").replace(
    "sum: amount", "sum: amount, over: [all, 6]"
)


@pytest.fixture
def job(small: Path) -> Path:
    (small.parent / "events.csv").write_text("\n".join(EVENTS) + "\n")
    (small.parent / "secret.key").write_text("ab" * 32)
    (small.parent / "secret.key").chmod(0o600)
    small.write_text(TEXT + "secret: {file: secret.key}\n")
    return small


def cells(text: str) -> list[list[str]]:
    """The aligned table in a text: its titles, then its lines."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("tick_start"))
    head = lines[begin]
    starts = [0] + [i for i in range(2, len(head)) if head[i - 2 : i] == "  " and head[i] != " "]
    table = []
    for line in lines[begin:]:
        if not line.startswith(("tick_start", "2024")):
            break
        edges = [*starts, len(line) + len(head)]
        table.append([line[a:b].strip() for a, b in zip(edges, edges[1:], strict=False)])
    return table


@pytest.mark.slow
def test_the_screen_shows_what_a_folder_holds(weir: Weir, job: Path) -> None:
    screen = weir("run", job, "--wide", "--set", "sink={stdout: true}")
    assert screen.exit_code == 0, screen.output
    assert weir("run", job).exit_code == 0
    folder = weir("report", job.parent / "out", "--wide")
    assert folder.exit_code == 0, folder.output
    found = cells(screen.stdout)
    assert found == cells(folder.stdout)
    titles, *lines = found
    assert titles == [
        "tick_start", "key", "visits", "± visits", "paid", "± paid", "paid last 6", "± paid last 6",
        "sizes [0, 3)", "± sizes [0, 3)", "sizes [3, 9]", "± sizes [3, 9]",
        "mean last 4", "± mean last 4",
    ]  # fmt: skip
    assert [line[:2] for line in lines[:3]] == [
        ["2024-01-01T00:00:00Z", "north"],
        ["2024-01-01T00:00:00Z", "south"],
        ["2024-01-01T01:00:00Z", "north"],
    ]
    assert len(lines) == 48
    band = ResultFolder.open(job.parent / "out").band
    for row in result_rows(job.parent / "out"):
        at = 2 * row["tick"] + ("north", "south").index(row["key"])
        name = row["name"] if row["over"] is None else f"{row['name']} last {row['over']}"
        for i, value in enumerate(row["value"]):
            column = titles.index(
                name if len(row["value"]) == 1 else f"{name} {('[0, 3)', '[3, 9]')[i]}"
            )
            half = band * row["stddev"][i]
            step = 10.0 ** -max(0, 1 - math.floor(math.log10(half)))
            assert abs(float(lines[at][column]) - value) <= 0.501 * step
            assert abs(float(lines[at][column + 1]) - half) <= 0.501 * step


@pytest.mark.slow
def test_some_keys_and_names(weir: Weir, job: Path) -> None:
    weir("run", job)
    found = cells(
        weir("report", job.parent / "out", "--wide", "--key", "south", "--name", "paid").stdout
    )
    assert found[0] == ["tick_start", "key", "paid", "± paid", "paid last 6", "± paid last 6"]
    assert len(found) == 25 and {line[1] for line in found[1:]} == {"south"}
    assert not list((job.parent / "out").glob("*.html"))
    for more, says in (
        (("--key", "souht"), "did you mean south"),
        (("--name", "pad"), "did you mean paid"),
        (("--png-only",), "is for pictures"),
    ):
        refused = weir("report", job.parent / "out", "--wide", *more)
        assert refused.exit_code == 2 and says in " ".join(refused.output.split())


@pytest.mark.slow
def test_keys_of_several_columns_read_as_words(weir: Weir, job: Path) -> None:
    key = "key: {columns: [store, item], declared: [[north, a], [south, b]]}"
    job.write_text(job.read_text().replace("key: {column: store, declared: [north, south]}", key))
    most = ("--set", "limits.refused=0.9")  # most pairs are not declared
    shown = weir("run", job, "--wide", "--set", "sink={stdout: true}", *most)
    assert {line[1] for line in cells(shown.stdout)[1:]} == {"north, a", "south, b"}
    weir("run", job, *most)
    folder = weir("report", job.parent / "out", "--wide", "--key", "south, b")
    assert {line[1] for line in cells(folder.stdout)[1:]} == {"south, b"}


@pytest.mark.slow
def test_a_config_may_say_so(weir: Weir, job: Path) -> None:
    shown = weir("run", job, "--set", "sink={stdout: true, wide: true}")
    assert cells(shown.stdout)[0][2:4] == ["visits", "± visits"]
    refused = weir("run", job, "--set", "sink={parquet: out, wide: true}")
    assert refused.exit_code == 2 and "sink.wide" in refused.output


def test_sinks_that_show_nothing_refuse_it(weir: Weir, job: Path) -> None:
    for sink in (
        "{bigquery: 'acme-data:shop.releases'}",
        "{pubsub: projects/acme-1/topics/all}",
    ):
        refused = weir("run", job, "--wide", "--set", f"sink={sink}")
        assert refused.exit_code == 2, refused.output
        assert "--wide" in refused.output and "shows none" in " ".join(refused.output.split())


def test_numbers_have_the_digits_that_noise_leaves() -> None:
    assert number(1234.567, 9.8) == ("1234.6", "9.8")
    assert number(1234.567, 123.4) == ("1235", "123")
    assert number(0.123456789, None) == ("0.123457", "")
    assert number(math.nan, 1.0) == ("nan", "1")
    assert number(2.5, math.nan) == ("2.5", "")
    assert number(2.5, math.inf) == ("2.5", "inf")


def test_models_have_no_bands_and_one_key_no_column() -> None:
    plan = FakePlan()
    theta = Released("theta", None, np.arange(6.0).reshape(3, 1, 2), None)
    late = Released("count", None, np.full((3, 1, 1), 7.25), np.full((3, 1, 1), 0.5))
    table = sorted_table([ReleaseWriter(plan).batch(0, 5, 3, [b""], (theta, late))]).table
    outputs = (("count", None, ("",)), ("theta", None, ("u", "v")), ("nobody", 3, ("",)))
    found = cells("".join(Wide(outputs, 2.0, str).lines(table)))
    assert found[0] == ["tick_start", "count", "± count", "theta u", "theta v"]
    assert [line[1:] for line in found[1:]] == [
        ["7.2", "1.0", "0", "1"],
        ["7.2", "1.0", "2", "3"],
        ["7.2", "1.0", "4", "5"],
    ]
    assert list(Wide(outputs, 2.0, str).lines(table.slice(0, 0))) == []
