"""What an algorithm of one pass does with the records of a key, run after run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, State
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.kit.point import grid_of
from weir.dpcore.noise.noise import Noise

MOST_RUNS = 32
"""Runs of a key: the last has 2^31 times as many records as the first; what follows is not learned
from, and the last model stays."""


class At(NamedTuple):
    """Where the next record of a key is.

    Attributes:
      run: which run. offset: records of it before this one. left: records of it from this one on.
    """

    run: int
    offset: int
    left: int


def start_of_run(first: int, run: int) -> int:
    """Place of the first record of a run: runs of first, 2 first, 4 first, ... records."""
    return first * ((1 << run) - 1)


def at_place(first: int, place: int) -> At:
    """Which run the record at a place (from 0) is in. Public: places follow from tick and id."""
    run = (place // first + 1).bit_length() - 1
    offset = place - start_of_run(first, run)
    return At(run, offset, (first << run) - offset)


class Drawn(NamedTuple):
    """Where a key's noise comes from at a tick.

    Attributes:
      noise: keyed, of the tick and of this key alone. digest: (2,), of all data of the key so far.
    """

    noise: Noise
    digest: Digests


class Finished(NamedTuple):
    """A model that is released.

    Attributes:
      run: which run is complete. records: of it that were read, the first ones. model: (d,).
    """

    run: int
    records: int
    model: Floats


@dataclass(frozen=True)
class OnePassAlgorithm(ABC):
    """An algorithm over runs of a set, each twice as long as the one before; each record of a key
    is in one run, once.

    Pure but for the arrays of one key that ``read`` is given, which it writes.

    Attributes:
      set: where models lie. runs: all of them. first: records of the first.
    """

    set: ConvexSet
    runs: tuple[Any, ...]
    first: int

    @property
    def dimension(self) -> int:
        """d."""
        return self.set.dimension

    @property
    def features(self) -> int:
        """Numbers in a row before the target."""
        return int(self.runs[0].glm.features)

    @property
    def most(self) -> int | None:
        """Numbers of a row that are not 0, at most, where rows are sparse; None: in tables."""
        result: int | None = self.runs[0].glm.most
        return result

    @property
    def intercept(self) -> bool:
        """Whether a model ends with a constant term."""
        return bool(self.runs[0].glm.intercept)

    @property
    def labels(self) -> bool:
        """Whether the loss reads the sign of the target only."""
        return bool(self.runs[0].glm.loss.labels)

    @property
    @abstractmethod
    def moved(self) -> float:
        """Most that a record moves a mean, or an average, of the first run."""

    @property
    @abstractmethod
    def adds(self) -> str:
        """What one event may add, for people."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """Of the noise."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """What the numbers of the runs speak against."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a table of releases leaves open about its models."""
        return ()

    @property
    def read_first(self) -> int:
        """Records of the first run that are read, the first ones: then there is a model."""
        return self.first

    @property
    def served(self) -> int:
        """Runs that there are; what follows the last is not learned from."""
        return len(self.runs)

    @cached_property
    def grid(self) -> float:
        """On which released models lie."""
        return grid_of(self.set)

    @abstractmethod
    def init(self, n_keys: int) -> State:
        """State of keys before their first record: a NamedTuple of arrays (K, ...)."""

    def read(
        self, own: Mapping[str, Any], rows: Any, place: int, drawn: Drawn
    ) -> tuple[Finished, ...]:
        """Reads the next rows of a key, part by part: parts end at the public ends of stages.

        Args:
          own: the key's part of the state, arrays by name: written.
          rows: (n, features + 1), the records from ``place`` (from 0) on: a table, or where the
            course is of sparse ones ``SparseRows``.
        """
        result, done = list[Finished](), 0
        while done < len(rows):
            run, offset, left = at_place(self.first, place + done)
            if run >= len(self.runs):
                break
            within = self._left_in_stage(run, offset)
            left = within if within > 0 else left
            size = min(left, len(rows) - done)
            part = rows[done : done + size]
            finished = self._read_part(own, part, run, offset, size == left, drawn)
            result += [] if finished is None else [finished]
            done += size
        return tuple(result)

    @abstractmethod
    def _left_in_stage(self, run: int, offset: int) -> int:
        """Records from an offset of a run to the end of its stage; 0 or less: no stage is left."""

    @abstractmethod
    def _read_part(
        self, own: Mapping[str, Any], rows: Any, run: int, offset: int, over: bool, drawn: Drawn
    ) -> Finished | None:
        """Reads rows of one stage, from an offset of a run on. over: whether they end it."""

    def loss(self) -> PrivacyLoss:
        """The most that a record pays, whichever run it is in."""
        results = [run.loss for run in self.runs]
        return PrivacyLoss(results[0].kind, max(item.value for item in results))

    def predicted(self, run: int) -> float:
        """Bound on the excess risk of a run's model, in scaled units."""
        return float(self.runs[run].predicted)

    @abstractmethod
    def words(self, run: int) -> str:
        """What a run does, for people."""

    def canonical(self) -> Mapping[str, Any]:
        """Every public number; which algorithm it is, each says itself."""
        return {
            "set": self.set.canonical(),
            "first": self.first,
            "grid": self.grid.hex(),
            "runs": [run.canonical() for run in self.runs],
        }
