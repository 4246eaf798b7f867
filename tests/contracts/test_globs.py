"""Files of one glob, whose columns differ: read alike, or refused by file, column and type.

What a file's schema says is looked at before the run, of every file: none stops it in its middle.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.contracts import alone_columns
from tests.contracts import alone_encodings as enc
from tests.contracts.test_alone import Outcome, _by_place
from weir.dpcore.errors import ConfigError
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.sources.file_checks import check_files
from weir.transforms.sources.files import FileSource
from weir.transforms.sources.matching import match

T = Stamp("t", "epoch_s")
GLOB = EventSchema(T, ("k",), "i", "u", columns={"x": "number", "w": "text"})
TEXTS = [b"north", b"\xff", b"7", b"", None, b"north"]
NUMBERS = [7, 1, None, 0, 2, 7]


def mixed(form: str, text: pa.DataType, number: pa.DataType, ids: pa.DataType) -> pa.Table:
    """The same events, whatever their columns are of."""
    bits = [None if one is None else one.to_bytes(40, "little") for one in NUMBERS]
    numbers = [one and one[: enc.bits(number) // 8] for one in bits]
    digits: list[enc.Cell] = [b"%d" % (2**63 + at) for at in range(len(TEXTS))]
    if enc.bits(ids):
        digits = [(2**63 + at).to_bytes(enc.bits(ids) // 8, "little") for at in range(len(TEXTS))]
    return pa.table(
        {
            "t": pa.array([1_704_103_200] * len(TEXTS), pa.int64()),
            **{name: enc.encoded(text, form, TEXTS) for name in "kuw"},
            "i": enc.encoded(ids, form, digits),
            "x": enc.encoded(number, form, numbers),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_of_a_glob_are_read_alike_whatever_their_columns_are_of(
    kind: str, tmp_path: Path
) -> None:
    texts = (*enc.STRINGS, pa.json_())
    numbers = (pa.int8(), pa.uint64(), pa.decimal128(9), pa.decimal256(70))
    ids = (pa.string(), pa.uint64(), pa.decimal128(38), pa.decimal256(70))
    count = 0
    for at, (form, *kinds) in enumerate(itertools.product(enc.FORMS, texts, numbers, ids)):
        if at % 5 and form != enc.PLAIN:
            continue  # some of them
        if all(enc.can_be_held(one, form, kind == "parquet") for one in kinds):
            table = mixed(form, *kinds)
            path = tmp_path / f"{count:04}.{kind}"
            alone_columns.write_to(path, table, stored=count % 2 == 0)
            count += 1
    assert count > 70
    source = FileSource(kind, str(tmp_path / f"*.{kind}"))
    files = match(source.path, source.field)
    check_files(source, files, GLOB)
    parts = [
        one for file in files for part in source.splits(file) for one in source.decode(part, GLOB)
    ]
    found = _by_place(parts)
    first = [_spelled(found[files[0].path, at]) for at in range(len(TEXTS))]
    assert [one[0] is not None for one in first] == [True, False, True, True, True, True]
    assert dict(first[0][0])["@id"] == str(2**63)
    for file in files:
        assert [_spelled(found[file.path, at]) for at in range(len(TEXTS))] == first, file.path


def _spelled(outcome: Outcome) -> Outcome:
    """With ids and users as they are spelled: whole numbers stay such, and are hashed as these."""
    cells, letters = outcome
    if cells is None:
        return outcome
    return tuple((name, None if cell[1] is None else str(cell[1])) for name, cell in cells), letters


def _table(kind: Any) -> pa.Table:
    columns = {name: pa.array(["1"]) for name in "kiuw"} | {"x": pa.array([1.5])}
    return pa.table({"t": pa.array([1], pa.int64()), **columns, **kind})


REFUSED = {
    "k": (pa.array([{"z": "a"}]), "key.column = 'k': is of type struct in {}; text or"),
    "i": (pa.array([1.5]), "schema.id = 'i': is of type double in {}; text or"),
    "u": (pa.array([[1]]), "schema.unit = 'u': is of type list in {}; text or"),
    "x": (pa.array([1], pa.duration("ms")), "aggregates = 'x': is of type duration[ms] in {}, "),
    "w": (pa.array([1.5], pa.float32()), "aggregates = 'w': is of type float in {}; text or"),
    "t": (pa.array([1], pa.duration("us")), "schema.time = 't': is of type duration[us] in {}, "),
}


@pytest.mark.slow
@pytest.mark.parametrize("column", REFUSED)
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_the_file_of_a_glob_whose_column_is_refused_is_named(
    kind: str, column: str, tmp_path: Path
) -> None:
    for at in range(20):
        alone_columns.write_to(tmp_path / f"{at:02}.{kind}", _table({}))
    values, told = REFUSED[column]
    bad = tmp_path / f"17.{kind}"
    alone_columns.write_to(bad, _table({column: values}))
    source = FileSource(kind, str(tmp_path / f"*.{kind}"))
    for _ in range(2):
        with pytest.raises(ConfigError) as error:
            check_files(source, match(source.path, source.field), GLOB)
        assert str(error.value).startswith(told.format(bad))
        with pytest.raises(ConfigError) as error:
            list(source.decode(next(iter(source.splits(match(str(bad), "f")[0]))), GLOB))
        assert str(error.value).startswith(told.format(bad))
        alone_columns.write_to(bad, _table({column: values})[:0])  # of no record


def test_a_damaged_file_of_a_glob_stops_none(tmp_path: Path) -> None:
    for at in range(3):
        alone_columns.write_to(tmp_path / f"{at}.parquet", _table({}))
    (tmp_path / "1.parquet").write_bytes(b"PAR1 and no footer")
    source = FileSource("parquet", str(tmp_path / "*.parquet"))
    check_files(source, match(source.path, source.field), GLOB)
