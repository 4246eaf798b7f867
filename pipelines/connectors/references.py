"""Secrets of connections, by reference: {file: PATH} or {env: NAME}, read where a connection is
made."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import BeforeValidator

from weir.dpcore.config.section import refusal
from weir.transforms.runtime.references import PropertyReference

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


def properties_of(
    section: str, written: Mapping[str, Any], ours: Mapping[str, str], secret: Collection[str]
) -> tuple[dict[str, Any], dict[str, PropertyReference]]:
    """Properties of a client as a config spells them; raises what validators raise.

    Args:
      section: field that holds them. written: name -> value or reference; names may be nested.
      ours: names that Weir sets itself -> what to say. secret: names that take references only.

    Returns:
      Plain ones, and those by reference.
    """
    plain: dict[str, Any] = {}
    secrets: dict[str, PropertyReference] = {}
    for name, value in _flat(written):
        field = f"{section}.{name}"
        if name in ours:
            raise refusal(field, value, ours[name])
        if name in secret or isinstance(value, Mapping):
            secrets[name] = reference_of(field, value)
        elif isinstance(value, bool | int | float | str):
            plain[name] = value
        else:
            raise refusal(field, value, "must be text, a number, or true or false.")
    return plain, secrets


def _flat(written: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Names with dots; ``--set`` makes nested mappings of them."""
    for name, value in written.items():
        whole = f"{before}{name}"
        if isinstance(value, Mapping) and not set(value) & {"file", "env"}:
            yield from _flat(value, f"{whole}.")
        else:
            yield whole, value
