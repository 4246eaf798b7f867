"""Each record is read alone, however its text is written: encodings, no header, newlines in quotes.

Lines of any bytes stand next to each other in every order of cutting; what becomes of each is what
becomes of it in a file of its own. With quoted newlines that is guaranteed for records that close
the quotes that they open.
"""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.transforms.decode.csv import decode_csv
from weir.transforms.decode.encoding import TextForm, width_of
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.text import TextFile
from weir.transforms.runtime.dead_letters import rows

pytestmark = pytest.mark.slow

NAMES = ("at", "key", "n")
SCHEMA = EventSchema.build(Stamp("at"), key="key", where="n > 0", numbers=["n"])
FORMS = [
    TextForm(columns=NAMES),
    TextForm(columns=NAMES, delimiter="|", encoding="cp1252"),
    TextForm(columns=NAMES, delimiter="|", encoding="gbk"),
    TextForm(columns=NAMES, encoding="shift-jis", line_bytes=40),
    TextForm(columns=NAMES, encoding="utf-16-le"),
    TextForm(columns=NAMES, encoding="utf-32-be"),
    TextForm(columns=NAMES, quoted_newlines=True),
    TextForm(columns=NAMES, encoding="utf-16-be", quoted_newlines=True, line_bytes=40),
]

Outcome = tuple[list[str], list[tuple[str, ...]]]


def outcomes(data: bytes, form: TextForm, chunk_bytes: int) -> dict[int, Outcome]:
    """Line number -> values and reasons."""
    text = TextFile(io.BytesIO(data), "f.csv", form)
    pieces = text.chunks(1, chunk_bytes=chunk_bytes)
    found: dict[int, Outcome] = {}
    decoded = decode_csv(pieces, NAMES, SCHEMA, "f", form.delimiter, form.quoted_newlines)
    for events, dead, _ in decoded:
        for event in [] if events is None else events.to_pylist():
            found.setdefault(event.pop("@position"), ([], []))[0].append(repr(event))
        for _, position, *reason in [] if dead is None else rows(dead):
            found.setdefault(position, ([], []))[1].append(tuple(reason))
    return found


def lines_of(form: TextForm) -> st.SearchStrategy[bytes]:
    """Lines in an encoding: events, and any bytes at all, whole units and no newline among them."""
    mark, width = form.delimiter, width_of(form.encoding)
    newline = "\n".encode(form.encoding)
    # The last two hold the bytes of a newline between them, in either order of bytes.
    cells = st.text(alphabet="ab1.é国\t\r\u0100\u0a05", max_size=4)
    quoted = st.text(alphabet=f"a{mark}\n" if form.quoted_newlines else f"a{mark}", max_size=4)
    field = st.one_of(
        cells, st.just("2024-01-05"), st.just("7"), quoted.map(lambda text: f'"{text}"')
    )
    events = st.lists(field, min_size=2, max_size=4).map(
        lambda fields: mark.join(fields).encode(form.encoding, "replace")
    )
    wild = st.binary(max_size=60).map(lambda data: data[: len(data) - len(data) % width])
    if form.quoted_newlines:
        quote = '"'.encode(form.encoding)
        wild = wild.filter(lambda data: quote not in data)

    def whole(data: bytes) -> bool:
        units = [data[at : at + width] for at in range(0, len(data), width)]
        return newline not in units

    return st.one_of(events, wild.filter(whole))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.encoding}{form.delimiter}")
@given(data=st.data(), chunk_bytes=st.sampled_from([4, 12, 64, 1 << 20]))
@settings(max_examples=80)
def test_a_record_is_read_alone(form: TextForm, data: st.DataObject, chunk_bytes: int) -> None:
    mark = "\ufeff".encode(form.encoding, "ignore")
    marked = st.tuples(st.integers(0, 9), lines_of(form)).map(
        lambda one: mark * (one[0] // 8) + one[1]
    )
    lines = data.draw(st.lists(marked, min_size=1, max_size=6))
    newline = "\n".encode(form.encoding)
    together = outcomes(b"".join(line + newline for line in lines), form, chunk_bytes)
    number = 1
    for line in lines:
        alone = outcomes(line + newline, form, 1 << 20)
        assert together.get(number) == alone.get(1)
        number += sum(
            line[at : at + len(newline)] == newline for at in range(0, len(line), len(newline))
        )
        number += 1
