"""Every field of a config on one page, made of its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from weir.pipelines.config.schema import json_schema


def fields_page() -> str:
    """Markdown: a table for the top, and one for each section that has fields."""
    schema = json_schema()
    parts = ["# Config\n", f"{schema['description']}\n", *_table(schema)]
    for name, section in sorted(schema["$defs"].items()):
        if section.get("properties"):
            parts += [
                f"\n## {name}\n",
                f"{_line(section.get('description', ''))}\n",
                *_table(section),
            ]
    return "\n".join(parts) + "\n"


def _table(section: Mapping[str, Any]) -> Iterator[str]:
    yield "| field | what it holds | example |"
    yield "|---|---|---|"
    required = section.get("required", ())
    for name, field in section["properties"].items():
        about = _line(field.get("description", ""))
        kinds = [f"[{kind}](#{anchor(kind)})" for kind in _refs(field)]
        if kinds:
            about = f"{about} {'One of ' if len(kinds) > 1 else 'See '}{', '.join(kinds)}."
        if name in required:
            about += " Required."
        examples = field.get("examples", ())
        shown = f"`{_line(json.dumps(examples[0], ensure_ascii=False))}`" if examples else ""
        yield f"| `{name}` | {about.strip()} | {shown} |"


def _refs(field: Any) -> list[str]:
    """Sections that a field may hold."""
    if isinstance(field, list):
        return [name for one in field for name in _refs(one)]
    if not isinstance(field, dict):
        return []
    own = [field["$ref"].rpartition("/")[2]] if "$ref" in field else []
    inner = [name for key, one in field.items() if key in ("anyOf", "oneOf", "items", "allOf",
             "additionalProperties") for name in _refs(one)]  # fmt: skip
    return list(dict.fromkeys([*own, *inner]))


def anchor(title: str) -> str:
    """The anchor that a heading has on the site."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _line(text: str) -> str:
    """In one cell of a table, and never HTML."""
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")


__all__ = ["fields_page"]
