"""Values in the one spelling that digests are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from weir.dpcore.continual.base import ContinualSum


def canonical_mechanism(mechanism: ContinualSum) -> Mapping[str, Any]:
    """Name and every field of a mechanism; floats as hex strings. Without a pattern, none."""
    fields = canonical_value(mechanism)
    if mechanism.pattern is None:
        del fields["pattern"]
    return {"name": mechanism.name, **fields}


def canonical_value(value: Any) -> Any:
    """JSON-able form in which floats are hex strings."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, list | tuple):
        return [canonical_value(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): canonical_value(item) for key, item in value.items()}
    if is_dataclass(value):
        return {f.name: canonical_value(getattr(value, f.name)) for f in fields(value)}
    return value
