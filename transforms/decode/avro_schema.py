"""Avro schemas, taken down to what is on the wire: numbers and bytes, nothing that can fail.

A reader that turns text, times or enums into Python's raises at the first record whose value has no
such form, and takes the block along. So a file is read by a schema of the same encoding in which
strings and the keys of maps are bytes, enums are numbers, maps are arrays of pairs and no logical
type is left. What its values mean, ``Field`` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.nested import steps

_WIRE = {
    "null": "null",
    "boolean": "boolean",
    "int": "long",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "bytes",
}
_TIMES = {
    f"{local}timestamp-{name}": (f"{local}timestamp", unit)
    for local in ("", "local-")
    for name, unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns"))
}
_LARGEST_SCALE = 1000


class Branch(NamedTuple):
    """One type of a field.

    Attributes:
      kind: boolean, long, double, string, bytes, enum, timestamp, local-timestamp, date, decimal,
        list, or nested.
      unit: of times.
      scale: of decimals.
      symbols: of enums.
      items: of lists, as the branches of a field are.
    """

    kind: str
    unit: str = ""
    scale: int = 0
    symbols: tuple[str, ...] = ()
    items: Mapping[str, Any] = {}


class Field(NamedTuple):
    """A field of the records.

    Attributes:
      tag: its name on the wire.
      branches: name on the wire -> type. Of one type, the value itself is there, or None; of
        several, None or a dictionary of one entry that says which.
      above: of a field inside of others, the way there: tags of fields, each with that of the
        branch that is a record, None where there is no other.
    """

    tag: str
    branches: Mapping[str, Branch]
    above: tuple[tuple[str, str | None], ...] = ()

    def of(self, record: Mapping[str, Any]) -> Any:
        """Its value; None where a record around it is not there."""
        result: Any = record
        for tag, branch in self.above:
            result = result[tag]
            if branch is not None and result is not None:
                result = result.get(branch)
            if result is None:
                return None
        return result[self.tag]


class Wire(NamedTuple):
    """How records are read.

    Attributes:
      record: their schema on the wire; names of types are our own.
      fields: name -> field; of needed names those inside of other fields too.
    """

    record: Any
    fields: Mapping[str, Field]


def on_the_wire(described: Any, source: str, needed: Iterable[str] = ()) -> Wire:
    """The schema of a file (with full names, as fastavro gives it) -> how its records are read.

    Args:
      needed: names of fields that are read.

    Raises:
      ConfigError: a type holds itself, or a list could hold any number of items in no bytes: one
        record could then be of any depth or length.
    """
    taken = _Taken(source)
    record = taken.down(described)
    fields = {
        field["name"]: Field(f"f{at}", taken.branches(field["type"]))
        for at, field in enumerate(described["fields"])
    }
    for name in needed:
        inside = None if name in fields else taken.inside(described, steps(name))
        if inside is not None:
            fields[name] = inside
    return Wire(record, fields)


class _Taken:
    """Walks a schema once; types that have a name are met once and referred to later."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._given: dict[str, Any] = {}
        self._made: dict[str, Any] = {}
        self._empty: dict[str, bool] = {}
        self._count = 0

    def down(self, schema: Any) -> Any:
        """The same encoding in plainer types."""
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in _WIRE:
                return _WIRE[schema]
            if schema not in self._made:
                raise self._refused("holds a type that contains itself")
            return self._made[schema]
        kind = schema["type"]
        if kind == "array":
            return {"type": "array", "items": self._item(schema["items"])}
        if kind == "map":
            fields = [{"name": "k", "type": "bytes"}]
            fields.append({"name": "v", "type": self.down(schema["values"])})
            return {"type": "array", "items": self._record(fields)}
        if kind not in ("record", "error", "enum", "fixed"):
            return self.down(kind)
        self._given[schema["name"]] = schema
        if kind == "enum":
            built: Any = "long"
        elif kind == "fixed":
            built = {"type": "fixed", "name": self._fresh(), "size": schema["size"]}
            self._empty[built["name"]] = not schema["size"]
        else:
            built = self._record(
                [
                    {"name": f"f{at}", "type": self.down(field["type"])}
                    for at, field in enumerate(schema["fields"])
                ]
            )
        self._made[schema["name"]] = built if kind == "enum" else built["name"]
        return built

    def branches(self, schema: Any) -> dict[str, Branch]:
        """The types of a field, null aside."""
        options = schema if isinstance(schema, list) else [schema]
        kinds = {f"b{at}": self._branch(option) for at, option in enumerate(options)}
        return {tag: branch for tag, branch in kinds.items() if branch.kind != "null"}

    def inside(self, described: Any, path: Sequence[str]) -> Field | None:
        """The field that a path leads to; None where it leads nowhere, or to several."""
        above: list[tuple[str, str | None]] = []
        for depth, step in enumerate(path, 1):
            named = [
                (at, item) for at, item in enumerate(described["fields"]) if item["name"] == step
            ]
            if len(named) != 1:
                return None
            at, field = named[0]
            if depth == len(path):
                return Field(f"f{at}", self.branches(field["type"]), tuple(above))
            value = field["type"]
            options = value if isinstance(value, list) else [value]
            records = [(i, item) for i, item in enumerate(map(self._record_of, options)) if item]
            if len(records) != 1:
                return None
            several = len([option for option in options if option != "null"]) > 1
            above.append((f"f{at}", f"b{records[0][0]}" if several else None))
            described = records[0][1]
        return None

    def _record_of(self, schema: Any) -> Any:
        """A type as the record that it is; None: it is none."""
        if isinstance(schema, str):
            schema = self._given.get(schema)
        if not isinstance(schema, dict):
            return None
        kind = schema["type"]
        if kind in ("record", "error"):
            return schema
        return self._record_of(kind) if kind in self._given or isinstance(kind, dict) else None

    def _union(self, options: list[Any]) -> list[Any]:
        built = [self.down(option) for option in options]
        if len([option for option in built if option != "null"]) < 2:
            return built
        # Bytes and text are one type on the wire: a record around each says which was meant.
        return [
            option if option == "null" else self._record([{"name": f"b{at}", "type": option}])
            for at, option in enumerate(built)
        ]

    def _record(self, fields: list[Any]) -> Any:
        built: dict[str, Any] = {"type": "record", "name": self._fresh(), "fields": fields}
        self._empty[built["name"]] = all(self._is_empty(field["type"]) for field in fields)
        return built

    def _item(self, schema: Any) -> Any:
        built = self.down(schema)
        if self._is_empty(built):
            raise self._refused("holds a list of items that take no bytes")
        return built

    def _is_empty(self, built: Any) -> bool:
        """Whether values of a type take no bytes."""
        if isinstance(built, dict):
            return self._empty.get(built.get("name", ""), False)
        return built == "null" or (isinstance(built, str) and self._empty.get(built, False))

    def _fresh(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def _branch(self, schema: Any) -> Branch:
        if isinstance(schema, str) and schema in self._given:
            schema = self._given[schema]
        if isinstance(schema, str):
            return _plain(schema, {})
        kind = schema["type"]
        if not isinstance(kind, str) or kind in self._given:
            return self._branch(kind)
        if kind == "array":
            return Branch("list", items=self.branches(schema["items"]))
        return _plain(kind, schema)

    def _refused(self, what: str) -> ConfigError:
        return ConfigError(
            "source.avro", self._source, f"{what}, which is not read; write such fields as text."
        )


def _plain(kind: str, schema: Mapping[str, Any]) -> Branch:
    logical = schema.get("logicalType")
    if kind == "long" and logical in _TIMES:
        return Branch(*_TIMES[logical])
    if kind == "int" and logical == "date":
        return Branch("date")
    if kind in ("bytes", "fixed"):
        scale = schema.get("scale", 0)
        if logical == "decimal" and isinstance(scale, int) and 0 <= scale <= _LARGEST_SCALE:
            return Branch("decimal", scale=scale)
        return Branch("bytes")
    if kind == "enum":
        return Branch("enum", symbols=tuple(schema["symbols"]))
    known = {"int": "long", "float": "double"}.get(kind, kind)
    return Branch(known if known in _WIRE else "nested")
