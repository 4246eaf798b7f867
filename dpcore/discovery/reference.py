"""Discovery the long way: every key stepped from the period's start on, and then looked at.

What ``dpcore.discovery.step`` does of its keys by and by must give these bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.discovery.rule import DiscoveryRule
from weir.dpcore.discovery.step import Noises
from weir.dpcore.noise import replay
from weir.dpcore.program import Program


class Life(NamedTuple):
    """What a key releases once it is found.

    Attributes:
      key: its place among the names. birth: the tick. strides: (first tick, arrays (n, 1, ...)), to
        the end, or until the key is retired; it may have several lives.
    """

    key: int
    birth: int
    strides: tuple[tuple[int, tuple[Floats, ...]], ...]


def lives(
    program: Program,
    rule: DiscoveryRule,
    noises: Noises,
    names: Sequence[bytes],
    leaves: Ints,
    stride: int,
) -> Iterator[Life]:
    """All keys that are found.

    Args:
      names: (K,) of all keys with data. leaves: (T, K, D) int64 from tick 0 on.
    """
    ticks = len(leaves)
    # The tick until which a key lives; of those that are never looked at: for ever.
    inside = np.asarray(noises.sampled(names, rule.discover.sample), dtype=bool)
    until = np.where(inside, 0, ticks)
    for start, end in pairwise([0, *rule.edges(0, ticks), ticks]):
        # A key without data has its rows too, though nobody would see them.
        seen = leaves[start:end].any(axis=(0, 2)) | replay.is_on()
        some = np.flatnonzero(seen & (until <= start))
        if not some.size:
            continue
        mine, here = leaves[:, some], tuple(names[key] for key in some.tolist())
        strides = list(_walk(program, noises, here, mine, start, ticks, stride))
        noisy = [arrays[rule.array][:, :, rule.coordinate] for _, arrays in strides]
        users = np.cumsum(mine[start:end, :, rule.leaf], axis=0)
        over = np.concatenate(noisy)[: end - start] >= rule.thresholds(start, end)[:, None]
        enough = users >= rule.users
        over = replay.released(
            "partition selection",
            "threshold",
            enough,
            over & enough,
            sensitivity=1.0,
            scale=1.0,
            where=start.to_bytes(8, "little"),
            extra=tuple(rule.chances(np.arange(end - start)).tolist()) if replay.is_on() else (),
        )
        for row in np.flatnonzero(over.any(axis=0)).tolist():
            birth = start + int(over[:, row].argmax())
            death = _death(rule, start, ticks, np.concatenate(noisy)[:, row])
            lived = [item for item in strides if birth < _stop(*item) and item[0] < death]
            shown = [_from(rule, birth, death, row, *item) for item in lived]
            until[some[row]] = death
            yield Life(int(some[row]), birth, tuple(shown))


def _walk(
    program: Program,
    noises: Noises,
    names: tuple[bytes, ...],
    leaves: Ints,
    start: int,
    ticks: int,
    stride: int,
) -> Iterator[tuple[int, tuple[Floats, ...]]]:
    state = program.init(len(names))
    edges = sorted({*range(start, ticks, stride), *noises.edges(start, ticks), ticks})
    for first, stop in pairwise(edges):
        replay.at(first)
        state, arrays = program.step(state, leaves[first:stop], noises.noise_of(names, first))
        yield first, arrays


def _death(rule: DiscoveryRule, start: int, ticks: int, noisy: Floats) -> int:
    """The tick at which a key is gone that was found in the period from ``start`` on.

    noisy: (ticks - start,) its count.
    """
    before, quiet = 0.0, np.zeros(1, dtype=np.int64)
    for end in rule.edges(start, ticks) if rule.discover.retire is not None else ():
        total = float(noisy[end - start - 1])
        quiet = rule.quiet(np.array([total - before]), quiet)
        if rule.retired(quiet)[0]:
            return end
        before = total
    return ticks


def _stop(first: int, arrays: tuple[Floats, ...]) -> int:
    return first + len(arrays[0])


def _from(
    rule: DiscoveryRule, birth: int, death: int, row: int, first: int, arrays: tuple[Floats, ...]
) -> tuple[int, tuple[Floats, ...]]:
    """The part of a stride that is released of a key."""
    skip = max(0, birth - first)
    retained = [array[skip : death - first, row : row + 1] for array in arrays]
    if rule.hidden:
        del retained[rule.array]
    return first + skip, tuple(retained)
