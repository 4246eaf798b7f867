"""Runs PrivateReleases in this process and keeps what came out."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from weir.transforms.beam.private_releases import PrivateReleases
from weir.transforms.local.engine import LocalEngine
from weir.transforms.local.event_parts import EventParts
from weir.transforms.operators.stride import TICKS
from weir.transforms.runtime import counters
from weir.transforms.runtime.dead_letters import rows
from weir.transforms.runtime.secret import SecretRef

SECRET = bytes([7]) * 32
KEPT: dict[str, list[Any]] = {}
_TOKENS = itertools.count()


class Keep(beam.DoFn):
    """Keeps elements in this process."""

    def __init__(self, token: str) -> None:
        self._token = token

    def process(self, element: Any) -> None:
        KEPT[self._token].append(element)


def keep(pcollection: Any, name: str) -> str:
    """Keeps a PCollection's elements under a fresh token."""
    token = f"{name}-{next(_TOKENS)}"
    KEPT[token] = []
    pcollection | f"Keep {name}" >> beam.ParDo(Keep(token))
    return token


class Ran(NamedTuple):
    rows: list[dict[str, Any]]
    dead: list[tuple[str, int, str]]
    counts: dict[str, int]
    batches: list[pa.RecordBatch]


def order(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["tick"], row["key"].encode(), row["name"], row["over"] or 0


def run(
    plan: Any,
    batches: Sequence[Any],
    flags: Sequence[str] = (),
    secret: SecretRef | None = None,
    kind: Any = pa.RecordBatch,
    **kwargs: Any,
) -> Ran:
    """Releases, sorted, and dead letters: by Beam, after a check that the local engine gives the
    same releases, dead letters and counts where it can run the job."""
    secret = SecretRef.fresh() if secret is None else secret
    plain = kind is pa.RecordBatch and not flags and kwargs.get("bounded", True)
    ours = run_here(plan, batches, secret, **kwargs) if plain else None
    counters.reset()
    pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(list(flags)))
    source = pipeline | beam.Create(list(batches), reshuffle=False).with_output_types(kind)
    found = source | "Release" >> PrivateReleases(plan, secret, **kwargs)
    releases, dead = keep(found.releases, "releases"), keep(found.dead, "dead")
    pipeline.run().wait_until_finish()
    held, letters = KEPT.pop(releases), KEPT.pop(dead)
    theirs = ran(held, letters)
    if ours is not None:
        assert _same(ours, theirs)
    return theirs


def ran(releases: Sequence[pa.RecordBatch], letters: Sequence[pa.RecordBatch]) -> Ran:
    """What came out, sorted."""
    return Ran(
        sorted(plain_rows(releases), key=order),
        sorted(letter for batch in letters for letter in rows(batch)),
        counters.snapshot(),
        list(releases),
    )


def plain_rows(releases: Sequence[pa.RecordBatch]) -> list[dict[str, Any]]:
    """All rows. A value of a plain column is read faster than one of a dictionary."""
    if not releases:
        return []
    whole = pa.Table.from_batches(releases)
    plain = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in whole.columns
    ]
    return pa.table(plain, whole.column_names).to_pylist()


def run_here(
    plan: Any,
    batches: Sequence[pa.RecordBatch],
    secret: SecretRef,
    every: int = TICKS,
    noise: Any = None,
    rotate: Any = (),
    bounded: bool = True,
) -> Ran:
    """The same by the local engine, whether batches come in order or several at a time."""
    results = []
    for together in (False, True):
        engine = LocalEngine(plan, secret, rotate, noise)
        if together and not engine.in_any_order:
            continue  # it reads them as one
        counters.reset()
        letters: list[pa.RecordBatch] = []
        parts = [functools.partial(_only, each) for each in batches]
        events = EventParts(parts, letters.append, together=together)
        results.append(ran(list(engine.releases(events, every)), letters))
    assert all(map(_same, results[1:], results))
    return results[0]


def _only(batch: pa.RecordBatch, reject: Any) -> Iterator[pa.RecordBatch]:
    yield batch


def _same(one: Ran, other: Ran) -> bool:
    """NaN like NaN."""
    rows = one.rows == other.rows or list(map(str, one.rows)) == list(map(str, other.rows))
    return rows and one.dead == other.dead and one.counts == other.counts


def cut(batch: pa.RecordBatch, pieces: int) -> list[pa.RecordBatch]:
    """A batch in consecutive pieces."""
    edges = np.linspace(0, batch.num_rows, pieces + 1).astype(int)
    return [batch.slice(a, b - a) for a, b in zip(edges, edges[1:], strict=False)]


def shuffled(batch: pa.RecordBatch, seed: int = 7) -> pa.RecordBatch:
    """A batch in another order."""
    order = np.random.default_rng(seed).permutation(batch.num_rows)
    return batch.take(pa.array(order))
