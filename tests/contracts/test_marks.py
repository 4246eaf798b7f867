"""A byte order mark is no part of a record, whichever line it stands in front of.

A file of text may begin with one, and a file that was joined of several holds more. Which record is
the first of a file is up to the others: taking it away must not change how the next is read, with a
mark in front of it or without, wherever chunks and parts of a file begin.
"""

from __future__ import annotations

import gzip
import io
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.contracts.test_alone import Outcome, _by_place
from tests.transforms.events import collect
from weir.transforms.beam.pubsub.messages import Message, MessageDecoder
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.csv import decode_csv
from weir.transforms.decode.encoding import UTF_8, TextForm
from weir.transforms.decode.lines import LINE_BYTES, chunks
from weir.transforms.decode.ndjson import decode_ndjson
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats import lines
from weir.transforms.formats.registry import FORMATS
from weir.transforms.formats.text import TextFile
from weir.transforms.sources.files import FileSource
from weir.transforms.sources.matching import match

MARK = "\ufeff"
NAMES = ("t", "k", "i", "x")
SCHEMA = EventSchema.build(Stamp("t"), key="k", id="i", numbers=["x"])
CSV = [
    "2020-01-01,north,1,2.5",
    '"2020-01-02","a ""b""",2,',
    "2020-01-03,s\u00fcd,3,7",
    "2020-01-04,too,few",
    "2020-01-05,\ufeffx,5,1\ufeff",
    "",
]
JSON = [
    '{"t":"2020-01-01","k":"north","i":1,"x":2.5}',
    '{"t":"2020-01-02","k":7,"i":"2"}',
    '{"t":"2020-01-03","k":"s\u00fcd","i":3,"x":null}',
    '{"t":"2020-01-04"',
    '{"t":"2020-01-05","k":"\ufeffx","i":18446744073709551616,"x":1}',
    "",
]
ENCODINGS = (UTF_8, "utf-16-le", "utf-16-be", "utf-32-le")


def csv_forms() -> Iterator[TextForm]:
    for encoding, quoted in itertools.product(ENCODINGS, (False, True)):
        yield TextForm(columns=NAMES, encoding=encoding, quoted_newlines=quoted)


def read_csv(text: str, form: TextForm, chunk_bytes: int) -> Iterable[Decoded]:
    data = io.BytesIO(text.encode(form.encoding))
    pieces = TextFile(data, "f.csv", form).chunks(1, chunk_bytes=chunk_bytes)
    return decode_csv(pieces, NAMES, SCHEMA, "f", quoted_newlines=form.quoted_newlines)


def read_json(text: str, form: TextForm, chunk_bytes: int) -> Iterable[Decoded]:
    data = io.BytesIO(text.encode())
    pieces = TextFile(data, "f.ndjson", form).chunks(1, chunk_bytes=chunk_bytes)
    return decode_ndjson(pieces, SCHEMA, "f")


def read_one(text: str, form: TextForm, chunk_bytes: int) -> Iterable[Decoded]:
    """All lines as one message."""
    decoder = MessageDecoder("ndjson", SCHEMA, "f")
    return decoder.decode([Message("1", text.encode(), 1)]) if text else []


READERS = [
    *((read_csv, form, CSV) for form in csv_forms()),
    (read_json, TextForm(), JSON),
    (read_one, TextForm(), JSON),
]


