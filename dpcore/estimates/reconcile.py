"""Figures that add up: releases of several groupings, moved onto their sums by least squares.

Post-processing of releases. Noise of all keys of a plan has one law in time, times a scale of each
key, so that generalised least squares of all ticks is that of each tick alone (its weights 1 /
variance): no state is kept, and sums over the last N ticks are reconciled like totals. A tree of
keys takes one pass up and one down (Hay, Rastogi, Miklau, Suciu 2010), margins of a full table a
closed form, and anything else the dual of the least squares, with an equation for each coarser key.

Values below 0 of counts are estimates to be clipped, and clipping one by one makes totals too high.
``non_negative`` holds the top total, at 0 or more, and moves what is below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.errors import ConfigError

MOST_EQUATIONS = 3000
"""Coarser keys, at most, where neither a tree nor a full table makes it quick."""

Key = tuple[str | None, ...]
"""Values of all key columns; None where a grouping does not name one."""


class Reconciled(NamedTuple):
    """Figures that add up.

    Attributes:
      values: (n, M). stddev: (M,) of their noise, where that of the releases is one for all ticks.
    """

    values: Floats
    stddev: Floats


@dataclass(frozen=True)
class KeySums:
    """Which released keys add up to which.

    Attributes:
      keys: (M,) all keys, in any order.
      parts: place of a coarser key -> places of the keys that add up to it, of the coarsest
        grouping that is finer.
      whole: place of a coarser key -> those of the finest grouping, all of whose keys lie in it.
      parent: (M,) place of the key that each is a part of, -1 for none; None where one is a part of
        several.
      shape: rows, columns and total of a full table of two columns: places (I, J), (I,), (J,) and
        (); None where there is none.
    """

    keys: tuple[Key, ...]
    parts: Mapping[int, Ints]
    whole: Mapping[int, Ints]
    parent: Ints | None
    shape: tuple[Ints, Ints, Ints, int] | None

    @classmethod
    def of(cls, keys: Sequence[Key]) -> KeySums:
        """Of released keys.

        Raises:
          ConfigError: no key is a sum of others.
        """
        place = {key: at for at, key in enumerate(keys)}
        groups: dict[tuple[bool, ...], list[int]] = {}
        for at, key in enumerate(keys):
            groups.setdefault(tuple(value is not None for value in key), []).append(at)
        parts: dict[int, Ints] = {}
        whole: dict[int, Ints] = {}
        parent, several = np.full(len(keys), -1, dtype=np.int64), False
        for named in groups:
            finer = [other for other in groups if other != named and _within(named, other)]
            if not finer:
                continue
            next_one = min(finer, key=lambda other: (sum(other), -len(groups[other])))
            for target, other in ((parts, next_one), (whole, max(finer, key=sum))):
                held: dict[int, list[int]] = {}
                for at in groups[other]:
                    coarse = tuple(v if on else None for v, on in zip(keys[at], named, strict=True))
                    if coarse in place:
                        held.setdefault(place[coarse], []).append(at)
                target.update({at: np.asarray(own) for at, own in held.items()})
        for at, own in parts.items():
            several |= bool((parent[own] >= 0).any())
            parent[own] = at
        if not parts:
            raise ConfigError(
                "key.groups",
                [list(key) for key in keys[:3]],
                "has no key that is a sum of others; release several groupings of one key, like "
                "groups: [[city], [city, product], []].",
            )
        nested = not several and _nested(groups)
        return cls(
            tuple(keys), parts, whole, parent if nested else None, _table(keys, groups, place)
        )

    def matrix(self) -> tuple[Ints, Floats]:
        """(E,) coarser keys, and (E, M) equations: each less those of the finest grouping in it."""
        coarse = np.asarray(sorted(self.whole))
        out = np.zeros((len(coarse), len(self.keys)))
        for row, at in enumerate(coarse.tolist()):
            out[row, at] = 1.0
            out[row, self.whole[at]] = -1.0
        return coarse, out


def reconciled(sums: KeySums, values: Floats, stddev: Floats) -> Reconciled:
    """Values that add up, nearest to the released ones by their variances.

    Args:
      values: (n, M) released. stddev: (M,) of their noise, up to a factor of each tick.

    Raises:
      ConfigError: there are too many coarser keys to solve for at once.
    """
    variance = stddev**2
    if sums.parent is not None:
        return _tree(sums.parent, values, variance)
    if sums.shape is not None and np.ptp(variance) <= 1e-9 * variance.max():
        return _crossed(sums.shape, values, float(variance[0]))
    if len(sums.whole) > MOST_EQUATIONS:
        raise ConfigError(
            "key.groups",
            len(sums.whole),
            f"coarser keys are too many to be reconciled at once, above {MOST_EQUATIONS:,}. Take "
            "groupings of which each is finer than the next, or equal key.weights with every "
            "combination of two columns listed.",
        )
    _, equations = sums.matrix()
    weighted = equations * variance
    gain = np.linalg.solve(equations @ weighted.T, weighted).T
    left = variance - (gain * weighted.T).sum(axis=1)
    return Reconciled(values - (values @ equations.T) @ gain.T, np.sqrt(np.maximum(left, 0.0)))


def _tree(parent: Ints, values: Floats, variance: Floats) -> Reconciled:
    """Up: each key's own value and the sum of its parts, weighted; down: what is left is shared."""
    order = _from_leaves(parent)
    z, v = values.copy(), variance.copy()
    total, sizes = np.zeros_like(values), np.zeros(len(parent))
    has_parts = np.zeros(len(parent), dtype=bool)
    has_parts[parent[parent >= 0]] = True
    for level in order:
        inner = level[has_parts[level]]
        z[:, inner] = values[:, inner] / variance[inner] + total[:, inner] / sizes[inner]
        v[inner] = 1 / (1 / variance[inner] + 1 / sizes[inner])
        z[:, inner] *= v[inner]
        below = level[parent[level] >= 0]
        np.add.at(sizes, parent[below], v[below])
        np.add.at(total.T, parent[below], z[:, below].T)
    out, left = z.copy(), v.copy()
    for level in reversed(order):
        below = level[parent[level] >= 0]
        above = parent[below]
        share = v[below] / sizes[above]
        out[:, below] = z[:, below] + share * (out[:, above] - total[:, above])
        left[below] = v[below] - v[below] * share + share**2 * left[above]
    return Reconciled(out, np.sqrt(left))


