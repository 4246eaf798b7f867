"""Values of records in forms that only Kafka has -> bytes of a payload that every stream has.

Each is read alone. What a value says decides nothing but what becomes of its own record: one that
cannot be read is None, and becomes a dead letter.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from weir.dpcore.errors import ConfigError
from weir.transforms.sources.kafka.registry import SchemaRegistry

UNKNOWN = 10_000
"""Ids of schemas that a registry does not know, of which so many are remembered."""
_PREFIX = 5
"""Bytes before the body: a zero, and the id of the schema."""


class ValueReader(Protocol):
    """What ``ConfluentAvro`` and ``Protobuf`` are. The same bytes always give the same."""

    def read(self, value: bytes) -> bytes | None:
        """The value as a payload; None where it cannot be read.

        Raises:
          SchemaAway: its schema cannot be had at the moment.
        """


@dataclass
class ConfluentAvro:
    """Avro with the id of its schema in front -> an Avro container of one record.

    Schemas of a registry never change, so each is asked for once in a process. Schemas that refer
    to others are not supported: their records cannot be read.

    Attributes:
      registry: which has the schemas.
    """

    registry: SchemaRegistry
    _headers: dict[int, tuple[bytes, bytes]] = field(default_factory=dict, repr=False)
    _unknown: set[int] = field(default_factory=set, repr=False)

    def read(self, value: bytes) -> bytes | None:
        """See ValueReader."""
        if len(value) < _PREFIX or value[0] != 0:
            return None
        header = self._header(int.from_bytes(value[1:_PREFIX], "big"))
        if header is None:
            return None
        start, sync = header
        body = value[_PREFIX:]
        return b"".join((start, varint(1), varint(len(body)), body, sync))

    def _header(self, id: int) -> tuple[bytes, bytes] | None:
        """The beginning of a container of a schema, and its marker of blocks."""
        if id in self._unknown:
            return None
        if id not in self._headers:
            schema = self.registry.schema(id)
            if schema is None:
                if len(self._unknown) < UNKNOWN:
                    self._unknown.add(id)
                return None
            self._headers[id] = container_header(schema)
        return self._headers[id]


def container_header(schema: bytes) -> tuple[bytes, bytes]:
    """The beginning of an Avro container with plain blocks, and its marker of blocks."""
    sync = hashlib.blake2b(schema, digest_size=16).digest()
    parts = [b"Obj\x01", varint(2)]
    for name, value in ((b"avro.schema", schema), (b"avro.codec", b"null")):
        parts += [varint(len(name)), name, varint(len(value)), value]
    return b"".join([*parts, b"\0", sync]), sync


def varint(number: int) -> bytes:
    """A number >= 0 as Avro writes it."""
    rest, written = number << 1, bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


class Protobuf:
    """Protocol buffers of one type -> a JSON object with the names of the fields.

    Whole numbers are numbers, enums are names, bytes are base64, and times (Timestamp) are RFC
    3339. Fields without presence have their default. A value may have the prefix of a schema
    registry: no message begins with a zero byte.

    Args:
      descriptors: a FileDescriptorSet, as ``protoc --descriptor_set_out --include_imports`` writes
        it. message: full name of the type.

    Raises:
      ConfigError: it is none, or lacks the type or what the type needs.
    """

    def __init__(self, descriptors: bytes, message: str) -> None:
        self._descriptors, self._message = descriptors, message
        self._type: Any = None
        self._load()

    def __getstate__(self) -> tuple[bytes, str]:
        return self._descriptors, self._message

    def __setstate__(self, state: tuple[bytes, str]) -> None:
        self._descriptors, self._message = state
        self._type = None

    def _load(self) -> Any:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        if self._type is None:
            pool = descriptor_pool.DescriptorPool()
            try:
                for file in descriptor_pb2.FileDescriptorSet.FromString(self._descriptors).file:
                    pool.Add(file)
                descriptor = pool.FindMessageTypeByName(self._message)
            except Exception as error:
                raise ConfigError(
                    "source.kafka.message",
                    self._message,
                    f"is not in the descriptors ({type(error).__name__}). Write them with protoc "
                    "--include_imports --descriptor_set_out, and the full name of the type.",
                ) from None
            self._type = message_factory.GetMessageClass(descriptor)
        return self._type

    def read(self, value: bytes) -> bytes | None:
        """See ValueReader."""
        try:
            body = value if value[:1] != b"\0" else _unframed(value)
            message = self._load().FromString(body)
            return orjson.dumps(_plain(message))
        except Exception:
            # Whatever its bytes lead a parser to: its text may quote the record.
            return None


def _unframed(value: bytes) -> bytes:
    """The body behind the prefix of a registry: the id, and the path of the type in its file."""
    at = _PREFIX
    count, at = _zigzag(value, at)
    for _ in range(count):
        _, at = _zigzag(value, at)
    return value[at:]


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at


def _plain(message: Any) -> dict[str, Any]:
    """The fields of a message by their names."""
    fields: dict[str, Any] = {}
    for about in message.DESCRIPTOR.fields:
        value = getattr(message, about.name)
        if about.message_type is not None and about.message_type.GetOptions().map_entry:
            of = about.message_type.fields_by_name["value"]
            fields[about.name] = {str(key): _value(value[key], of) for key in value}
        elif _is_repeated(about):
            fields[about.name] = [_value(item, about) for item in value]
        elif about.has_presence and not message.HasField(about.name):
            fields[about.name] = None
        else:
            fields[about.name] = _value(value, about)
    return fields


def _is_repeated(about: Any) -> bool:
    """Older versions of the library know labels alone, newer ones warn of them."""
    if hasattr(about, "is_repeated"):
        return bool(about.is_repeated)
    return bool(about.label == about.LABEL_REPEATED)


def _value(value: Any, about: Any) -> Any:
    if about.message_type is not None:
        if about.message_type.full_name == "google.protobuf.Timestamp":
            return value.ToJsonString()
        return _plain(value)
    if about.enum_type is not None:
        known = about.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


__all__ = ["ConfluentAvro", "Protobuf", "ValueReader", "container_header"]
