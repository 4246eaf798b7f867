"""Packed releases -> flat ones: one row a coordinate, with its label and its margin.

Inside a pipeline a vector travels as one row; every exit spreads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.leaves.sparse_rows import MOST_DENSE
from weir.dpcore.plan import Plan
from weir.transforms.release.table import INTERVAL, RELEASE_SCHEMA, in_flight, releases_only

Ints = NDArray[np.integer[Any]]
Layout = Literal["flat", "packed"]
"""How a sink writes vectors: a row a coordinate, or a row a vector."""

Spot = tuple[str, int | None]
"""Name and span of an output."""

SPREAD = ("label", "index", "value", "stddev", "low", "high")
"""Columns that differ from coordinate to coordinate."""

FLAT_SCHEMA = pa.schema(
    [
        field.with_type(pa.dictionary(pa.int32(), pa.string()))
        if field.name == "label"
        else field
        if field.name in SPREAD
        else in_flight(field)
        for field in RELEASE_SCHEMA
    ]
)
"""RELEASE_SCHEMA as long as it is on its way to a file: what repeats is dictionary-encoded."""


@dataclass(frozen=True)
class Flat:
    """What flat rows need of a plan.

    Attributes:
      outputs: (name, over, labels of the coordinates) of everything that is released.
      margin: half the width of a 95 % margin, in standard deviations of the noise.
      sparse: (name, over) of vectors that the program declares sparse (``OutputInfo``): rows of
        coordinates that are 0 are left out, but for the first of a vector that has no others.
      between: (name, over) and the public ends that its values never leave: margins end there too.
    """

    outputs: tuple[tuple[str, int | None, tuple[str, ...]], ...]
    band: float
    sparse: frozenset[Spot] = frozenset()
    between: tuple[tuple[Spot, tuple[float, float]], ...] = ()

    @classmethod
    def of(cls, plan: Plan) -> Flat:
        """Labels and margins of a plan."""
        described = plan.program.describe(np.zeros(1, dtype=np.int64))
        return cls(
            tuple((item.name, item.over, item.labels) for item in described),
            plan.band,
            frozenset((item.name, item.over) for item in described if item.sparse),
            tuple(
                ((item.name, item.over), item.between)
                for item in described
                if item.between is not None
            ),
        )

    def table(self, packed: pa.Table) -> pa.Table:
        """Rows of IN_FLIGHT_SCHEMA -> rows of FLAT_SCHEMA, in the same order, then by index."""
        columns = {name: chunk_of(packed[name]) for name in packed.schema.names}
        value, stddev = columns["value"], columns["stddev"]
        spread = Spread.of(pc.list_value_length(value).to_numpy(zero_copy_only=False))
        index = spread.places()
        numbers = value.flatten().to_numpy(zero_copy_only=False)
        output, spots = outputs_of(columns["name"], columns["over"])
        if self.sparse and spread.width != 1:
            some = np.array([spot in self.sparse for spot in spots])[output]
            some &= stddev.is_null().to_numpy(zero_copy_only=False)
            retained = some_of(numbers, spread.rows(), index, some)
            # Where a vector has no error there is none to be taken along.
            spread, numbers, index = (
                spread._replace(kept=retained),
                numbers[retained],
                index[retained],
            )
        errors, unknown = stddev.flatten().to_numpy(zero_copy_only=False), None
        if stddev.null_count:
            unknown = spread.over(stddev.is_null().to_numpy(zero_copy_only=False))
            known, errors = errors, np.full(len(numbers), np.nan)
            errors[~unknown] = known
        silent = None
        if np.isnan(numbers).any():  # nothing to say yet
            silent = np.isnan(numbers)
            unknown = silent if unknown is None else unknown | silent
        with np.errstate(invalid="ignore"):  # an infinite value has no margin of error
            high = self.band * errors
            low = numbers - high
            high += numbers
        ends = {"low": low, "high": high}
        for name in INTERVAL if INTERVAL[0] in columns else ():
            own = spread.over(columns[name].is_valid().to_numpy(zero_copy_only=False))
            ends[name][own] = columns[name].flatten().to_numpy(zero_copy_only=False)
        for spot, between in self.between:
            if spot in spots:
                within(numbers, low, high, between, spread.over(output == spots.index(spot)))
        built = {
            "label": self._labels(output, spots, spread, index),
            "index": pa.array(index),
            "value": pa.array(numbers, mask=silent),
            "stddev": pa.array(errors, mask=unknown),
            "low": pa.array(low, mask=unknown),
            "high": pa.array(high, mask=unknown),
        }
        for name in columns.keys() - built.keys():
            built[name] = spread.coded(columns[name])
        return pa.table([built[name] for name in FLAT_SCHEMA.names], schema=FLAT_SCHEMA)

    def batch(self, released: pa.RecordBatch) -> pa.RecordBatch:
        """A release batch -> rows of RELEASE_SCHEMA.

        Raises:
          WeirError: it is no batch of releases.
        """
        spread = self.table(pa.Table.from_batches([releases_only(released)]))
        table = spread.cast(RELEASE_SCHEMA).combine_chunks()
        return table.to_batches()[0] if table.num_rows else _NO_ROWS

    def _labels(
        self, output: Ints, spots: Sequence[Spot], spread: Spread, index: Ints
    ) -> pa.DictionaryArray:
        """The label of each coordinate."""
        width = np.zeros(len(spots), dtype=np.int64)
        width[output] = spread.lengths if spread.width is None else spread.width
        known = {(item, spans): labels for item, spans, labels in self.outputs}
        words: dict[str, int] = {}
        place: list[int] = []
        first = np.zeros(len(width), dtype=np.int32)
        for entry in np.flatnonzero(width).tolist():
            first[entry] = len(place)
            result = known.get(spots[entry], ())
            for word in labels_of(result, int(width[entry])):
                place.append(words.setdefault(word, len(words)))
        if len(words) == 1:
            codes = np.zeros(len(index), dtype=np.int32)
        else:
            begun = first[output]
            at = index + (spread.over(begun) if begun.any() else 0)
            codes = np.array(place, dtype=np.int32)[at]
        return pa.DictionaryArray.from_arrays(
            pa.array(codes), pa.array(list(words), pa.string()), safe=False
        )


_NO_ROWS = pa.RecordBatch.from_arrays(
    [pa.array([], field.type) for field in RELEASE_SCHEMA], schema=RELEASE_SCHEMA
)


def labels_of(named: Sequence[str], size: int) -> tuple[str, ...]:
    """Labels of ``size`` coordinates: those that the plan names, or their numbers."""
    if len(named) == size:
        return tuple(named)
    return ("",) if size == 1 else tuple(str(i + 1) for i in range(size))


def chunk_of(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.unify_dictionaries().combine_chunks() if len(column) else _empty(column.type)


def within(
    value: Any, low: Any, high: Any, between: tuple[float, float], mine: NDArray[np.bool_]
) -> None:
    """Moves the margins of some numbers (n,) in place so that they end at public ends, and hold the
    value. mine: (n,) which."""
    least, most = between
    np.maximum(low, np.fmin(value, least), out=low, where=mine)
    np.minimum(high, np.fmax(value, most), out=high, where=mine)


class Spread(NamedTuple):
    """Which vector each coordinate is of.

    Attributes:
      lengths: (vectors,) coordinates of each. width: of every one; None where they differ.
      kept: (coordinates,) bool, those that are written; None: all.
    """

    lengths: Ints
    width: int | None
    kept: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, lengths: Ints) -> Spread:
        """Of vectors of these lengths."""
        width = int(lengths[0]) if len(lengths) else 1
        return cls(lengths, width if np.all(lengths == width) else None)

    def over(self, values: NDArray[Any]) -> NDArray[Any]:
        """What vectors have, (vectors,) -> what their coordinates have."""
        if self.width == 1:
            return values
        out: NDArray[Any] = np.repeat(values, self.lengths if self.width is None else self.width)
        return out if self.kept is None else out[self.kept]

    def rows(self) -> NDArray[np.int64]:
        """(coordinates,) number of the vector."""
        return self.over(np.arange(len(self.lengths)))

    def places(self) -> NDArray[np.int32]:
        """(coordinates,) place in the vector, of every one."""
        if self.width is not None:
            place = np.arange(self.width, dtype=np.int32)
            return np.asarray(np.tile(place, len(self.lengths)))
        start = np.cumsum(self.lengths) - self.lengths
        whole = np.arange(int(self.lengths.sum())) - self.over(start)
        return np.asarray(whole, dtype=np.int32)

    def coded(self, column: pa.DictionaryArray) -> pa.DictionaryArray:
        """A dictionary column of vectors -> of coordinates."""
        if self.width == 1:
            return column
        index, gone = column.indices, None
        if index.null_count:
            gone = self.over(index.is_null().to_numpy(zero_copy_only=False))
            index = index.fill_null(0)
        result = self.over(index.to_numpy(zero_copy_only=False))
        # They are inside the dictionary as they were before: looking again takes as long as all.
        return pa.DictionaryArray.from_arrays(
            pa.array(result, mask=gone), column.dictionary, safe=False
        )


def outputs_of(name: pa.Array, over: pa.Array) -> tuple[NDArray[np.int32], list[Spot]]:
    """Which output each row is of: codes, and (name, over) of each code."""
    names, overs = name.dictionary.to_pylist(), [*over.dictionary.to_pylist(), None]
    span = over.indices
    if span.null_count:
        span = span.cast(pa.int32()).fill_null(len(overs) - 1)
    codes = name.indices.to_numpy().astype(np.int32) * np.int32(len(overs)) + span.to_numpy()
    return codes, [(item, spans) for item in names for spans in overs]


def some_of(numbers: Any, rows: Ints, index: Ints, sparse: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which coordinates of vectors are written: (coordinates,) bool.

    Args:
      numbers: values. rows: which vector each is of. index: which of its coordinates.
      sparse: (vectors,) those whose zeros are left out, but for the first where all are 0. Of more
        than ``MOST_DENSE`` coordinates, of a vector that says nothing yet the first alone stays.
    """
    retained: NDArray[np.bool_] = (numbers != 0) | ~sparse[rows]
    size = np.bincount(rows, minlength=len(sparse))
    held = np.bincount(rows, weights=retained, minlength=len(sparse))
    wide = sparse & (size > MOST_DENSE)
    if wide.any():
        silent = np.bincount(rows, weights=np.isnan(numbers), minlength=len(sparse))
        retained &= (index == 0) | ~(wide & (silent == size))[rows]
        # One null alone is told from a vector of them by the zero behind it.
        retained |= (index == 1) & (wide & (silent == 1) & (held == 1))[rows]
    retained |= (index == 0) & (held == 0)[rows]
    return retained


def _empty(kind: pa.DataType) -> pa.Array:
    return pa.array([], kind)


__all__ = ["FLAT_SCHEMA", "Flat", "Layout", "chunk_of", "labels_of"]
