"""The kinds of sources by name: one for each format of files, and those that are a file next to
this one and a line here. Another package adds one by an entry point in the group
``weir.sources``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from weir.pipelines.connectors.connector import Connector, ConnectorKinds, PluginField
from weir.pipelines.sources.source import Source
from weir.transforms.formats.registry import FORMATS, file_formats


class SourceKinds(ConnectorKinds):
    """Every format of files is a kind, with options of its own only where a line says so."""

    def is_own(self, name: str) -> bool:
        return super().is_own(name) or (name in FORMATS.own and bool(FORMATS[name].suffixes))

    def __getitem__(self, name: str) -> type[Connector]:
        if super().is_own(name) or name not in FORMATS or not FORMATS[name].suffixes:
            return super().__getitem__(name)
        from weir.pipelines.sources.files import files_of

        return files_of(FORMATS[name])

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys([*file_formats(), *super().__iter__()])

    def __len__(self) -> int:
        return len(list(iter(self)))


SOURCES = SourceKinds(
    "source",
    {
        "csv": "weir.pipelines.sources.files:CsvSource",
        "kafka": "weir.pipelines.sources.kafka:KafkaSource",
        "pubsub": "weir.pipelines.sources.pubsub:PubSubSource",
        "sql": "weir.pipelines.sources.sql:SqlSource",
    },
    "weir.sources",
    "Tables of DuckDB, SQLite and PostgreSQL are read by sql: {url: ..., table: ...}; export what "
    "lies elsewhere to Parquet, or give weir.release a frame or an Arrow table.",
)

AnySource = Annotated[Source, PluginField(SOURCES)]
"""A source of any kind, as a field of a section."""


def source_of(kind: str, value: object) -> Source:
    """Returns a source of a kind, all else as usual."""
    built = PluginField(SOURCES).read({kind: value})
    assert isinstance(built, Source)
    return built


def kind_of(ending: str) -> str | None:
    """Returns the kind of source whose files are named so."""
    return next((kind for kind in SOURCES if ending in _endings(kind)), None)


def endings() -> list[str]:
    """Returns how files of any kind of source may end."""
    return [f".{ending}" for kind in SOURCES for ending in _endings(kind)]


def _endings(kind: str) -> tuple[str, ...]:
    cls = SOURCES[kind]
    assert issubclass(cls, Source)
    return cls.endings
