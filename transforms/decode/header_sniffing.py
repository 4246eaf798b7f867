"""The header test: whether names of columns are names, or records that stand where names should.

Names may be shown; events may not, and a file without a header has an event in its first line. What
fails the test is described by number and kind of its fields, and never quoted.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

LONGEST = 64
"""Characters of a name."""

_WORDS = 6
_LONG_NUMBER = re.compile(r"\d{5}|(\d\D*){7}")
_HEX = re.compile(r"(?=.*\d)[0-9A-Fa-f-]{12,}\Z")
_MONTH = r"\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b"
_TIME = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,2}:\d{2}|\d{4}-\d{2}\b"
    rf"|\b\d{{1,2}}[ .-]*{_MONTH}|{_MONTH}\W*\d{{1,2}}\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"[^\w]*\d[\d\s.,'_]*([eE][+-]?\d+)?[^\w]*\Z|[+-]?(nan|inf(inity)?|0x[\da-f]+)\Z", re.IGNORECASE
)
_PUNCTUATION = frozenset(" _-./()[]%$#&+:°€£'’")
_NAME, _OTHER, _NOTHING = "names", "other text", "nothing"


def doubt(names: Sequence[str], rows: Sequence[Sequence[str]] | None = None) -> str | None:
    """What speaks against names being names; None if nothing does.

    Args:
      names: what a header, or a file's own schema, gives.
      rows: of a text, the records below its header: words are a header's only above something that
        is no word, because events have a time. None for a schema, which says itself what it is.
    """
    if not names or any(_kind(name) != _NAME for name in names):
        return described(names)
    if len(set(names)) < len(names):
        return f"{_fields(len(names))}, some of them the same"
    if rows is None:
        return None
    records = [row for row in rows if len(row) == len(names) and list(row) != list(names)]
    columns = [{row[place].strip() for row in records} for place in range(len(names))]
    reported = False
    for name, values in zip(names, columns, strict=True):
        if name.strip() in values or (values and {_shape(name)} == set(map(_shape, values))):
            return f"{_fields(len(names))} like those of the lines below"
        reported |= any(_kind(value) not in (_NAME, _NOTHING) for value in values)
    return (
        None if reported else f"{described(names)}, and nothing below tells that they are no event"
    )


def described(fields: Sequence[str]) -> str:
    """Fields by number and kind, like "4 fields of numbers"; nothing of what they say."""
    kinds: dict[str, int] = {}
    for field in fields:
        kinds[_kind(field)] = kinds.get(_kind(field), 0) + 1
    if len(kinds) == 1 and fields:
        return f"{_fields(len(fields))} of {next(iter(kinds))}"
    listed = ", ".join(f"{count} of {kind}" for kind, count in kinds.items())
    return _fields(len(fields)) + (f": {listed}" if listed else "")


def _fields(count: int) -> str:
    return f"{count} field{'' if count == 1 else 's'}"


def _kind(field: str) -> str:
    text = field.strip()
    if not text:
        return _NOTHING
    if "@" in text or "://" in text:
        return "addresses"
    if _TIME.search(text):
        return "times"
    if _NUMBER.match(text):
        return "numbers"
    return _NAME if _is_name(text) else _OTHER


def _is_name(text: str) -> bool:
    """Words like those people name columns with."""
    if len(text) > LONGEST or len(text.split()) > _WORDS or _HEX.match(text):
        return False
    if _LONG_NUMBER.search(text) or not any(item.isalpha() for item in text):
        return False
    return all(item in _PUNCTUATION or unicodedata.category(item)[0] in "LMN" for item in text)


def _shape(text: str) -> str:
    """Letters and digits by kind, where there are both: u17 is like u18, and no name among ids."""
    shape = re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "9", text.strip()))
    return shape if "9" in shape else text.strip()
