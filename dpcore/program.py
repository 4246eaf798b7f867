"""What a plan compiles to: the bounded, summed, noised and solved form of what the user asked for.

Every algorithm (aggregates now, learners and regressions later) is one Program. The pipeline and
``simulate`` both drive it through these calls only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Floats, Ints, State
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.leaves.rows import CappedLeaf, RowLeaf
from weir.dpcore.noise.noise import NoiseOf as NoiseOf
from weir.dpcore.training import Training

CAPACITY = 1 << 40
"""Most events per key and tick in a sum: 2^40 * 2^21 < 2^62. More are refused and counted."""

SPARSE_FROM = 64
"""Coordinates from which on models of few features are sparse; a shorter one is read sooner whole.
"""


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
        made = (None if one is None else change(one) for one in numbers)
        return Released(self.name, self.over, *made)  # type: ignore[arg-type]  # value is an array


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
      between: public ends that its values never leave, where it has both: margins end there too.
    """

    name: str
    over: int | None
    dimension: int
    sensitivity: float
    stddev_worst: float
    labels: tuple[str, ...]
    sparse: bool = False
    interval: bool = False
    between: tuple[float, float] | None = None


class Program(Protocol):
    """Pure. K = keys of a block, n = ticks of a stride, D = dimension of a leaf."""

    @property
    def leaf(self) -> Literal["sum", "rows"]:
        """What a leaf is: an exact vector sum, or a block of clipped rows (``RowProgram``)."""

    @property
    def capacity(self) -> int:
        """Events of a key and tick that its sums have room for: a cell of more is held within 2^61
        coordinate by coordinate, and counted. Rows have a cap instead."""

    @property
    def row_width(self) -> int:
        """Numbers in a row of ``bound``, whole and below 2^31, where rows are an (n, row_width)
        array: cells of few rows then travel as rows and are summed when stepped. 0: they do not.
        """

    @property
    def training(self) -> Training | None:
        """How models are fitted to rows, where that is what is released; None: ``step`` does all.

        What it describes, done in one place, is ``step``.
        """

    @property
    def sums(self) -> tuple[ContinualSum, ...]:
        """The continual sums that its noise comes from; empty where it comes from none."""

    @property
    def dimension(self) -> int:
        """D."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns that it reads."""

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Numeric columns (each (n_events,) float64, NaN where missing) -> clipped lattice rows."""

    def accumulate(self, rows: Any, cells: Ints, n_cells: int) -> Ints:
        """Sums rows into cells. cells: (n_events,) in [0, n_cells) -> (n_cells, D) int64, exact."""

    def init(self, n_keys: int) -> State:
        """State before the first tick; rows of keys that appear later start from this too."""

    def step(self, state: Any, leaves: Any, noise: NoiseOf) -> tuple[Any, tuple[Floats, ...]]:
        """A stride. leaves: (n, K, D) int64, or a RowLeaf a tick -> new state and noisy arrays,
        each (n, K, ...) float64."""

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """Post-processing only, stateless. ticks: (n,) int64 absolute."""

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Loss of one record against everything released within ``ticks`` of its arrival."""

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released, in the order of ``solve``; the worst stddev is looked for at
        ``ticks``."""

    def state_bytes(self) -> int:
        """Bytes of state per key."""

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release, JSON-able; floats as hex strings."""


class RowProgram(Program, Protocol):
    """A Program with ``leaf == "rows"``.

    ``bound`` gives (n_events, width) rows of ``dtype``; ``step`` takes one RowLeaf a tick in a
    tuple.
    """

    @property
    def width(self) -> int:
        """Numbers in a row."""

    @property
    def dtype(self) -> Any:
        """float64 or int64."""

    @property
    def cap(self) -> int:
        """Rows that a key and tick may hold, part of the plan."""

    @property
    def most_users(self) -> int | None:
        """Users whose rows a key and tick may hold, where the unit is a user and the hash of a row
        is its user's; None: rows are capped one by one, by hashes of their own."""


def by_users(program: Program) -> bool:
    """Whether the hash of a row is its user's (``dpcore.leaves.hashes.hashes_of_users``)."""
    return getattr(program, "most_users", None) is not None  # other packages need not say


def hash_ticks(program: Program, ticks: Ints) -> Ints:
    """What is laid over the hash of a user in some ticks (n,): its ticks, or spans of several in
    which the same users stay (``user_ticks`` of the program)."""
    return ticks // int(getattr(program, "user_ticks", 1))


def within_cap(program: RowProgram, leaf: RowLeaf) -> CappedLeaf:
    """A leaf within the cap of its program."""
    if not by_users(program):
        return leaf.capped(program.cap)
    assert program.most_users is not None
    return leaf.capped_users(program.most_users)


def texts_of(program: Program) -> Mapping[str, tuple[str, ...]]:
    """Columns of text that a program reads -> the values that were declared: it is given the place
    of each event's value among them, NaN where it is none of them. Most programs read none."""
    found: Mapping[str, tuple[str, ...]] = getattr(program, "texts", {})
    return found


def places_of(values: Sequence[Any], declared: Sequence[str]) -> Floats:
    """Texts -> (n,) their places among the declared ones; NaN where one is none of them."""
    place = {text: float(at) for at, text in enumerate(declared)}
    return np.array([place.get(value, math.nan) for value in values], dtype=np.float64)


def sums_runs(program: Program) -> Any:
    """``sum_runs(columns, n_events, runs, n_cells)`` of a program that bounds events and sums them
    in one pass, cell by cell, faster where runs are long; None: it does not.

    Columns as ``bound`` takes them -> (n_cells, D) int64 sums of the events that are in runs, those
    that ``bound`` and ``accumulate`` give, and ``Bounded`` without rows: counts of these events.
    """
    return getattr(program, "sum_runs", None)


def needs_ids(program: Program | None) -> bool:
    """Whether an event without an id has no place: its position among others follows from its id,
    which content must not."""
    return bool(getattr(program, "by_id", False))


def reads_new(program: Program) -> bool:
    """Whether a program reads ``@new``, so that the keys of every user are remembered for it; one
    that does not say so does."""
    return bool(getattr(program, "reads_new", True))


def takes_rows(program: Program) -> TypeGuard[RowProgram]:
    """Whether a program's leaves are rows."""
    return program.leaf == "rows"
