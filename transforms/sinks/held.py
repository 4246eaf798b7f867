"""Results of a run over files: held back next to their folder until somebody publishes them.

A run over files knows at its end only how much of them it could not read. So it writes into
``_held`` of its folder, and the launcher moves the files into place when all is well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from weir.dpcore.errors import WeirError
from weir.dpcore.plan import Plan
from weir.transforms.release.few import Shape
from weir.transforms.sinks import formats, place
from weir.transforms.sinks.sorted_table import Sorted
from weir.transforms.sinks.writer import Writer, differences


class Contradicted(WeirError):
    """A run over files computed other releases than those that it should go on from."""


def twice(plan: Plan) -> str:
    """What two looks at the same events cost together, in words."""
    promise = plan.guarantee
    return (
        f"at most epsilon {2 * promise.epsilon:g}, delta {2 * promise.delta:g} (one look: epsilon "
        f"{promise.epsilon:g}, delta {promise.delta:g})"
    )


def contradiction(path: str, folder: str, cost: str) -> Contradicted:
    """The error for a file that differs from what was computed for its ticks.

    Args:
      path: of the file; folder: of the results.
      cost: see ``twice``.
    """
    private = place.held(folder)
    if path == place.join(folder, path.rpartition("/")[2]):
        remedy = (
            "That file is published, so these would be an additional release of the same events: "
            f"both together cost {cost}. Give back the events of that run, or give another folder "
            "(--new) and count both."
        )
    elif (entry := place.entered_as(folder)) is not None:
        remedy = (
            "That file is not published: give back the events of that run, or take a new secret "
            f"and another folder. The ledger counts that run as spent (entry {entry}); both cost "
            f"{cost}."
        )
    else:
        remedy = (
            "That file is not published: give back the events of that run, or, if nobody has seen "
            f"{private}, remove it and start again at no cost. Seen or published, both would cost "
            f"{cost}."
        )
    return Contradicted(
        f"{path} holds other releases than this run computed for the same ticks, so events, code "
        f"or kind of CPU are not those of the run that it goes on from. Nothing more was written. "
        f"{remedy}"
    )


@dataclass(frozen=True)
class HeldWriter(Writer):
    """Files in ``_held`` of a folder. None is replaced; one that is contradicted ends the run.

    Attributes:
      folder: path or bucket, of the results. form: parquet, csv or ndjson.
      cost: see ``twice``. shape: how vectors become rows; None: as lists of every coordinate.
      part: of the blocks.
    """

    folder: str
    form: str
    cost: str
    shape: Shape | None = None
    part: place.Part = place.WHOLE

    def of(self, part: place.Part) -> Writer:
        """See Writer."""
        return replace(self, part=part)

    def mark(self) -> tuple[str, str]:
        """See Writer."""
        return self.folder, place.PLAN_FILE

    def encode(self, table: pa.Table) -> bytes:
        """See Writer."""
        return formats.encode(table, self.form, self.shape)

    def put(self, first: int, last: int, content: bytes, divergent: int) -> int:
        """See Writer.

        Raises:
          Contradicted: a file for these ticks is there, held or published, and differs.
        """
        name = place.file_name(first, last, self.form, self.part)
        path = place.join(place.held(self.folder), name)
        if divergent:
            raise Contradicted(
                f"two tries of this run computed different releases of ticks {first} to {last}, so "
                "code or kind of CPU differ between its workers. Nothing more was written; both "
                f"together would cost {self.cost}."
            )
        if not self._is_there(name, content, whole=True) and not place.put(path, content):
            self._is_there(name, content, whole=True)  # somebody else was faster
        return 0

    def compare(self, first: int, last: int, again: Sorted) -> int:
        """See Writer. Raises as ``put``."""
        name = place.file_name(first, last, self.form, self.part)
        content = self.encode(again.table)
        self._is_there(name, content, whole=False)
        return 0

    def _is_there(self, name: str, content: bytes, whole: bool) -> bool:
        """Whether a file was written before, held or published."""
        for folder in (self.folder, place.held(self.folder)):
            path = place.join(folder, name)
            there = place.read(path)
            if there is not None:
                if differences(there, content, self.form, whole):
                    raise contradiction(path, self.folder, self.cost)
                return True
        return False


def missing(folder: str, wanted: Sequence[str]) -> list[str]:
    """The files of a run that are neither held nor published."""
    there = {*place.names(folder), *place.names(place.held(folder))}
    return [name for name in wanted if name not in there]


def _nothing() -> None:
    """Nothing to do before a folder is complete."""


def publish(
    folder: str, wanted: Sequence[str], cost: str, seal: Callable[[], None] = _nothing
) -> int:
    """Moves what is held into place, file by file in the order given, and marks it complete.

    Stopped at any moment, it goes on where it was when it is called again.

    Args:
      folder: of the results. cost: see ``twice``.
      wanted: names of all files of the run, each held or in place.
      seal: called when all are in place, before the folder is marked as complete.

    Returns:
      How many files were moved.

    Raises:
      Contradicted: a file is in place already and differs from the one that is held.
    """
    moved, private = 0, place.held(folder)
    for name in wanted:
        source, target = place.join(private, name), place.join(folder, name)
        if place.move(source, target):
            moved += 1
            continue
        retained = place.read(source)
        if retained is not None and retained != place.read(target):
            raise contradiction(target, folder, cost)
    place.remove(private)
    seal()
    place.finish(folder)
    return moved


__all__ = ["Contradicted", "HeldWriter", "contradiction", "missing", "publish", "twice"]
