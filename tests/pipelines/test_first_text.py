"""Encodings and newlines in quotes are told from the first lines; one odd line is only told of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from weir.transforms.decode.encoding import TextForm
from weir.transforms.decode.input_validation import Evidence
from weir.transforms.sources import file_checks as first_text
from weir.transforms.sources.file_checks import Signs, signs_of

TEXT = """\
name: visits
source: {csv: v.csv}
schema: {time: at}
key: {column: city, declared: [München, Bonn]}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-05T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: all}
aggregates: {spent: {sum: spent, clip: [0, 9]}}
sink: {csv: out/}
"""
SECRET = "Rumpelstiltskin"


def lines(cities: list[str], note: str = SECRET) -> str:
    rows = "".join(f"2025-01-01T00:00:00Z,{city},3,{note}\n" for city in cities)
    return f"at,city,spent,note\n{rows}"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "visits.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_file_in_latin_1_is_refused_and_runs_with_its_encoding(weir: Weir, config: Path) -> None:
    data = lines(["München", "Bonn"] * 10).encode("latin-1")
    (config.parent / "v.csv").write_bytes(data)
    result = weir("run", config)
    told = " ".join(result.stderr.split())
    assert result.exit_code == 2, result.output
    assert "source.encoding = 'utf-8'" in told and "10 of the first 21 lines" in told
    assert "latin-1" in told and SECRET not in told
    assert not (config.parent / "out").exists()
    assert weir("run", config, "--set", "source.encoding=latin-1").exit_code == 0


@pytest.mark.slow
def test_bytes_in_a_column_that_nobody_reads_cost_nothing(weir: Weir, config: Path) -> None:
    data = lines(["Bonn"] * 20, "Zürich").encode("latin-1")
    (config.parent / "v.csv").write_bytes(data)
    assert weir("run", config).exit_code == 0


@pytest.mark.slow
def test_newlines_in_quotes_are_refused_and_run_with_their_setting(
    weir: Weir, config: Path
) -> None:
    text = lines(["München", "Bonn"] * 10, '"two\nlines"')
    (config.parent / "v.csv").write_text(text, encoding="utf-8")
    result = weir("run", config)
    told = " ".join(result.stderr.split())
    assert result.exit_code == 2, result.output
    assert "source.quoted_newlines = false" in told and "20 of the first 20 records" in told
    assert "write source.quoted_newlines: true" in told and not (config.parent / "out").exists()
    assert weir("run", config, "--set", "source.quoted_newlines=true").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("odd", ['Bonn,3,"two\nlines"', "M\xfcnchen,3,x"])
def test_one_odd_record_stops_no_run_and_is_told_of(weir: Weir, config: Path, odd: str) -> None:
    text = lines(["Bonn"] * 60) + f"2025-01-01T00:00:00Z,{odd}\n"
    (config.parent / "v.csv").write_bytes(text.encode("latin-1"))
    result = weir("run", config)
    assert result.exit_code == 0, result.output
    assert "does not fit: 1 of the first" in " ".join(result.stderr.split())


def test_lines_of_json_are_described_by_number_and_sort_of_their_fields(
    tmp_path: Path, weir: Weir, config: Path
) -> None:
    record = b'{"at": "2025-01-01T00:00:00Z", "city": "Bonn", "Rumpelstiltskin": 7, "ok": true}\n'
    (tmp_path / "v.ndjson").write_bytes(record * 20)
    result = weir("run", config, "--set", "source={ndjson: v.ndjson}")
    told = " ".join(result.stderr.split())
    assert result.exit_code == 2 and "aggregates.spent.sum = 'spent'" in told and SECRET not in told
    assert "4 fields: 2 of text, 1 of numbers, 1 of true or false" in told


def test_json_in_latin_1_says_how_to_convert_it(tmp_path: Path) -> None:
    path = tmp_path / "v.ndjson"
    path.write_bytes('{"city": "München"}\n'.encode("latin-1") * 5)
    error = signs_of(str(path), False, TextForm()).error(Evidence({("letter", "", "malformed"): 5}))
    assert error is not None and "iconv -f LATIN1" in error.remedy


def test_several_is_eight_or_half() -> None:
    lost = Evidence({("letter", "city", "unreadable_key"): 1, "records": 1})
    other = Evidence({("letter", "", "malformed"): 1, "records": 1})
    assert Signs("x", True, lines=4, foreign=2).error(other) is None
    assert Signs("x", True, lines=1000, foreign=first_text.SEVERAL).error(lost)
    assert Signs("x", True, lines=1000, foreign=first_text.SEVERAL - 1).error(lost) is None
    assert Signs("x", True, lines=1000, foreign=20, known=20).error(lost) is None
    assert Signs("x", True, lines=4, foreign=2).error(lost)
    assert Signs("x", True, lines=4, foreign=2).error(Evidence()) is None
    assert Signs("x", True, records=2, spread=1).error(Evidence())
    assert Signs("x", True).error(lost) is None and Signs("x", True).note(lost) is None


RETURNS = "carriage returns"


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("\r", "lines that end in carriage returns alone; make them newlines: tr '\\r' '\\n'"),
        ("\r\r\n", "lines that end in two carriage returns; remove them: tr -d '\\r'"),
    ],
)
@pytest.mark.parametrize("rows", [3, 40_000])
def test_lines_that_end_in_carriage_returns_are_refused_with_what_to_do(
    rows: int, end: str, says: str, weir: Weir, config: Path
) -> None:
    text = lines(["Bonn"] * rows).replace("\n", end)
    (config.parent / "v.csv").write_bytes(text.encode())
    headless = ["--set", "source.columns=[at, city, spent, note]", "--set", "source.header=false"]
    for more in ([], headless):
        result = weir("run", config, *more)
        told = " ".join(result.stderr.split())
        assert result.exit_code == 2 and says in told, result.output
        assert SECRET not in told and not (config.parent / "out").exists()


def test_lines_of_json_that_end_in_carriage_returns_are_refused(weir: Weir, config: Path) -> None:
    record = f'{{"at": "2025-01-01T00:00:00Z", "city": "Bonn", "spent": 3, "n": "{SECRET}"}}'
    for rows in (3, 40_000):
        (config.parent / "v.ndjson").write_text(f"{record}\r" * rows, newline="")
        result = weir("run", config, "--set", "source={ndjson: v.ndjson}")
        told = " ".join(result.stderr.split())
        assert result.exit_code == 2 and "lines that end in carriage returns alone" in told
        assert SECRET not in told


def test_returns_where_they_may_stand_are_no_ends_of_lines(weir: Weir, config: Path) -> None:
    text = lines(["Bonn"] * 9).replace("\n", "\r\n")
    quoted = text.replace("at,city", '"at",city').replace("spent,note", 'spent,"no\rte"')
    for number, one in enumerate((text, text.rstrip("\n"), quoted)):
        (config.parent / "v.csv").write_bytes(one.encode())
        assert weir("run", config, "--set", f"sink.csv=out{number}").exit_code == 0
