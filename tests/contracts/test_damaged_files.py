"""A damaged file loses nothing, or holds its run back: cut anywhere, or with one byte changed.

Every format of files is here, under every compression that it has, or its name fails a test. Text
that is not compressed has no frame: cut behind a newline it is a shorter file, and nobody can tell.
The same holds for what is cut where a block of Avro or a member of gzip, bzip2 or xz ends; their
places are named here, and are few.

Some hundred damages a file are tried each time. For more, in fresh places each time:
``DAMAGE_EXAMPLES=5000 python -m pytest tests/contracts/test_damaged_files.py``.
"""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import json
import lzma
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from weir.dpcore.errors import ConfigError
from weir.pipelines.results.verdict import judge
from weir.transforms.beam.elements import emit
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.formats.registry import file_formats
from weir.transforms.formats.stored import COMPRESSED
from weir.transforms.runtime import counters
from weir.transforms.sources.file_checks import check_files
from weir.transforms.sources.files import FileSource

EXAMPLES = int(os.environ.get("DAMAGE_EXAMPLES", "40"))
RANDOM = random.Random(None if "DAMAGE_EXAMPLES" in os.environ else 7)
SCHEMA = EventSchema.build(Stamp("at"), key="key", numbers=["x", "n"])
COUNT, A_BLOCK = 30, 10
ROWS = [
    {
        "at": f"2024-01-01T00:{i:02d}:00Z",
        "key": ("north", "south", "east")[i % 3],
        "x": round(random.Random(i).random() * 100, 3),
        "n": 10**6 + 7919 * i,
    }
    for i in range(COUNT)
]
TABLE = pa.Table.from_pylist(ROWS)
COUNTS = {3, 6, 10, 20, 30, 60}
"""What frames say: numbers of blocks and of rows, also as zigzag varints. Wrong ones read well."""

Row = tuple[int, str, float, float]


class Whole(NamedTuple):
    """An intact file.

    Attributes:
      form: its format. ending: of its name. data: its bytes.
      ends: where it can be cut and is a whole file still, as its format has it.
    """

    form: str
    ending: str
    data: bytes
    ends: frozenset[int] = frozenset()


def _parquet(**options: Any) -> Whole:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, row_group_size=A_BLOCK, **options)
    return Whole("parquet", ".parquet", sink.getvalue())


def _arrow(stream: bool, codec: str | None = None, table: pa.Table = TABLE) -> Whole:
    sink = io.BytesIO()
    make: Callable[..., Any] = pa.ipc.new_stream if stream else pa.ipc.new_file
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with make(sink, table.schema, options=options) as writer:
        writer.write_table(table, A_BLOCK)
    return Whole("arrow", ".arrow", sink.getvalue())


def _avro(codec: str) -> Whole:
    kinds = {"at": "string", "key": "string", "x": "double", "n": "long"}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    sink, ends = io.BytesIO(), set()
    written: Any = fastavro.write.Writer(
        sink, {"type": "record", "name": "event", "fields": fields}, codec=codec
    )
    written.flush()
    ends.add(sink.tell())
    for i, row in enumerate(ROWS):
        written.write(row)
        if i % A_BLOCK == A_BLOCK - 1:
            written.flush()
            ends.add(sink.tell())
    return Whole("avro", ".avro", sink.getvalue(), frozenset(ends))


def _packed(form: str, ending: str, pack: Callable[[bytes], bytes]) -> Whole:
    """Text in two members."""
    lines = [json.dumps(row) for row in ROWS]
    if form == "csv":
        lines = ["at,key,x,n"] + [",".join(map(str, row.values())) for row in ROWS]
    half = len(lines) // 2
    parts = ("".join(f"{line}\n" for line in part) for part in (lines[:half], lines[half:]))
    members = [pack(part.encode()) for part in parts]
    return Whole(form, ending, b"".join(members), frozenset({len(members[0])}))


def _dictionaries() -> pa.Table:
    return TABLE.set_column(1, "key", TABLE["key"].combine_chunks().dictionary_encode())


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    # As the command zstd does; without a checksum a changed byte would be another text.
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
PAGES = ("NONE", "SNAPPY", "GZIP", "ZSTD", "LZ4", "BROTLI")
AVRO_CODECS = ("null", "deflate", "bzip2", "xz")
FILES: dict[str, Whole] = {
    **{f"parquet {codec}": _parquet(compression=codec) for codec in PAGES},
    "parquet plain": _parquet(compression="NONE", use_dictionary=False),
    "parquet checked": _parquet(compression="NONE", write_page_checksum=True),
    "parquet pages 2": _parquet(compression="ZSTD", data_page_version="2.0"),
    **{f"arrow file {codec}": _arrow(False, codec) for codec in (None, "lz4", "zstd")},
    **{f"arrow stream {codec}": _arrow(True, codec) for codec in (None, "lz4", "zstd")},
    "arrow file of dictionaries": _arrow(False, table=_dictionaries()),
    "arrow stream of dictionaries": _arrow(True, table=_dictionaries()),
    **{f"avro {codec}": _avro(codec) for codec in AVRO_CODECS},
    **{
        f"{form}{ending}": _packed(form, ending, pack)
        for form, (ending, pack) in itertools.product(("csv", "ndjson"), PACKERS.items())
    },
}