def _crossed(shape: tuple[Ints, Ints, Ints, int], values: Floats, variance: float) -> Reconciled:
    """A table with both margins and the total, all with equal noise: by its four parts."""
    cells, rows, columns, total = shape
    i, j = cells.shape
    summed = values[:, cells] + values[:, rows][:, :, None] + values[:, columns][:, None, :]
    summed = summed + values[:, total][:, None, None]
    mean = summed.mean(axis=(1, 2), keepdims=True)
    row = summed.mean(axis=2, keepdims=True) - mean
    column = summed.mean(axis=1, keepdims=True) - mean
    rest = summed - mean - row - column
    moved = rest + row / (1 + j) + column / (1 + i) + mean / (1 + i + j + i * j)
    out, left = values.copy(), np.empty(values.shape[1])
    out[:, cells] = moved
    out[:, rows], out[:, columns] = moved.sum(axis=2), moved.sum(axis=1)
    out[:, total] = moved.sum(axis=(1, 2))
    parts = 1 / (1 + i + j + i * j), 1 / (1 + j), 1 / (1 + i), 1.0
    left[cells] = (
        parts[0] + (i - 1) * parts[1] + (j - 1) * parts[2] + (i - 1) * (j - 1) * parts[3]
    ) / (i * j)
    left[rows] = j * (parts[0] + (i - 1) * parts[1]) / i
    left[columns] = i * (parts[0] + (j - 1) * parts[2]) / j
    left[total] = i * j * parts[0]
    return Reconciled(out, np.sqrt(variance * left))


def non_negative(sums: KeySums, values: Floats, stddev: Floats) -> Floats:
    """Values of 0 and more that add up: the top totals stay, at 0 or more, and parts of each key
    are moved by their variances until none is below 0. Of a tree from the top down; elsewhere the
    finest keys alone are held to the top, and all others are their sums.

    Args:
      values: (n, M), that add up. stddev: (M,) of them.
    """
    out, variance = np.maximum(values, 0.0), stddev**2
    if sums.parent is not None:
        for level in reversed(_from_leaves(sums.parent)):
            for at in level.tolist():
                if at in sums.parts:
                    own = sums.parts[at]
                    out[:, own] = _shared(values[:, own], variance[own], out[:, at])
        return out
    top = max(sums.whole, key=lambda at: len(sums.whole[at]))
    own = sums.whole[top]
    out[:, own] = _shared(values[:, own], variance[own], out[:, top])
    for at, cells in sums.whole.items():
        if at != top:
            out[:, at] = out[:, cells].sum(axis=1)
    return out


def _shared(values: Floats, variance: Floats, total: Floats) -> Floats:
    """Nearest values of 0 and more with a sum: max(0, x - variance * level). (n, k) -> (n, k)."""
    points = values / variance  # where each is 0
    order = np.argsort(-points, axis=1)
    x, v = np.take_along_axis(values, order, axis=1), variance[order]
    levels = (np.cumsum(x, axis=1) - total[:, None]) / np.cumsum(v, axis=1)
    # As many are above 0 as have their point above the level that they then have.
    above = np.take_along_axis(points, order, axis=1) > levels
    count = np.maximum(above.sum(axis=1), 1) - 1
    level = np.take_along_axis(levels, count[:, None], axis=1)
    return np.maximum(values - variance * level, 0.0)


def _from_leaves(parent: Ints) -> list[Ints]:
    """Keys by their distance from a top, the farthest first."""
    depth, at = np.zeros(len(parent), dtype=np.int64), parent.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, parent[at], -1)
    return [np.flatnonzero(depth == level) for level in range(int(depth.max()), -1, -1)]


def _within(named: tuple[bool, ...], other: tuple[bool, ...]) -> bool:
    return all(b or not a for a, b in zip(named, other, strict=True))


def _nested(groups: Mapping[tuple[bool, ...], Sequence[int]]) -> bool:
    order = sorted(groups, key=sum)
    return all(_within(a, b) for a, b in zip(order, order[1:], strict=False))


def _table(
    keys: Sequence[Key], groups: Mapping[tuple[bool, ...], Sequence[int]], place: Mapping[Key, int]
) -> tuple[Ints, Ints, Ints, int] | None:
    """Places of a full table of two columns with both margins and the total."""
    wanted = {(True, True), (True, False), (False, True), (False, False)}
    if set(groups) != wanted:
        return None
    first = [keys[at][0] for at in groups[True, False]]
    second = [keys[at][1] for at in groups[False, True]]
    if len(groups[True, True]) != len(first) * len(second):
        return None
    cells = np.asarray([[place.get((a, b), -1) for b in second] for a in first])
    rows = np.asarray([place[a, None] for a in first])
    columns = np.asarray([place[None, b] for b in second])
    return None if (cells < 0).any() else (cells, rows, columns, place[None, None])
