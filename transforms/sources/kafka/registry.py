"""A schema registry over HTTP: schemas by id, and ids of schemas."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from weir.transforms.runtime.references import PropertyReference

ANSWER = 5.0
"""Seconds that a registry has for an answer."""
_CONTENT = "application/vnd.schemaregistry.v1+json"


class SchemaAway(Exception):
    """The registry does not answer: what needs it has to wait."""


class SchemaRefused(Exception):
    """The registry does not take a schema. Holds the status of its answer and nothing else."""


@dataclass(frozen=True)
class SchemaRegistry:
    """A registry.

    Attributes:
      url: its address. login: where USER:PASSWORD is, or None.
      section: of the config that they are from, for messages.
    """

    url: str
    login: PropertyReference | None = None
    section: str = "source.kafka"

    def schema(self, id: int) -> bytes | None:
        """The Avro schema of an id; None where there is none, or none that can be used.

        Raises:
          SchemaAway: the registry does not answer.
        """
        try:
            entry = self._ask(f"schemas/ids/{id}")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise SchemaAway(f"HTTP {error.code}") from None
        if not isinstance(entry, Mapping) or entry.get("schemaType", "AVRO") != "AVRO":
            return None
        schema = entry.get("schema")
        if not isinstance(schema, str) or entry.get("references"):
            return None
        try:
            return schema.encode()
        except UnicodeEncodeError:  # half of a character
            return None

    def register(self, subject: str, schema: str) -> int:
        """The id of an Avro schema under a subject; the same where it is registered already.

        Raises:
          SchemaAway: the registry does not answer.
          SchemaRefused: it answers that it does not take this schema from this login.
        """
        try:
            entry = self._ask(f"subjects/{quote(subject, safe='')}/versions", {"schema": schema})
            return int(entry["id"])
        except urllib.error.HTTPError as error:
            kind = SchemaRefused if 400 <= error.code < 500 and error.code != 429 else SchemaAway
            raise kind(f"HTTP {error.code}") from None
        except (TypeError, KeyError, ValueError, OverflowError) as error:
            raise SchemaAway(type(error).__name__) from None

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        request = urllib.request.Request(f"{self.url.rstrip('/')}/{path}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", _CONTENT)
        if self.login is not None:
            words = self.login.read(f"{self.section}.registry_login")
            request.add_header(
                "Authorization", f"Basic {base64.b64encode(words.encode()).decode()}"
            )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER) as answer:
                return json.load(answer)
        except urllib.error.HTTPError:
            raise
        except (OSError, ValueError, HTTPException, RecursionError) as error:
            raise SchemaAway(type(error).__name__) from None


__all__ = ["SchemaAway", "SchemaRefused", "SchemaRegistry"]