def test_every_format_and_compression_is_here() -> None:
    assert {whole.form for whole in FILES.values()} == set(file_formats())
    for form in ("csv", "ndjson"):
        assert {w.ending for w in FILES.values() if w.form == form} == set(COMPRESSED)
    assert set(AVRO_CODECS) <= set(fastavro.read.BLOCK_READERS)


class Outcome(NamedTuple):
    """What becomes of a file: refused before the run, held back, or published with these rows.

    Attributes:
      rejected: records that are counted as such. note: whether stderr says so.
    """

    refused: bool = False
    held: bool = False
    rows: tuple[Row, ...] = ()
    rejected: int = 0
    note: bool = False


def outcome(path: Path, form: str) -> Outcome:
    """Reads a file as ``weir run`` does."""
    source = FileSource(form, str(path))
    counters.reset()
    rows: list[Row] = []
    try:
        matched = source.match()
        check_files(source, matched, SCHEMA)
        for split in itertools.chain.from_iterable(map(source.splits, matched)):
            for out in emit(source.decode(split, SCHEMA)):
                rows += _rows(out)
    except ConfigError:
        return Outcome(refused=True)
    # A limit that allows everything: only what no limit allows holds a run back.
    verdict = judge({**counters.snapshot(), "ticks_released": 1}, 1.0)
    told = verdict.note is not None
    return Outcome(False, not verdict.passes, tuple(rows), verdict.put_aside, told)


def _rows(out: Any) -> Iterator[Row]:
    if not isinstance(out, pa.RecordBatch):  # tagged: dead letters
        return
    columns = [out.column("@time").cast(pa.int64()), *map(out.column, ("@key", "x", "n"))]
    yield from zip(*(column.to_pylist() for column in columns), strict=True)


@pytest.fixture(params=FILES, ids=str)
def whole(request: pytest.FixtureRequest) -> Whole:
    return FILES[request.param]


@pytest.fixture
def path(tmp_path: Path, whole: Whole) -> Path:
    return tmp_path / f"events{whole.ending}"


def places(size: int) -> Iterable[int]:
    """Offsets into a file: its beginning and end, and some between."""
    edges = [*range(9), *range(size - 12, size)]
    between = RANDOM.sample(range(size), min(size, EXAMPLES))
    return sorted({at for at in [*edges, *between] if 0 <= at < size})


@pytest.mark.slow
def test_a_cut_loses_nothing_or_holds_back(whole: Whole, path: Path) -> None:
    path.write_bytes(whole.data)
    intact = outcome(path, whole.form)
    assert len(intact.rows) == COUNT and not (intact.held or intact.rejected or intact.note)
    for at in sorted({*places(len(whole.data)), *whole.ends}):
        path.write_bytes(whole.data[:at])
        found = outcome(path, whole.form)
        assert found.refused or found.held or at in whole.ends | {len(whole.data)}, at
        # What is read of it is whole records: half a number is a number.
        assert set(found.rows) <= set(intact.rows), at


@pytest.mark.slow
def test_one_byte_changed_loses_nothing_or_holds_back(whole: Whole, path: Path) -> None:
    size = len(whole.data)
    frame = [at for at in range(2 * size // 3, size) if whole.data[at] in COUNTS]
    tried = [(at, 1 << RANDOM.randrange(8)) for at in places(size)]
    tried += [(at, bit) for at in RANDOM.sample(frame, min(len(frame), EXAMPLES)) for bit in (1, 8)]
    for at, bits in tried:
        data = bytearray(whole.data)
        data[at] ^= bits
        path.write_bytes(data)
        found = outcome(path, whole.form)
        if not (found.refused or found.held):
            assert len(found.rows) + found.rejected == COUNT, (at, bits)
            assert found.note or not found.rejected, (at, bits)


@pytest.mark.slow
def test_a_damaged_file_changes_no_record_of_another(whole: Whole, path: Path) -> None:
    path.write_bytes(whole.data)
    intact = outcome(path, whole.form)
    end = 2 * len(whole.data) // 3
    for damaged in (whole.data[:end], whole.data[: end // 3], whole.data[end:]):
        path.with_name(f"more{whole.ending}").write_bytes(damaged)
        found = outcome(path.with_name(f"*{whole.ending}"), whole.form)
        assert found.held and not found.refused
        assert Counter(intact.rows) <= Counter(found.rows)
