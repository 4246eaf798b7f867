"""Texts as a config spells them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from weir.dpcore.config import yaml
from weir.transforms.decode.encoding import TextForm

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def word(text: str) -> str:
    """A text as YAML, quoted where it has to be."""
    plain = _BARE.match(text) or re.fullmatch(r"[A-Za-z0-9_./-]+", text)
    if plain and yaml.scalar(text) == text and not text.startswith("-"):
        return text
    return json.dumps(text, ensure_ascii=False)


def written(text: TextForm | None) -> str:
    """How a CSV is written, where it is not as usual."""
    said = []
    usual = TextForm()
    if text is not None and text.delimiter != usual.delimiter:
        said.append(f"delimiter: {json.dumps(text.delimiter)}")
    if text is not None and text.columns is not None:
        said.append(f"header: false, columns: [{', '.join(word(c) for c in text.columns)}]")
    if text is not None and text.encoding != usual.encoding:
        said.append(f"encoding: {text.encoding}")
    if text is not None and text.quoted_newlines:
        said.append("quoted_newlines: true")
    return "".join(f", {item}" for item in said)


def release_name(path: str) -> str:
    """A name for the release, from the file's."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(path).name.partition(".")[0]).strip("-_")
    return word(stem[:63] or "events") if stem[:1].isalnum() else "events"


def output_name(column: str) -> str:
    """A name for an output, from its column's."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", column).strip("_")[:50] or "value"
    return word(name if name[0].isalpha() else f"v_{name}")


__all__ = ["output_name", "release_name", "word", "written"]
