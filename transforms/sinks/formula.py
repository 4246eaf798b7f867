"""Text in CSV that a spreadsheet would take for a formula: guarded, and given back exactly.

A key like ``=HYPERLINK(...)`` may come from whoever sends events, and a spreadsheet that opens the
file would run it. A cell of text that begins with one of ``= + - @``, tab or carriage return gets
an apostrophe before it, which spreadsheets take for "this is text". So that reading gives back what
was there, one that begins with apostrophes and then such a sign gets one more. Numbers are numbers.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

_PLAIN = r"\A('*[=+\-@\t\r])"
_GUARDED = r"\A'('*[=+\-@\t\r])"


def guarded(texts: Any) -> Any:
    """An array of texts, chunked or not, as a CSV file holds them; nulls stay."""
    return pc.replace_substring_regex(texts, _PLAIN, r"'\1")


def given_back(texts: Any) -> Any:
    """The inverse of ``guarded``."""
    return pc.replace_substring_regex(texts, _GUARDED, r"\1")
