"""A field that cannot be read, through a whole run: what is counted, told, and released."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.conftest import Weir
from tests.pipelines.result_rows import result_rows

pytestmark = pytest.mark.slow

JOB = """\
name: ratings
source: {KIND: x.KIND}
schema: {time: {column: at}, id: id}
key: {column: store, declared: [a, b]}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z, delay: 0s}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 8 ticks, relation: replace_one}
aggregates:
  visits: {count: events}
  stars: {sum: rating, clip: [0, 5]}
sink: {parquet: out/}
dead_letters: {ndjson: dead/}
limits: {refused: 0.5}
"""
BAD = {
    "csv": [b"abc", b"\xff", b"1e", b"true", b'"a,b"', b"-", b"PRIVATE"],
    "ndjson": [b'"abc"', b'"\xff"', b'"1e"', b"true", b"[1]", b'"\\ud800"', b'"PRIVATE"'],
}


def write(path: Path, spoilt: bool) -> None:
    lines = [b"at,id,store,rating"] if path.suffix == ".csv" else []
    for i in range(280):
        rating = BAD[path.suffix[1:]][i % 7] if spoilt and i % 2 else b"%d" % (i % 6)
        row = b"2024-01-01T%02d:00:00Z" % (i % 24), b"e%d" % i, b"ab"[i % 2 : i % 2 + 1], rating
        form = b"%b,%b,%b,%b" if lines[:1] == [b"at,id,store,rating"] else OBJECT
        lines.append(form % row)
    path.write_bytes(b"\n".join(lines) + b"\n")


OBJECT = b'{"at":"%b","id":"%b","store":"%b","rating":%b}'


def visits(folder: Path) -> list[Any]:
    found = [row for row in result_rows(folder) if row["name"] == "visits"]
    assert {error for row in found for error in row["stddev"]} == {0.0}
    return [(row["key"], row["tick"], row["value"]) for row in found]


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_exact_counts_are_the_same_over_fields_that_cannot_be_read(
    kind: str, weir: Weir, tmp_path: Path
) -> None:
    found = []
    for spoilt in (False, True):
        folder = tmp_path / str(spoilt)
        folder.mkdir()
        write(folder / f"x.{kind}", spoilt)
        (folder / "job.yaml").write_text(JOB.replace("KIND", kind))
        result = weir("run", folder / "job.yaml")
        assert result.exit_code == 0, result.output
        said = " ".join(result.stdout.split())
        assert ("rating not a number 140" in said) == spoilt and "280 events read" in said
        found.append(visits(folder / "out"))
    assert found[0] == found[1] and max(value for *_, value in found[0]) == [140.0]
    text = "".join(path.read_text() for path in (tmp_path / "True" / "dead").glob("*.ndjson"))
    letters = [json.loads(line) for line in text.splitlines()]
    assert len(letters) == 140 and "PRIVATE" not in text + result.output
    assert {(one["field"], one["reason"]) for one in letters} == {("rating", "not_a_number")}
