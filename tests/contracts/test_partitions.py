"""Columns in the names of folders: read as if they lay in the files, each record alone; and files
that a predicate leaves out hold no record that it lets through."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

from tests.contracts.test_alone import _by_place
from weir.dpcore.errors import ConfigError
from weir.transforms.columns.predicate import Predicate
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import FORMATS, file_formats
from weir.transforms.sources.file_checks import check_files
from weir.transforms.sources.files import FileSource
from weir.transforms.sources.partitions import NONE

NAMES = ["EU", "a b/c=d%", "007", "1e3", "", None, "2024-01-01", "tr\u00fce"]
"""What a folder may be named by, spelled as it has to be in a path."""


def dataset(root: Path, form: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> Path:
    """Writes rows into folders of some of their columns."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in columns), []).append(row)
    for values, some in groups.items():
        folder = root
        for name, value in zip(columns, values, strict=True):
            folder /= f"{name}={NONE if value is None else quote(value, safe='')}"
        folder.mkdir(parents=True)
        rest = [{name: row[name] for name in row if name not in columns} for row in some]
        with (folder / f"part-0.{form}").open("wb") as file:
            writer = FORMATS[form].writer(file)
            writer.write(pa.RecordBatch.from_pylist(rest))
            writer.close()
    return root


def rows_of(values: list[str | None]) -> list[dict[str, Any]]:
    return [
        {"t": f"2024-01-01T00:00:{at:02d}Z", "i": f"e{at}", "x": at + 0.5, "p": value}
        for at, value in enumerate([*values, *values[:3]])
    ]


T = Stamp("t")
ROLES: dict[str, EventSchema] = {
    "key": EventSchema(T, ("p",), "i", columns={"x": "number"}),
    "keys": EventSchema(T, ("p", "i"), columns={"x": "number"}),
    "unit": EventSchema(T, (), "i", "p", columns={"x": "number"}),
    "id": EventSchema(T, (), "p", columns={"x": "number"}),
    "time": EventSchema(Stamp("p"), (), "i", columns={"x": "number"}),
    "arrival": EventSchema(T, (), "i", arrival=Stamp("p"), columns={"x": "number"}),
    "number": EventSchema(T, (), "i", columns={"x": "number", "p": "number"}),
    "text": EventSchema(T, (), "i", columns={"x": "number", "p": "text"}),
    "boolean": EventSchema(T, (), "i", columns={"x": "number", "p": "boolean"}),
    "nothing else": EventSchema(columns={"p": "text"}),
}


def outcomes(source: FileSource, schema: EventSchema) -> Counter[Any]:
    """What becomes of each record, by its cells but for where it stands."""
    matched = source.match()
    check_files(source, matched, schema)
    parts = [
        item
        for file in matched
        for split in source.splits(file)
        for item in source.decode(split, schema)
    ]
    found = _by_place(parts).values()
    return Counter((None if one is None else tuple(sorted(one)), letters) for one, letters in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "role"),
    # A file of CSV without a column has no header.
    sorted(set(itertools.product(file_formats(), ROLES)) - {("csv", "nothing else")}),
)
def test_a_column_of_folders_is_read_as_one_of_texts(form: str, role: str, tmp_path: Path) -> None:
    """And a folder more changes no record of the others: each is read alone."""
    schema, rows = ROLES[role], rows_of(NAMES if form != "csv" else [n for n in NAMES if n != ""])
    root = dataset(tmp_path / "d", form, rows, ("p",))
    whole = outcomes(FileSource(form, str(root), dataset=True), schema)
    # The same texts as a column of CSV-like text: Arrow tells null from an empty text.
    flat = tmp_path / "flat.arrow"
    with flat.open("wb") as file:
        writer = FORMATS["arrow"].writer(file)
        writer.write(pa.RecordBatch.from_pylist(rows, pa.schema(
            [("t", pa.string()), ("i", pa.string()), ("x", pa.float64()), ("p", pa.string())]
        )))  # fmt: skip
        writer.close()
    assert whole == outcomes(FileSource("arrow", str(flat)), schema)
    apart: Counter[Any] = Counter()
    for folder in root.iterdir():
        alone = tmp_path / f"alone-{len(list(tmp_path.iterdir()))}"
        alone.mkdir()
        folder.rename(alone / folder.name)
        apart += outcomes(FileSource(form, str(alone), dataset=True), schema)
    assert apart == whole


