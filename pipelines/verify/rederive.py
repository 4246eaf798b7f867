"""Releases computed again from the events, and compared with those of a folder.

The local engine takes the same steps with the same secret, so the same events give the same bits.
Nothing is written or kept. Where events differ, the rows computed again are releases of other
data: only which rows differ is reported, never their values. Even that is exact: for operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weir.dpcore.errors import ConfigError
from weir.pipelines.graph.parts import Parts
from weir.pipelines.results import plan_file
from weir.pipelines.runners.local import opened_of
from weir.pipelines.verify.folder import Fault, FaultKind
from weir.pipelines.verify.rows import (
    Cells,
    RowDifferences,
    compare_rows,
    keys_and_ticks,
    rows_in,
    table_of,
)
from weir.transforms.local.engine import LocalEngine
from weir.transforms.release.few import Shape, shape_for
from weir.transforms.runtime.secret import drawn as random_bytes
from weir.transforms.sinks import formats, place
from weir.transforms.sinks.ranges import Ranges
from weir.transforms.sinks.targets import ReleaseFiles
from weir.transforms.sinks.writer import Writer


@dataclass(frozen=True)
class Rederived:
    """What came of computing releases again.

    Attributes:
      rows: how many were compared. seconds: that it took, reading included.
      cells: sampled keys and ticks; None: all. differences: rows that differ, the first of them.
    """

    rows: int
    seconds: float
    cells: Cells | None
    differences: RowDifferences

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What is wrong, as a fault of the folder."""
        wrong = self.differences.count
        if not wrong:
            return ()
        sentence = (
            f"{wrong:,} of {self.rows:,} rows differ from those that these events give: events, "
            "config, code or kind of CPU are not those of the run."
        )
        return (Fault(FaultKind.ROWS_DIFFER, sentence),)

    def to_json(self) -> dict[str, Any]:
        """The fields under ``rederived`` of ``weir verify --json``."""
        cells = None if self.cells is None else [list(cell) for cell in sorted(self.cells)]
        return {
            "rows": self.rows,
            "seconds": self.seconds,
            "sample": cells,
            "differ": self.differences.count,
            "first": [dict(row) for row in self.differences.first],
        }


def rederive(
    folder: str, parts: Parts, stored: Mapping[str, Any], sample: int | None = None
) -> Rederived:
    """Computes the releases of a folder again.

    Args:
      parts: of the job, with its secrets. stored: what ``_plan.json`` holds.
      sample: how many pairs of a key and a tick are compared; None: every row.

    Raises:
      ConfigError: the events cannot be read, or there is nothing to compare with.
    """
    began, plan = monotonic(), parts.plan
    files = place.release_files(folder)
    ticks = max(span.last for span in files.values()) + 1
    every = max(span.last - span.first + 1 for span in files.values())
    blocks = plan.keys.live_blocks
    cells = None if sample is None else _sampled(folder, list(files), sample)
    pieces = int(stored.get(place.PARTS, 1))
    if cells is not None:
        keys = sorted({key.encode() for key, _ in cells})
        blocks = tuple(sorted({int(block) for block in plan.keys.block_of(keys)}))
        ticks, pieces = 1 + max(tick for _, tick in cells), 1
    form = next(iter(files)).rpartition(".")[2]
    shape = shape_for(plan, stored.get(plan_file.LAYOUT, "packed"))
    log = _Log(set(files) if cells is None else set())
    writer = _Comparer(folder, form, shape, files, log, cells)
    engine = LocalEngine(plan, parts.secret, parts.secrets[1:], ticks=ticks, blocks=blocks)
    engine.run(opened_of(parts), ReleaseFiles(Ranges(every, ticks, blocks, pieces), writer))
    if log.waiting:  # files that this plan does not write
        raise ConfigError(
            "directory", folder, f"has a file that its plan does not give: {min(log.waiting)}."
        )
    return Rederived(log.rows, monotonic() - began, cells, log.differences)


NONE = RowDifferences(0, ())


@dataclass
class _Log:
    """What was compared so far. waiting: files whose turn has not come."""

    waiting: set[str]
    rows: int = 0
    differences: RowDifferences = NONE


@dataclass(frozen=True)
class _Comparer(Writer):
    """Compares what a run would write with the files of a folder; writes nothing.

    Attributes:
      folder: of the releases. form, shape, part: as of FolderWriter.
      files: what is there, and what it holds. log: of what was compared.
      cells: keys and ticks that are compared; None: all.
    """

    folder: str
    form: str
    shape: Shape | None
    files: Mapping[str, place.FileSpan]
    log: _Log
    cells: Cells | None = None
    part: place.Part = field(default=place.WHOLE)

    def of(self, part: place.Part) -> Writer:
        """See Writer."""
        return replace(self, part=part)

    def encode(self, table: pa.Table) -> bytes:
        """See Writer."""
        return formats.encode(table, self.form, self.shape)

    def put(self, first: int, last: int, content: bytes, divergent: int) -> int:
        """Compares what is there for these ticks. See Writer."""
        for name, span in self.files.items():
            other = self.cells is None and span.part != self.part.number
            if span.first != first or other:
                continue
            there = place.read(place.join(self.folder, name))
            self.log.waiting.discard(name)
            if there is None:
                raise ConfigError("directory", self.folder, f"has lost {name} meanwhile.")
            if self.cells is None and there == content:
                self.log.rows += rows_in(content, self.form)
                continue
            mine, theirs = (table_of(item, self.form, self.cells) for item in (content, there))
            if self.cells is not None:  # of the parts of a range each has some of the keys
                mine = mine.filter(pc.is_in(mine["key"], value_set=pc.unique(theirs["key"])))
            if span.last < last:  # a drained stream ends inside a range
                mine = mine.filter(pc.less_equal(pc.cast(mine["tick"], pa.int64()), span.last))
            self.log.rows += max(mine.num_rows, theirs.num_rows)
            self.log.differences += compare_rows(theirs, mine)
        return 0


class _Draws:
    """Whole numbers that nobody can foresee: a hash of fresh bytes and a counter."""

    def __init__(self) -> None:
        self._seed, self._turn = random_bytes(), 0

    def below(self, stop: int) -> int:
        """One of 0 .. stop - 1; the bias is below stop / 2^256."""
        self._turn += 1
        turn = self._turn.to_bytes(8, "big")
        return int.from_bytes(sha256(self._seed + turn).digest(), "big") % stop


def _sampled(folder: str, names: Sequence[str], count: int) -> Cells:
    """Pairs of a key and a tick, drawn from the rows of the files; nobody can foresee them."""
    drawn, draws = set[tuple[str, int]](), _Draws()
    for name, many in Counter(names[draws.below(len(names))] for _ in range(count)).items():
        content = place.read(place.join(folder, name)) or b""
        table = keys_and_ticks(content, name.rpartition(".")[2])
        for _ in range(many if table.num_rows else 0):
            row = draws.below(table.num_rows)
            tick = table["tick"][row].as_py()
            drawn.add((table["key"][row].as_py() or "", int(tick or 0)))
    if not drawn:
        raise ConfigError("--sample", count, "finds no row to compare. Leave it out.")
    return frozenset(drawn)


__all__ = ["Rederived", "rederive"]
