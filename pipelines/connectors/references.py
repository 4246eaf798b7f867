"""Secrets of connections, by reference: {file: PATH} or {env: NAME}, read where a connection is
made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import BeforeValidator

from weir.dpcore.config.section import refusal
from weir.transforms.sources.kafka.properties import PropertyReference

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _checked(value: Any) -> Any:
    reference_of("", value)
    return value


Reference = Annotated[dict[str, str], BeforeValidator(_checked)]
"""A field of a config: {file: PATH} or {env: NAME}. No message quotes what stands in its place."""


def reference_of(field: str, value: Any) -> PropertyReference:
    """A reference as a config spells it; raises what validators raise, and quotes no secret."""
    if not isinstance(value, Mapping):
        raise refusal(
            field, "...", "is a secret. Write {file: PATH} or {env: NAME}: where workers read it."
        )
    if len(value) != 1 or not set(value) <= {"file", "env"}:
        raise refusal(field, "...", "must hold exactly one of file, env.")
    ((kind, place),) = value.items()
    if kind == "file":
        if not isinstance(place, str) or not PurePosixPath(place).is_absolute():
            raise refusal(
                f"{field}.file".lstrip("."), place, "must be an absolute path: workers read it."
            )
        return PropertyReference(file=place)
    if not isinstance(place, str) or not _VARIABLE.fullmatch(place):
        raise refusal(
            f"{field}.env".lstrip("."),
            "...",
            "is no name of an environment variable. Write one like KAFKA_KEY.",
        )
    return PropertyReference(env=place)
