"""Texts of compressed files that are damaged: what stands before the damage is read, no more."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
from pathlib import Path

import pytest

from weir.transforms.decode.encoding import TextForm
from weir.transforms.formats.text import TextFile, first_lines
from weir.transforms.runtime.files import open_raw

LINES = [f"{i},{random.Random(i).random()}".encode() for i in range(20_000)]
PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def lines_of(path: Path, form: TextForm, chunk_bytes: int) -> list[bytes]:
    with open_raw(str(path)) as raw:
        text = TextFile(raw, str(path), form)
        found = [line for one in text.chunks(1, chunk_bytes=chunk_bytes) for line in one.lines()]
        assert text.broken
    return found


@pytest.mark.slow
@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.parametrize("form", [TextForm(), TextForm(quoted_newlines=True)])
def test_whole_lines_in_front_of_the_damage_are_read(
    tmp_path: Path, ending: str, form: TextForm
) -> None:
    data = PACKED[ending](b"\n".join(LINES) + b"\n")
    path = tmp_path / f"events.csv.{ending}"
    for kept in (len(data) * 2 // 3, len(data) * 2 // 3 + 1, len(data) - 9):
        path.write_bytes(data[:kept])
        found = lines_of(path, form, 1 << 24)
        # bz2 gives back blocks of 900 kB, so that of a text this long nothing may be there.
        assert found == LINES[: len(found)] and (len(found) > 5_000 or ending == "bz2")
        assert lines_of(path, form, 1 << 12) == found, "what is read depends on how it is read"


def test_a_cut_number_is_none(tmp_path: Path) -> None:
    path = tmp_path / "events.csv.gz"
    whole = gzip.compress(b"a,123456\nb,123456", compresslevel=0)
    for lost in range(9, 17):  # of these the last eight are the check of the file
        path.write_bytes(whole[:-lost])
        assert lines_of(path, TextForm(), 1 << 24) == [b"a,123456"]


def test_a_text_without_its_last_newline_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.csv.gz"
    path.write_bytes(gzip.compress(b"a,1\nb,2"))
    found = first_lines(str(path), TextForm(), 3)
    assert found.lines == (b"a,1", b"b,2") and not found.broken
