"""Examples of sections as YAML, for messages and documents."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from weir.dpcore.config import yaml

_PLAIN = re.compile(r"[\w./~][\w./~:+*?-]*(?<!:)\Z")


def flow(value: Any) -> str:
    """Plain values as YAML in one line."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {flow(item)}' for name, item in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(flow, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str) and _PLAIN.match(value) and yaml.scalar(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def parsed(example: Any) -> Any:
    """An example as fields state it: YAML where it is text."""
    return yaml.parse(example) if isinstance(example, str) else example


def section_of_bare(section: type[BaseModel], value: Any, example: Any) -> Any:
    """The section that a bare value is probably meant as: that of the first field that takes it.

    Args:
      example: of the section; where the field is not all that it needs, the rest is from there.
    """
    for name in field_names(section):
        wrong = _wrong(section, name, value)
        if wrong is None:
            return {name: value}
        if name in wrong:
            continue
        known = isinstance(example, Mapping) and name in example
        return {**example, name: value} if known else {name: value}
    return example


def field_names(section: type[BaseModel]) -> list[str]:
    """Names of a section's fields as a config spells them."""
    return [info.alias or name for name, info in section.model_fields.items()]


def skeleton(section: type[BaseModel]) -> dict[str, Any]:
    """What a section needs at least, as its fields' examples have it."""
    return {
        info.alias or name: parsed(info.examples[0])
        for name, info in section.model_fields.items()
        if info.is_required() and info.examples
    }


def _wrong(section: type[BaseModel], name: str, value: Any) -> set[str] | None:
    """Fields that a section with this one alone is wrong in; None: it is right."""
    try:
        section.model_validate({name: value})
    except ValidationError as failed:
        errors = failed.errors(include_url=False)
        places = {str(error["loc"][0]) for error in errors if error["loc"]}
        said = {str(error.get("ctx", {}).get("field", "")).split(".")[0] for error in errors}
        return places | said
    return None