def outcomes(decoded: Iterable[Decoded]) -> dict[int, Outcome]:
    """Number of a line -> what became of it, the time of arrival aside."""
    found = _by_place(decoded)
    return {place: outcome for (_, place), outcome in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "form", "records"),
    READERS,
    ids=[f"{read.__name__} {form.encoding} {form.quoted_newlines}" for read, form, _ in READERS],
)
def test_a_mark_changes_no_record(
    read: Callable[[str, TextForm, int], Iterable[Decoded]], form: TextForm, records: list[str]
) -> None:
    alone = [outcomes(read(record + "\n", form, 1 << 20)).get(1) for record in records]
    assert any(one is not None and one[0] is not None for one in alone)
    several = [*itertools.permutations(range(len(records)), 2), tuple(range(len(records)))]
    for order in several:
        for marks in itertools.product((0, 1, 2), repeat=2):
            fronts = [MARK * marks[at % 2] for at in range(len(order))]
            lines = [front + records[at] for front, at in zip(fronts, order, strict=True)]
            for chunk_bytes in (1, 3, 7, 1 << 20):
                found = outcomes(read("\n".join(lines) + "\n", form, chunk_bytes))
                assert [found.get(at + 1) for at in range(len(order))] == [
                    alone[at] for at in order
                ]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_a_mark_changes_no_record_of_a_file_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, ending: str
) -> None:
    monkeypatch.setattr(lines, "BLOCK", 5)
    records = [line for line in (CSV if kind == "csv" else JSON) if line]
    columns = NAMES if kind == "csv" else None
    path = tmp_path / f"f.{kind}{ending}"
    source = FileSource(kind, str(path), TextForm(columns=columns))

    def read(lines: list[str]) -> dict[int, Outcome]:
        data = "".join(line + "\n" for line in lines).encode()
        path.write_bytes(gzip.compress(data) if ending else data)
        (file,) = match(str(path), "source")
        parts = [one for part in source.splits(file) for one in source.decode(part, SCHEMA)]
        return outcomes(parts)

    alone = [read([record])[1] for record in records]
    for size, first in itertools.product((1, 20, 50, 1 << 20), range(len(records))):
        monkeypatch.setattr(lines, "SPLIT_BYTES", size)
        for marked in ((), (0,), (1,), range(len(records))):
            some = [MARK * (at in marked) + one for at, one in enumerate(records[first:])]
            found = read(some)
            assert [found[at + 1] for at in range(len(some))] == alone[first:]


@pytest.mark.parametrize("marks", ["", MARK, MARK * 2])
@pytest.mark.parametrize("quoted", [False, True])
def test_a_header_is_found_behind_a_mark(tmp_path: Path, marks: str, quoted: bool) -> None:
    path = tmp_path / "f.csv"
    path.write_text(f"{marks}t,k,i,x\n{MARK}{CSV[0]}\n{CSV[2]}\n", encoding="utf-8")
    source = FileSource("csv", str(path), TextForm(quoted_newlines=quoted))
    (file,) = match(str(path), "source")
    parts = [one for part in source.splits(file) for one in source.decode(part, SCHEMA)]
    events, dead = collect(iter(parts))
    assert [event["@key"] for event in events] == ["north", "s\u00fcd"] and not dead
    assert collect(FORMATS["csv"].decode_bytes(path.read_bytes(), SCHEMA, "f")) == (events, [])


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_marks_count_for_no_length(encoding: str) -> None:
    """A line of the longest length allowed is read wherever chunks begin, and holds no more."""
    cap = 64
    line = "2020-01-01,north,1," + "7" * (cap - 19)
    form = TextForm(columns=NAMES, encoding=encoding, line_bytes=cap)
    for front, behind in itertools.product(("", MARK, MARK * 40), ("", "7")):
        text = f"{front}{line}{behind}\n{front}{CSV[0]}\n"
        for chunk_bytes in (4, 12, 64, 1 << 20):
            found = outcomes(read_csv(text, form, chunk_bytes))
            assert (found[1][0] is not None) == (not behind)
            assert found[2][0] is not None


@pytest.mark.slow
def test_a_line_of_marks_is_read_in_little_memory() -> None:
    """A line of nothing but marks is a blank one, of any length."""
    read = itertools.repeat(MARK.encode() * 1000, 5000)
    most = 0
    for chunk in chunks(lambda _: next(read, b""), line_bytes=LINE_BYTES):
        most = max(most, len(chunk.data))
    assert most == 0
