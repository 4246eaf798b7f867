"""Releases as arrays: for each output and span its keys over ticks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError
from weir.pipelines.results.files import matrix
from weir.pipelines.results.run import ReleasedOutput, ResultFolder
from weir.pipelines.results.series import COLUMNS, batch_of

Spot = tuple[str, int | None]


class ReleasePiece(NamedTuple):
    """Some rows of an output and span: keys and ticks (n,), values and stddevs (n, d)."""

    spot: Spot
    key: NDArray[np.object_]
    tick: Ints
    value: Floats
    stddev: Floats


@dataclass(frozen=True)
class ReleaseGrid:
    """Releases from tick ``first`` on.

    Attributes:
      keys: all, sorted. value, stddev: output and span -> (ticks, keys, d), NaN where no row is.
    """

    first: int
    keys: tuple[str, ...]
    value: Mapping[Spot, Floats]
    stddev: Mapping[Spot, Floats]

    @property
    def ticks(self) -> int:
        """How many."""
        return max((len(item) for item in self.value.values()), default=0)

    @classmethod
    def of(cls, pieces: Iterable[ReleasePiece], first: int) -> ReleaseGrid:
        """Puts rows into their places."""
        by_spot: dict[Spot, list[ReleasePiece]] = {}
        for piece in pieces:
            by_spot.setdefault(piece.spot, []).append(piece)
        every = [piece for several in by_spot.values() for piece in several]
        keys = tuple(sorted({key for piece in every for key in set(piece.key.tolist())}))
        place = {key: i for i, key in enumerate(keys)}
        last = max((int(piece.tick.max()) for piece in every), default=first - 1)
        value: dict[Spot, Floats] = {}
        stddev: dict[Spot, Floats] = {}
        for spot, several in by_spot.items():
            shape = (last + 1 - first, len(keys), several[0].value.shape[1])
            value[spot], stddev[spot] = np.full(shape, np.nan), np.full(shape, np.nan)
            for piece in several:
                at = np.array([place[key] for key in piece.key.tolist()], dtype=np.int64)
                value[spot][piece.tick - first, at] = piece.value
                stddev[spot][piece.tick - first, at] = piece.stddev
        return cls(first, keys, value, stddev)


def of_folder(run: ResultFolder, names: Iterable[str], first: int = 0) -> ReleaseGrid:
    """Releases of some outputs in a folder, from a tick on.

    Raises:
      ConfigError: rows of two plans are in it.
    """
    wanted = [output for output in run.outputs if output.name in set(names)]
    return ReleaseGrid.of(_pieces(run, wanted, first), first)


def _pieces(run: ResultFolder, wanted: list[ReleasedOutput], first: int) -> Iterator[ReleasePiece]:
    plans: set[str] = set()
    for raw in run.batches((*COLUMNS, "plan"), first):
        plans |= set(pc.unique(raw["plan"]).to_pylist())
        if len(plans) > 1:
            raise ConfigError(
                "directory",
                str(run.directory),
                "holds releases of two plans, whose noise differs: give a folder of one run.",
            )
        batch = batch_of(raw)
        mine = np.flatnonzero(batch.tick >= first)
        keys = np.array(batch.keys, dtype=object)
        for output in wanted:
            rows = batch.rows(output, mine)
            if len(rows):
                width = len(output.labels)
                numbers = (matrix(item, rows, width) for item in (batch.value, batch.stddev))
                spot = (output.name, output.over)
                yield ReleasePiece(spot, keys[batch.key[rows]], batch.tick[rows], *numbers)


def of_table(table: pa.Table, names: Iterable[str]) -> ReleaseGrid:
    """Releases of some outputs in a table with a row for each number."""
    pieces = []
    wanted = set(names)
    frame = {
        name: np.asarray(table[name].to_pylist(), dtype=object)
        for name in ("key", "name", "over", "tick", "index", "value", "stddev")
    }
    for spot in dict.fromkeys(zip(frame["name"], frame["over"], strict=True)):
        if spot[0] not in wanted:
            continue
        same = frame["over"] == spot[1]
        mine = np.flatnonzero((frame["name"] == spot[0]) & same)
        index = frame["index"][mine].astype(np.int64)
        width = int(index.max()) + 1
        lines = np.cumsum(index == 0) - 1
        value, stddev = (np.full((lines[-1] + 1, width), np.nan) for _ in range(2))
        value[lines, index] = frame["value"][mine].astype(np.float64)
        stddev[lines, index] = frame["stddev"][mine].astype(np.float64)
        heads = mine[index == 0]
        pieces.append(
            ReleasePiece(
                spot,
                _texts(frame["key"][heads]),
                frame["tick"][heads].astype(np.int64),
                value,
                stddev,
            )
        )
    return ReleaseGrid.of(pieces, 0)


def _texts(keys: NDArray[np.object_]) -> NDArray[np.object_]:
    return np.array([key or "" for key in keys.tolist()], dtype=object)
