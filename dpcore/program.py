"""What a plan compiles to: the bounded, summed, noised and solved form of what the user asked for.

Every algorithm is one Program. The pipeline and ``simulate`` both drive it through these calls
only.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import PrivacyLoss, added_up, compose
from weir.dpcore.arrays import Floats, Ints, State
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.leaves.rows import CappedLeaf, RowLeaf
from weir.dpcore.noise.noise import NoiseOf as NoiseOf
from weir.dpcore.training import Training, Whole, whole_init, whole_step

CAPACITY = 1 << 40
"""Most events per key and tick in a sum: 2^40 * 2^21 < 2^62. More are refused and counted."""

MOST_SUM = 1 << 61
"""Sums that wait for their release are held within this, coordinate by coordinate."""

SPARSE_FROM = 64
"""Coordinates from which on models of few features are sparse; a shorter one is read sooner whole.
"""


NOTHING: Mapping[str, Any] = MappingProxyType({})


class Bounded(NamedTuple):
    """Events after bounding: sensitivity holds from here on, whatever the data are.

    Attributes:
      rows: whatever ``accumulate`` of the same program takes; row i belongs to event i.
      clipped: how many values were clipped (operator's counter).
      non_finite: how many values were NaN, infinite or missing: they became 0, or voided the row of
        a learner (operator's counter).
      out_of_range: how many values lay outside a histogram's edges, or events outside a model's
        set of inputs (operator's counter).
    """

    rows: Any
    clipped: int = 0
    non_finite: int = 0
    out_of_range: int = 0


class Runs(NamedTuple):
    """Events of a batch that lie together and are of one cell: runs in order, none in another.

    Attributes:
      starts, stops: (r,) int64: event starts[i] is the first of run i, stops[i] is behind its last.
      cells: (r,) int64, of each run; several may be of one.
    """

    starts: Ints
    stops: Ints
    cells: Ints


class EventCells(NamedTuple):
    """Ticks and keys of events.

    Attributes:
      ticks: (n,) int64. first: the least of a grid.
      codes: (n,) int32, whose key is ``rows`` of it; (0,): the key of all is the first.
      rows: (m,) int64.
    """

    ticks: Ints
    first: int
    codes: NDArray[np.int32]
    rows: Ints


class Released(NamedTuple):
    """One named output of a stride for a block of keys.

    Attributes:
      name: as in the config. over: None = since the start, N = last N ticks.
      value: (n, K, m) float64 in the user's units; NaN where there is nothing to say yet, by what
        was released alone: a null in the results.
      stddev: (n, K, m) float64, or None where the error is not additive. NaN as in ``value``.
      low, high: (n, K, m) ends of the 95 % margin of error where the value need not lie in its
        middle (``OutputInfo.interval``); None: it is as many ``stddev`` on either side.
    """

    name: str
    over: int | None
    value: Floats
    stddev: Floats | None
    low: Floats | None = None
    high: Floats | None = None

    def mapped(self, change: Callable[[Floats], Floats]) -> Released:
        """The same with each of its arrays changed alike."""
        numbers = (self.value, self.stddev, self.low, self.high)
        built = (None if number is None else change(number) for number in numbers)
        return Released(self.name, self.over, *built)  # type: ignore[arg-type]  # value is an array


class OutputInfo(NamedTuple):
    """What the plan says about one output.

    Attributes:
      name: as in the config. over: None = since the start, N = last N ticks.
      dimension: how many coordinates. labels: of the coordinates.
      sensitivity: most that one event changes, or one user in a cell. stddev_worst: at the worst
        tick; NaN if none.
      sparse: whether coordinates that are 0 are left out where a vector is spread over rows. The
        algorithm declares it, from public numbers alone: nobody looks at values for it. Which
        coordinates are 0 is thereby told, and must be private as the values are: it may follow from
        what ``solve`` is given and from nothing else. A vector of zeros keeps its first coordinate,
        so that its tick is there. No effect where a vector has a stddev: noise leaves no zeros.
      interval: whether its margin of error is an interval of its own (``Released.low``).
      additive: whether its error is a standard deviation too (``Released.stddev``).
      between: public ends that its values never leave, where it has both: margins end there too.
      inner_stddev: worst stddev of a coordinate of the private sums that it is solved from; NaN: it
        is not solved from such sums.
    """

    name: str
    over: int | None
    dimension: int
    sensitivity: float
    stddev_worst: float
    labels: tuple[str, ...]
    sparse: bool = False
    interval: bool = False
    additive: bool = True
    between: tuple[float, float] | None = None
    inner_stddev: float = math.nan


class Program(ABC):
    """What an algorithm compiles to. Pure. K = keys of a block, n = ticks of a stride, D =
    dimension of a leaf.

    Attributes:
      leaf: what a leaf is: an exact vector sum, or a block of clipped rows (``RowProgram``).
    """

    leaf: ClassVar[Literal["sum", "rows"]] = "sum"

    # ---- from events to leaves

    @property
    @abstractmethod
    def dimension(self) -> int:
        """D."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Columns that it reads."""

    @property
    def texts(self) -> Mapping[str, tuple[str, ...]]:
        """Columns of text that it reads -> the values that were declared: it is given the place of
        each event's value among them, NaN where it is none of them."""
        return NOTHING

    @property
    def lists(self) -> Mapping[str, int]:
        """List columns that it reads whole -> how many features each has."""
        return NOTHING

    @property
    def by_id(self) -> bool:
        """Whether an event without an id has no place: its position among others follows from its
        id, which content must not."""
        return False

    @property
    def reads_new(self) -> bool:
        """Whether it may read ``@new``, so that the keys of every user are remembered for it."""
        return True

    @property
    def reads_gaps(self) -> int:
        """Ticks for which the last one of each user and key is remembered, as it reads ``@gap``,
        how long ago that was; 0: it does not."""
        return 0

    @property
    def capacity(self) -> int:
        """Events of a key and tick that its sums have room for: a cell of more is held within 2^61
        coordinate by coordinate, and counted. Rows have a cap instead."""
        return CAPACITY

    @property
    def row_width(self) -> int:
        """Numbers in a row of ``bound``, whole and below 2^31, where rows are an (n, row_width)
        array: cells of few rows then travel as rows and are summed when stepped. 0: they do not.
        """
        return 0

    @abstractmethod
    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Numeric columns (each (n_events,) float64, NaN where missing) -> clipped lattice rows."""

    @abstractmethod
    def accumulate(self, rows: Any, cells: Ints, n_cells: int) -> Ints:
        """Sums rows into cells. cells: (n_events,) in [0, n_cells) -> (n_cells, D) int64, exact."""

    @property
    def merges_cells(self) -> bool:
        """Whether cells of a user that meet in a key of a coarser grouping count as one there."""
        return False

    @property
    def coarser(self) -> tuple[int, ...]:
        """Places of the groupings in which they do."""
        return ()

    def times_of(self, grouping: int) -> int:
        """How often each contribution counts in the exact sums of a grouping."""
        return 1

    @property
    def sums_runs(self) -> bool:
        """Whether it has ``sum_runs``."""
        return False

    def sum_runs(
        self, columns: Mapping[str, NDArray[Any]], n_events: int, runs: Runs, n_cells: int
    ) -> tuple[Ints, Bounded]:
        """``bound`` and ``accumulate`` in one pass, cell by cell, faster where runs are long.

        Returns:
          (n_cells, D) int64 sums of the events that are in runs, and counts of these without rows.
        """
        raise AssertionError("only programs that say so sum runs in one pass.")

    @property
    def adds_events(self) -> bool:
        """Whether it has ``add_events``."""
        return False

    def add_events(
        self, columns: Mapping[str, NDArray[Any]], cells: EventCells, grid: Ints
    ) -> Bounded:
        """``bound`` and ``accumulate`` in one pass, and how many events there are, of events that
        are no user's.

        Args:
          cells: of the events. grid: (ticks, keys, 1 + D) int64, from the first tick on: a count
            and sums, that it adds to.

        Returns:
          Counts without rows.
        """
        raise AssertionError("only programs that say so add events in one pass.")

    # ---- from leaves to releases

    @property
    def training(self) -> Training | None:
        """How models are fitted to rows, where that is what is released; None: ``step`` does all.

        What it describes, done in one place, is ``step``.
        """
        return None

    @property
    def sums(self) -> tuple[ContinualSum, ...]:
        """The continual sums that its noise comes from; empty where it comes from none."""
        return ()

    @property
    def doubles(self) -> tuple[str, ...]:
        """What has Gaussian noise that is made of doubles, by name."""
        gaussian = [part for part in self.sums if part.real_noise[0] == "gaussian"]
        some = {part.name for part in gaussian if part.noise_scale > 0 and not part.drawn_exactly}
        return tuple(sorted(some))

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of a key in each noisy array, where a leaf may be the sum of those of several
        ticks; () where it may not."""
        return ()

    def every_nth(self, every: int) -> Program | None:
        """The same, compiled for ticks ``every`` times as long, as one that meets every tick and
        releases at each ``every``-th; None: it has none of its own."""
        return None

    @abstractmethod
    def init(self, n_keys: int) -> State:
        """State before the first tick; rows of keys that appear later start from this too."""

    @abstractmethod
    def step(self, state: Any, leaves: Any, noise: NoiseOf) -> tuple[Any, tuple[Floats, ...]]:
        """A stride. leaves: (n, K, D) int64, or a RowLeaf a tick -> new state and noisy arrays,
        each (n, K, ...) float64."""

    @abstractmethod
    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """Post-processing only, stateless. ticks: (n,) int64 absolute."""

    def solve_keys(
        self, noisy: tuple[Floats, ...], ticks: Ints, keys: Sequence[bytes]
    ) -> tuple[Released, ...]:
        """``solve``, by the names of keys: (K,). A key's name says which grouping it is of."""
        return self.solve(noisy, ticks)

    # ---- what is public about it

    @abstractmethod
    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Loss of one record against everything released within ``ticks`` of its arrival."""

    def loss_of_event(self, ticks: int | None) -> PrivacyLoss:
        """Of a single cell of a user, and so of an event in it that moves no cap."""
        results = []
        for part in self.sums:
            assert part.pattern is not None
            results.append(replace(part, pattern=part.pattern.single()).loss(ticks))
        return compose(tuple(results)) if results else self.loss(ticks)

    def loss_of_periods(
        self, periods: int, ticks: int | None, among: int, longest: int | None = None
    ) -> PrivacyLoss:
        """Of a user in so many periods of ``among`` in a row, against what is released within
        ``ticks`` from the last one's last tick on. longest: ticks of a period."""
        if self.sums:
            return compose(tuple(x.loss_of_periods(periods, ticks, among) for x in self.sums))
        assert longest is not None
        return added_up(self.loss, longest, periods, ticks, among)

    def mean_stddev(self, ticks: Ints) -> Mapping[tuple[str, int | None], float]:
        """Name and span of each output -> root of its mean variance over ticks (m,); empty: not
        known beforehand."""
        return {}

    def released_stddev(self) -> float | None:
        """Of what it releases, where its noise comes from no continual sum and is one number."""
        return None

    @abstractmethod
    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released, in the order of ``solve``; the worst stddev is looked for at
        ``ticks``."""

    @abstractmethod
    def state_bytes(self) -> int:
        """Bytes of state per key."""

    @abstractmethod
    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release, JSON-able; floats as hex strings."""


class RowProgram(Program):
    """A program whose leaves are rows.

    ``bound`` gives (n_events, width) rows of ``dtype``; ``step`` takes one RowLeaf a tick in a
    tuple.

    Attributes:
      dtype: float64 or int64. cap: rows that a key and tick may hold, part of the plan.
    """

    leaf: ClassVar[Literal["sum", "rows"]] = "rows"
    dtype: ClassVar[Any] = np.float64

    cap: int

    @property
    @abstractmethod
    def width(self) -> int:
        """Numbers in a row."""

    @property
    def most_users(self) -> int | None:
        """Users whose rows a key and tick may hold, where the unit is a user and the hash of a row
        is its user's; None: rows are capped one by one, by hashes of their own."""
        return None

    @property
    def by_users(self) -> bool:
        """Whether the hash of a row is its user's (``leaves.hashes.hashes_of_users``)."""
        return self.most_users is not None

    @property
    def user_ticks(self) -> int:
        """Ticks of a span in which the same users stay."""
        return 1

    def hash_ticks(self, ticks: Ints) -> Ints:
        """What is laid over the hash of a user in some ticks (n,): its ticks, or spans of them."""
        return ticks // self.user_ticks

    def capped(self, leaf: RowLeaf) -> CappedLeaf:
        """A leaf within the cap."""
        users = self.most_users
        return leaf.capped(self.cap) if users is None else leaf.capped_users(users)

    def accumulate(self, rows: Any, cells: Ints, n_cells: int) -> Ints:
        """Rows are not summed before a model has met them."""
        raise TypeError("this program takes rows, not sums.")


class TrainedProgram(RowProgram):
    """A program that keeps rows and fits models to them off the path of ticks."""

    @property
    @abstractmethod
    def training(self) -> Training:
        """What Tick, Train and Assemble do."""

    def init(self, n_keys: int) -> Whole:
        """No rows and no models."""
        return whole_init(self.training, n_keys)

    def step(
        self, state: Whole, leaves: tuple[RowLeaf, ...], noise: NoiseOf
    ) -> tuple[Whole, tuple[Floats, ...]]:
        """A stride -> new state, and what ``training`` assembles at each tick."""
        return whole_step(self.training, state, leaves, noise)


def places_of(values: Sequence[Any], declared: Sequence[str]) -> Floats:
    """Texts -> (n,) their places among the declared ones; NaN where one is none of them."""
    place = {text: float(at) for at, text in enumerate(declared)}
    return np.array([place.get(value, math.nan) for value in values], dtype=np.float64)


def takes_rows(program: Program) -> TypeGuard[RowProgram]:
    """Whether a program's leaves are rows."""
    return program.leaf == "rows"
