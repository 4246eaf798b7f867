"""Configs as flat fields, and which of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.dpcore.plan_config import PlanConfig

ABSENT = "(absent)"


def changed_fields(a: PlanConfig, b: PlanConfig) -> list[dict[str, Any]]:
    """Dotted path, value in A, value in B; for every field that differs. None: absent."""
    flat_a, flat_b = flatten(a), flatten(b)
    names = [*flat_a, *(name for name in flat_b if name not in flat_a)]
    return [
        {"field": name, "a": flat_a.get(name), "b": flat_b.get(name)}
        for name in names
        if flat_a.get(name) != flat_b.get(name)
    ]


def flatten(config: PlanConfig) -> dict[str, Any]:
    """Every field that is set or has a default, by dotted path; the version that is planned."""
    out: dict[str, Any] = {}

    def visit(path: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for name, item in value.items():
                visit(f"{path}.{name}" if path else str(name), item)
        elif value is not None:
            out[path] = value

    visit("", config.model_dump(mode="json", by_alias=True) | {"version": config.plan_version})
    return out
