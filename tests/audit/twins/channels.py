"""Counts of events that are told to those who may see releases alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.audit.twins.twin import SUM, patched, twin


@twin("a counter of everybody's that counts events", SUM, "bytes", "counters (lag) differ")
def counted_for_all() -> Iterator[None]:
    def add(right: Any) -> Any:
        def and_more(name: str, n: int = 1) -> None:
            right(name, n)
            if name == "events":
                right("lag", n)

        return and_more

    with patched("weir.transforms.runtime.counters.add", add):
        yield


@twin("releases counted with events that were clipped", SUM, "bytes", "counters (releases) differ")
def counted_together() -> Iterator[None]:
    def add(right: Any) -> Any:
        return lambda name, n=1: right("releases" if name == "clipped" else name, n)

    with patched("weir.transforms.runtime.counters.add", add):
        yield


@twin("the mark of a whole folder says how many events", SUM, "bytes", "_COMPLETE differ")
def counted_in_the_folder() -> Iterator[None]:
    from weir.transforms.runtime import counters
    from weir.transforms.sinks import place

    def finish(right: Any) -> Any:
        def told(folder: str) -> None:
            events = counters.snapshot().get("events", 0)
            place.put(place.join(folder, place.COMPLETE_FILE), b"%d" % events)

        return told

    with patched("weir.transforms.sinks.place.finish", finish):
        yield


@twin("counts in the metadata of a file", SUM, "bytes", "metadata of files differ")
def counted_in_a_file() -> Iterator[None]:
    from weir.transforms.runtime import counters

    def write_table(right: Any) -> Any:
        def with_counts(table: Any, sink: Any, **given: Any) -> None:
            told = {"events": str(counters.snapshot().get("events", 0))}
            right(table.replace_schema_metadata(told), sink, **{**given, "store_schema": True})

        return with_counts

    with patched("weir.transforms.sinks.formats.pq.write_table", write_table):
        yield
