"""Releases as flat batches, and as typed rows for steps that take Beam's rows: SQL, YAML."""

# ruff: noqa: UP045 -- Beam's schemas know Optional[int], and neither int | None nor annotations that
# are put off to later: they would travel as pickles that no other language reads.
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional, get_type_hints

import apache_beam as beam
import pyarrow as pa
from apache_beam import coders
from apache_beam.utils.timestamp import Timestamp

from weir.dpcore.plan import Plan
from weir.transforms.release.flat import Flat
from weir.transforms.release.table import RELEASE_SCHEMA

_TIMES = ("tick_start", "tick_end")


class ReleaseRow(NamedTuple):
    """One released number; the fields are those of ``RELEASE_SCHEMA``.

    Attributes:
      tick, tick_start, tick_end: None where the plan has no clock.
      over: last so many ticks; None: since the start. stddev, low, high: of the noise, and its 95 %
        margin; None where the error is not additive. window: ticks for which an event is protected;
        None: for ever. plan: digest of the plan.

        >>> from weir import ReleaseRow
        >>> ReleaseRow._fields[:7]
        ('release', 'key', 'tick', 'tick_start', 'tick_end', 'name', 'label')
    """

    release: str
    key: str
    tick: Optional[int]
    tick_start: Optional[Timestamp]
    tick_end: Optional[Timestamp]
    name: str
    label: str
    index: int  # type: ignore[assignment]  # a field of that name, over a tuple's method
    over: Optional[int]
    value: Optional[float]
    stddev: Optional[float]
    low: Optional[float]
    high: Optional[float]
    epsilon: float
    delta: float
    window: Optional[int]
    plan: str


coders.registry.register_coder(ReleaseRow, coders.RowCoder)

TEXT_FIELDS: list[tuple[str, Any]] = [
    (name, Optional[str] if name in _TIMES else kind)
    for name, kind in get_type_hints(ReleaseRow).items()
]
"""Names and types of a row whose times are text."""


def rows_of(flat: pa.RecordBatch | pa.Table) -> Iterator[ReleaseRow]:
    """Rows of ``RELEASE_SCHEMA`` -> typed rows, in order."""
    columns: list[Any] = []
    for name in RELEASE_SCHEMA.names:
        column = flat[name]
        if name in _TIMES:
            column = [
                None if at is None else Timestamp(micros=at)
                for at in column.cast(pa.int64()).to_pylist()
            ]
        columns.append(column if name in _TIMES else column.to_pylist())
    yield from map(ReleaseRow._make, zip(*columns, strict=True))


@beam.typehints.with_input_types(pa.RecordBatch)
@beam.typehints.with_output_types(ReleaseRow)
class ReleaseRows(beam.PTransform[Any, Any]):
    """Releases -> ``ReleaseRow``, one a number, as ``FlatReleases`` has them in batches.

    Args:
      plan: of the releases; names the coordinates.

        >>> import apache_beam as beam
        >>> from weir import Plan, PrivateReleases, ReleaseRows
        >>> plan = Plan.from_yaml('''
        ... name: shop
        ... schema: {time: date}
        ... clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-03T00:00:00Z}
        ... privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
        ... aggregates: {visits: {count: events}}
        ... ''')
        >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
        ...     events = pipeline | beam.Create([{"date": "2025-01-01"}])
        ...     rows = (events | PrivateReleases(plan)).releases | ReleaseRows(plan)
        ...     shown = rows | beam.Map(lambda row: print(row.name, row.tick, row.over))
        visits 0 None
        visits 1 None
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._flat = Flat.of(plan)

    def expand(self, releases: Any) -> Any:
        """Release batches -> rows."""
        return releases | "Rows" >> beam.FlatMap(self._rows).with_output_types(ReleaseRow)

    def _rows(self, batch: pa.RecordBatch) -> Iterator[ReleaseRow]:
        return rows_of(self._flat.batch(batch))


@beam.typehints.with_input_types(pa.RecordBatch)
@beam.typehints.with_output_types(pa.RecordBatch)
class FlatReleases(beam.PTransform[Any, Any]):
    """Releases -> record batches of ``RELEASE_SCHEMA``: one row a coordinate, as in files (of
    vectors that are sparse by the plan, one for each that is not 0).

    Args:
      plan: of the releases; names the coordinates.

        >>> import apache_beam as beam
        >>> from weir import FlatReleases, Plan, PrivateReleases
        >>> plan = Plan.from_yaml('''
        ... name: shop
        ... schema: {time: date}
        ... clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-03T00:00:00Z}
        ... privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
        ... aggregates: {sizes: {histogram: dollars, edges: [0, 10, 20]}}
        ... ''')
        >>> with beam.Pipeline(runner="FnApiRunner") as pipeline:
        ...     events = pipeline | beam.Create([{"date": "2025-01-01", "dollars": 12.5}])
        ...     rows = (events | PrivateReleases(plan)).releases | FlatReleases(plan)
        ...     shown = rows | beam.Map(lambda batch: print(batch["label"].to_pylist()))
        ['[0, 10)', '[10, 20]', '[0, 10)', '[10, 20]']
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._flat = Flat.of(plan)

    def expand(self, releases: Any) -> Any:
        """Release batches -> flat batches."""
        return releases | "Flatten" >> beam.Map(self._flat.batch).with_output_types(pa.RecordBatch)


__all__ = ["FlatReleases", "ReleaseRow", "ReleaseRows", "rows_of"]
