"""``weir schema``: the JSON Schema of a config file, for editors and for people."""

from __future__ import annotations

from typing import Any

from weir.dpcore.config import yaml
from weir.dpcore.config.yaml import YAML11_NUMBER
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig


def json_schema() -> dict[str, Any]:
    """The whole schema: every field with a description and an example."""
    schema = JobConfig.model_json_schema(by_alias=True, mode="validation")
    out: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Weir config",
        "description": "One differentially private release from one stream of events. YAML 1.2; "
        "${NAME} in a value stands for an environment variable.",
    }
    out.update({k: v for k, v in _walk(schema).items() if k not in out})
    for section in (out, *out["$defs"].values()):
        for field in section["properties"].values():
            name = field.get("$ref", "").rpartition("/")[2]
            if name and "description" not in field:  # left out where it repeats the section's
                field["description"] = out["$defs"][name]["description"]
    return out


def _walk(value: Any) -> Any:
    """Examples are written as YAML beside the fields: here they become values."""
    if isinstance(value, list):
        return [_walk(item) for item in value]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for name, item in value.items():
        if name == "examples" and isinstance(item, list):
            out[name] = [_example(example) for example in item]
        elif name == "title" and isinstance(item, str):
            continue  # generated from the names, says nothing
        else:
            out[name] = _walk(item)
    if out.get("type") == "number":
        # As it is read: bounds hold for numbers, and of a text they are told when it is read.
        out |= {"type": ["number", "string"], "pattern": YAML11_NUMBER}
    return out


def _example(example: Any) -> Any:
    if not isinstance(example, str):
        return example
    try:
        return yaml.parse(example)
    except ConfigError:
        return example