ATOMS = [
    *("p == 'EU'", "p != 'EU'", "p in ['EU', '007']", "p not in ['EU']", "p is None", "p < 'F'"),
    *("q > 1", "q == 1e3", "q is not None", "q + 1 > 2", "x > 4", "x < q", "q not in [1]"),
]


@pytest.mark.slow
def test_files_that_are_left_out_hold_no_record_that_counts(tmp_path: Path) -> None:
    rng = random.Random(5)
    rows = [
        {"t": "2024-01-01T00:00:00Z", "x": float(at), "p": p, "q": q}
        for at, (p, q) in enumerate(
            itertools.product(["EU", "007", None, "US"], ["0", "1", "1000", "odd", None])
        )
    ]
    root = dataset(tmp_path / "d", "arrow", rows, ("p", "q"))
    source, fewest = FileSource("arrow", str(root), dataset=True), len(rows)
    for _ in range(150):
        where = rng.choice(ATOMS)
        for _ in range(rng.randrange(4)):
            other = rng.choice(ATOMS)
            more = [f"({where}) and {other}", f"{other} or ({where})", f"not ({where})"]
            where = rng.choice(more)
        schema = EventSchema.build(T, where=where, numbers=["x"])
        predicate = Predicate.parse(where)
        matched = source.match()
        pruned = source.pruned(matched, where, schema)

        def passing(files: Any, schema: EventSchema = schema, predicate: Any = predicate) -> int:
            return sum(
                predicate.mask(item.events).true_count
                for file in files
                for split in source.splits(file)
                for item in source.decode(split, schema)
                if item.events is not None
            )

        assert passing(set(matched) - set(pruned)) == 0, where
        fewest = min(fewest, len(pruned))
    assert fewest == 0, "a predicate that no folder satisfies leaves out all"


def test_what_is_pruned_and_what_is_not(tmp_path: Path) -> None:
    rows = [{"t": "2024", "x": 1.0, "p": p} for p in ("EU", "US", None)]
    source = FileSource("arrow", str(dataset(tmp_path, "arrow", rows, ("p",))), dataset=True)
    for where, count in {
        "p == 'EU'": 1, "p == 'EU' and x > 0": 1, "p == 'EU' or x > 0": 3, "not p == 'EU'": 2,
        "p is None": 1, "x > 0": 3, "p in ['EU', 'US']": 2, "p == 'EU' and p == 'US'": 0,
    }.items():  # fmt: skip
        schema = EventSchema.build(T, where=where, numbers=["x"])
        assert len(source.pruned(source.match(), where, schema)) == count, where


SCHEMA = EventSchema(T, ("p",), columns={"x": "number"})


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["p=EU/a.arrow", "b.arrow"], "lies in no folder that is named COLUMN=VALUE"),
        (["p=EU/a.arrow", "q=1/b.arrow"], "lies in folders of q, and other files in folders of p"),
        (["p=EU/more/a.arrow"], "lies in the folder more, which does not name a column"),
        (["p=EU/p=US/a.arrow"], "lies in the folder p=US, which does not name a column of its own"),
        (["=EU/a.arrow"], "lies in the folder =EU"),
        ([], "holds no file. Write the folder that holds"),
        (["p=EU/_hidden", "_meta/p=EU/a.arrow", "p=EU/.x/a.arrow"], "holds no file"),
    ],
)
def test_what_is_no_dataset_is_refused(files: list[str], message: str, tmp_path: Path) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"ARROW1")
    with pytest.raises(ConfigError, match=message) as error:
        FileSource("arrow", str(tmp_path), dataset=True).match()
    assert str(error.value).startswith("source.arrow.dataset = ")


def test_a_column_in_files_and_folders_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "p=EU"
    folder.mkdir()
    with (folder / "a.arrow").open("wb") as file:
        writer = FORMATS["arrow"].writer(file)
        writer.write(pa.RecordBatch.from_pylist([{"t": "2024", "x": 1.0, "p": "US"}]))
        writer.close()
    source = FileSource("arrow", str(tmp_path), dataset=True)
    with pytest.raises(ConfigError, match="key.column = 'p': is a column of .* its folders too"):
        check_files(source, source.match(), SCHEMA)
