"""``weir schema``: complete, documented, and in step with what is accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pipelines.config.job import JobConfig
from pipelines.config.schema import json_schema
from tests.pipelines.conftest import Weir


def objects(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "config", schema
    yield from schema["$defs"].items()


def test_every_property_is_documented_with_an_example() -> None:
    for title, section in objects(json_schema()):
        for name, value in section["properties"].items():
            assert value.get("description"), (title, name)
            assert value.get("examples"), (title, name)


def test_sections_refuse_what_they_do_not_know() -> None:
    for title, section in objects(json_schema()):
        assert section["additionalProperties"] is False, title


def test_all_sections_are_there() -> None:
    schema = json_schema()
    assert set(schema["properties"]) == {
        info.alias or name for name, info in JobConfig.model_fields.items()
    }
    assert set(schema["required"]) == {"name", "schema", "clock", "privacy"}


def test_short_forms_are_in_it() -> None:
    schema = json_schema()
    time = schema["$defs"]["Schema"]["properties"]["time"]
    assert {"type": "string"} in time["anyOf"]
    over = schema["$defs"]["Aggregate"]["properties"]["over"]
    assert {"type": "integer"} in over["anyOf"]


def test_examples_are_values_not_yaml() -> None:
    examples = json_schema()["properties"]["privacy"]["examples"]
    assert examples == [{"epsilon": 1.0, "delta": 1e-6, "protect_for": "365d"}]


def test_the_command_prints_json(weir: Weir) -> None:
    result = weir("schema")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json_schema()
