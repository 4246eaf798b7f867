"""What a message of a stream may hold, as a field of a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic_core import core_schema

OWN = ("json", "ndjson", "arrow", "avro")
"""Formats of messages that this project brings: naming one of them imports none."""


@dataclass(frozen=True)
class MessageFormat:
    """Annotates a field that names a registered format of messages (transforms/formats).

    Attributes:
      others: encodings that the source itself turns into such a format.
    """

    others: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        return {"type": "string", "enum": list(self._names())}

    def _names(self) -> tuple[str, ...]:
        from weir.transforms.formats.registry import message_formats

        return (*message_formats(), *self.others)

    def _check(self, name: str) -> str:
        if name not in (*OWN, *self.others) and name not in self._names():
            raise ValueError(f"must be one of {', '.join(self._names())}.")
        return name


Payload = Annotated[str, MessageFormat()]
