"""Keys of a block that are not live: what is known of each since the period began."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints, State, concatenate, take


class KeyCells(NamedTuple):
    """Leaves of some keys, cell by cell: exact sums, sorted by tick, no cell twice.

    Attributes:
      ticks: (m,) int64. rows: (m,) int64, which key. values: (m, D) int64, lattice units.
    """

    ticks: Ints
    rows: Ints
    values: Ints

    @classmethod
    def none(cls, dimension: int) -> KeyCells:
        """No cell."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(empty, empty, np.zeros((0, dimension), dtype=np.int64))

    def pick(self, which: NDArray[Any] | slice) -> KeyCells:
        """Some of the cells."""
        return KeyCells(self.ticks[which], self.rows[which], self.values[which])

    def between(self, first: int, stop: int) -> KeyCells:
        """Those of ticks [first, stop)."""
        return self.pick(slice(*np.searchsorted(self.ticks, [first, stop])))

    def renumbered(self, place: Ints) -> KeyCells:
        """Rows by another order: place[row] is the new one, below 0 where a key is left out."""
        rows = place[self.rows]
        retained = rows >= 0
        return KeyCells(self.ticks[retained], rows[retained], self.values[retained])

    def dense(self, first: int, stop: int, low: int, high: int) -> Ints:
        """Leaves of ticks [first, stop) and keys [low, high): (n, K, D), zeros where there is no
        cell."""
        here = self.between(first, stop)
        if low or (len(here.rows) and int(here.rows.max()) >= high):
            here = here.pick((here.rows >= low) & (here.rows < high))
        out = np.zeros((stop - first, high - low, self.values.shape[1]), dtype=np.int64)
        out[here.ticks - first, here.rows - low] = here.values
        return out


class Faint(NamedTuple):
    """Keys with fewer than ``min_users`` users in the period: names and leaves, and no noise.

    Attributes:
      names: of F keys. users: (F,) int64, exact number so far, lattice steps. cells: their leaves
        since the period began.
    """

    names: tuple[bytes, ...]
    users: Ints
    cells: KeyCells

    @classmethod
    def none(cls, dimension: int) -> Faint:
        """No key."""
        return cls((), np.zeros(0, dtype=np.int64), KeyCells.none(dimension))

    def with_cells(self, fresh: Sequence[bytes], cells: KeyCells, leaf: int) -> Faint:
        """After more ticks: ``fresh`` keys behind the old ones; cells have rows of both.

        leaf: the coordinate that counts users.
        """
        users = np.concatenate([self.users, np.zeros(len(fresh), dtype=np.int64)])
        np.add.at(users, cells.rows, cells.values[:, leaf])
        joined = [np.concatenate(pair) for pair in zip(self.cells, cells, strict=True)]
        return Faint((*self.names, *fresh), users, KeyCells(*joined))

    def split(self, enough: int) -> tuple[tuple[bytes, ...], KeyCells, Faint]:
        """Names and cells of those that have so many users, and the others."""
        ready = self.users >= enough
        if not ready.any():
            return (), self.cells.pick(slice(0, 0)), self
        names = np.array(self.names, dtype=object)
        first = self.cells.renumbered(np.where(ready, np.cumsum(ready) - 1, -1))
        rest = self.cells.renumbered(np.where(ready, -1, np.cumsum(~ready) - 1))
        return (
            tuple(names[ready].tolist()),
            first,
            Faint(tuple(names[~ready].tolist()), self.users[~ready], rest),
        )


class Tested(NamedTuple):
    """Keys with ``min_users`` users or more: stepped with noise, as if from the period's start.

    Attributes:
      names: of T keys. users: (T,) int64, exact number so far, lattice steps.
      gone: (T,) bool, found already: what is here of them is of no use, and stays where it is until
        the period ends, so that the others keep their places.
      state: the program's; None without keys.
    """

    names: tuple[bytes, ...]
    users: Ints
    gone: NDArray[np.bool_]
    state: State | None

    @classmethod
    def none(cls) -> Tested:
        """No key."""
        return cls((), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool), None)

    def joined(self, names: tuple[bytes, ...], users: Ints, state: State) -> Tested:
        """With more keys behind."""
        return Tested(
            self.names + names,
            np.concatenate([self.users, users]),
            np.concatenate([self.gone, np.zeros(len(names), dtype=bool)]),
            state if self.state is None else concatenate([self.state, state]),
        )

    def swept(self) -> Tested:
        """Without those that are gone."""
        if not self.gone.any():
            return self
        stay = ~self.gone
        names = tuple(
            name for name, retained in zip(self.names, stay.tolist(), strict=True) if retained
        )
        state = take(self.state, stay) if names else None
        return Tested(names, self.users[stay], self.gone[stay], state)


class Watched(NamedTuple):
    """What the rule by which keys are retired knows of live ones.

    Attributes:
      totals: (K,) float64, noisy count of users when the last period ended, lattice steps; 0 before
        the first end. quiet: (K,) int64, periods in a row that had too few.
    """

    totals: Floats
    quiet: Ints

    @classmethod
    def none(cls) -> Watched:
        """No key."""
        return cls(np.zeros(0), np.zeros(0, dtype=np.int64))

    def joined(self, keys: int) -> Watched:
        """With so many new keys behind."""
        return Watched(
            np.concatenate([self.totals, np.zeros(keys)]),
            np.concatenate([self.quiet, np.zeros(keys, dtype=np.int64)]),
        )


class Block(NamedTuple):
    """All keys of a block.

    Attributes:
      live: names in order of discovery. state: the program's, of the live keys; None without.
      tested, faint: those that wait.
      watched: of the live keys, in their order, where keys are retired; else of none.
    """

    live: tuple[bytes, ...]
    state: State | None
    tested: Tested
    faint: Faint
    watched: Watched = Watched.none()

    @classmethod
    def empty(cls, dimension: int) -> Block:
        """Before the first tick."""
        return cls((), None, Tested.none(), Faint.none(dimension))

    @property
    def waiting(self) -> int:
        """How many keys are not live."""
        return len(self.faint.names) + int(np.count_nonzero(~self.tested.gone))

    def anew(self) -> Block:
        """At the start of a period: whatever waited is forgotten."""
        return Block.empty(self.faint.cells.values.shape[1])._replace(
            live=self.live, state=self.state, watched=self.watched
        )

    def without(self, retired: NDArray[np.bool_]) -> Block:
        """Without some of the live keys, (K,) bool: like others that were never found."""
        stay = ~retired
        names = tuple(
            name for name, retained in zip(self.live, stay.tolist(), strict=True) if retained
        )
        return self._replace(
            live=names,
            state=take(self.state, stay) if names else None,
            watched=Watched(self.watched.totals[stay], self.watched.quiet[stay]),
        )
