"""Texts as a config spells them."""

from __future__ import annotations

import json
import re

from weir.dpcore.config import yaml

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def word(text: str) -> str:
    """A text as YAML, quoted where it has to be."""
    plain = _BARE.match(text) or re.fullmatch(r"[A-Za-z0-9_./-]+", text)
    if plain and yaml.scalar(text) == text and not text.startswith("-"):
        return text
    return json.dumps(text, ensure_ascii=False)
