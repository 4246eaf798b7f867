"""Every field of a config on one page, made of its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weir.pipelines.config.schema import json_schema


def fields_page() -> str:
    """Markdown: a table for the top, and one for each section that has fields, by its YAML key."""
    schema = json_schema()
    titles = _titles(schema)
    parts = ["# Config\n", f"{schema['description']}\n", *_table(schema, titles)]
    for name, title in titles.items():
        section = schema["$defs"][name]
        parts += [
            f"\n## {title}\n",
            f"{_line(section.get('description', ''))}\n",
            *_table(section, titles),
        ]
    return "\n".join(parts) + "\n"


def _titles(schema: Mapping[str, Any]) -> dict[str, str]:
    """Section -> where it stands in a config: its path, and what tells it from its alternatives."""
    known = schema["$defs"]
    titles: dict[str, str] = {}

    def walk(section: Mapping[str, Any], path: str, model: str) -> None:
        for name, field in section.get("properties", {}).items():
            kinds = [kind for kind in _refs(field) if known[kind].get("properties")]
            here = f"{path}{name}.NAME" if "additionalProperties" in field else f"{path}{name}"
            fresh = [kind for kind in kinds if kind not in titles]
            for kind in fresh:
                mark = f" with `{_mark(kind, kinds, known)}`" if len(kinds) > 1 else ""
                title = f"`{here}`{mark}"
                titles[kind] = f"{title} for `{model}`" if title in titles.values() else title
            for kind in fresh:
                algorithm = known[kind]["properties"].get("algorithm", {})
                walk(known[kind], f"{here}.", _mark(kind, kinds, known) if algorithm else model)

    walk(schema, "", "")
    return titles


def _mark(kind: str, kinds: Sequence[str], known: Mapping[str, Any]) -> str:
    """The field that one of several sections has and the others lack, or its algorithm."""
    fields = known[kind]["properties"]
    algorithm = fields.get("algorithm", {})
    named = algorithm.get("const") or (algorithm.get("enum") or [None])[0]
    if named is not None:
        return f"algorithm: {named}"
    others = {name for other in kinds if other != kind for name in known[other]["properties"]}
    own = [name for name in known[kind].get("required", ()) if name not in others]
    return own[0] if own else next(name for name in fields if name not in others)


def _table(section: Mapping[str, Any], titles: Mapping[str, str]) -> Iterator[str]:
    yield "| field | what it holds | example |"
    yield "|---|---|---|"
    required = section.get("required", ())
    for name, field in section["properties"].items():
        about = _line(field.get("description", ""))
        kinds = [f"[{titles[k]}](#{anchor(titles[k])})" for k in _refs(field) if k in titles]
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
