"""Records that are read by what others hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tests.audit.twins.twin import CSV, config, patched, twin

USERS = config(
    "aggregates: {n: {count: events}}", "", schema="{time: at, id: id, unit: who}", form="csv"
).replace(
    "relation: add_remove", "unit: user, per: 2d, contributions: {ticks: 2, keys: 2, events: 2}"
)


def by_chunks() -> Any:
    """No line is read on its own: the readers of whole chunks are malformed."""
    return patched("weir.transforms.decode.csv.plain_cells", lambda right: lambda *given: None)


@twin("a block that fails as one", CSV, "bytes", "do not belong to")
def blocks_fail() -> Iterator[None]:
    def columns(right: Any) -> Any:
        def all_or_none(self: Any, chunk: Any, bad: Any, *given: Any) -> Any:
            found = right(self, chunk, bad, *given)
            bad |= bad.any()
            return found

        return all_or_none

    with by_chunks(), patched("weir.transforms.decode.csv._CsvParser.columns", columns):
        yield


@twin("a chunk of numbers read as floats when one has a fraction", CSV, "bytes", "do not belong to")
def one_fraction_for_all() -> Iterator[None]:
    def columns(right: Any) -> Any:
        def typed_together(self: Any, chunk: Any, bad: Any, *given: Any) -> Any:
            found = right(self, chunk, bad, *given)
            keys = found["k"].combine_chunks().view(pa.binary()).to_pylist()
            whole = [one.isdigit() for one in keys]
            if b"0.5" in keys:
                texts = [
                    one + b".0" if all_ else one for one, all_ in zip(keys, whole, strict=True)
                ]
                found["k"] = pa.array(texts).view(pa.string())
            return found

        return typed_together

    with by_chunks(), patched("weir.transforms.decode.csv._CsvParser.columns", columns):
        yield


@twin("deduplication across users", USERS, "bytes", "do not belong to")
def one_id_one_event() -> Iterator[None]:
    def bare(right: Any) -> Any:
        def last_of_an_id(batch: Any, *given: Any) -> Any:
            ids = batch.column("@id").to_pylist()
            last = {one: at for at, one in enumerate(ids)}
            return right(batch.take(pa.array(sorted(last.values()))), *given)

        return last_of_an_id

    with patched("weir.transforms.operators.bound_users.bare", bare):
        yield
