"""Texts in other encodings: cut before they are decoded, whatever they hold."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.encoding import Recoded, check_encoding, width_of

WORDS = "tea,Zoë,naïve\r\n,,\nlast"


def recoded(data: bytes, encoding: str, block: int = 1 << 20, line_bytes: int = 1 << 20) -> bytes:
    text = Recoded(io.BytesIO(data).read, check_encoding(encoding), line_bytes)
    return b"".join(iter(lambda: text.read(block), b""))


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    "encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "mac-roman"]
)
def test_a_text_is_the_same_in_every_encoding(encoding: str, block: int) -> None:
    found = recoded(WORDS.encode(encoding), encoding, block)
    assert found.decode().removeprefix("\ufeff") == WORDS


@pytest.mark.parametrize("encoding", ["gbk", "gb18030", "shift_jis", "big5", "euc-kr", "euc-jp"])
def test_encodings_of_several_bytes(encoding: str) -> None:
    text = "日本,中国|\n日,1\n"
    text = text.replace("国", "日")
    assert recoded(text.encode(encoding), encoding, 3).decode() == text


def test_the_mark_says_the_order_of_bytes() -> None:
    data = b"\xfe\xff" + WORDS.encode("utf-16-be")
    assert recoded(data, "utf-16").decode() == "\ufeff" + WORDS
    assert recoded(WORDS.encode("utf-16-le"), "utf-16").decode() == WORDS
    assert recoded(b"\0\0\xfe\xff" + WORDS.encode("utf-32-be"), "utf-32").decode()[1:] == WORDS


@pytest.mark.parametrize(
    ("encoding", "bad"),
    [
        ("cp1252", b"a,\x81,b"),
        ("ascii", "ë".encode()),
        ("gbk", b"a,\x81"),
        ("gbk", b"\xff,a"),
        ("gb18030", b"a,\x81\x30"),
        ("euc-jp", b"a,\x8f\xa1"),
        ("utf-16-le", b"a\0\x3d\xd8"),
        ("utf-16-be", b"\xdc\x00\0a"),
        ("utf-32-le", b"a\0\0\0\0\0\x11\0"),
    ],
)
def test_what_cannot_be_decoded_spoils_its_line_only(encoding: str, bad: bytes) -> None:
    newline = "\n".encode(encoding)
    data = newline.join(["tea,1".encode(encoding), bad, "milk,2".encode(encoding), b""])
    for block in (1, 5, 1000):
        first, spoilt, third, rest = recoded(data, encoding, block).split(b"\n")
        assert (first, third, rest) == (b"tea,1", b"milk,2", b"")
        with pytest.raises(UnicodeDecodeError):
            spoilt.decode()


def test_half_a_unit_at_the_end_spoils_the_last_line() -> None:
    found = recoded("tea\nmilk".encode("utf-16-le") + b"x", "utf-16-le")
    assert found.startswith(b"tea\n") and b"\xff" in found


def test_newlines_are_whole_units() -> None:
    # U+0A0A and U+010A hold the byte of a newline, aligned and not.
    text = "\u0a0a\u010a\u0a01,\u0a05\u0100\u0a05x\ny\n"
    assert recoded(text.encode("utf-16-le"), "utf-16-le", 3).decode() == text
    assert recoded(text.encode("utf-16-be"), "utf-16-be", 3).decode() == text


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16-le"])
@pytest.mark.parametrize("block", [7, 64, 10_000])
def test_a_line_far_over_the_cap_is_never_held(encoding: str, block: int) -> None:
    text = "tea\n" + "x" * 5000 + "\nmilk\n" + "y" * 5000
    found = recoded(text.encode(encoding), encoding, block, 100).split(b"\n")
    assert found[0] == b"tea" and found[2] == b"milk" and len(found) == 4
    assert len(found[1]) > 100 and len(found[3]) > 100
    if block < 100:
        assert len(found[1]) < 500


@given(st.binary(max_size=60), st.sampled_from(["cp1252", "gbk", "utf-16-le", "shift_jis"]))
@settings(max_examples=200)
def test_no_line_changes_another(bad: bytes, encoding: str) -> None:
    newline = "\n".encode(encoding)
    width = width_of(encoding)
    bad = bad[: len(bad) - len(bad) % width]
    data = b"tea".decode().encode(encoding) + newline + bad + newline + "milk".encode(encoding)
    found = recoded(data, encoding, 11).split(b"\n")
    assert (found[0], found[-1]) == (b"tea", b"milk")


@pytest.mark.parametrize(
    "name",
    [
        "klingon", "", "base64", "rot13", "hex", "utf-7", "hz", "iso2022_jp", "iso2022_kr", "idna",
        "punycode", "unicode_escape", "raw_unicode_escape", "cp037", "cp500", "undefined", "a\0b",
    ],
)  # fmt: skip
def test_refused_encodings(name: str) -> None:
    with pytest.raises(ConfigError, match="source.encoding"):
        check_encoding(name)


def test_names_of_encodings() -> None:
    assert check_encoding("UTF8") == check_encoding("utf_8_sig") == "utf-8"
    assert check_encoding("Latin-1") == "iso8859-1"
    assert check_encoding("utf-16LE") == "utf-16-le"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-32", "utf-32-be"])
def test_a_line_as_long_as_allowed_is_kept_wherever_a_read_ends(encoding: str) -> None:
    text = "head\n" + "y" * 20 + "\n" + "last\n"
    for block in range(1, 200):
        found = recoded(text.encode(encoding), encoding, block, line_bytes=20)
        assert found.decode().removeprefix("\ufeff") == text
