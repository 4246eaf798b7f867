"""Discovery the long way: every key stepped from the period's start on, and then looked at.

What ``dpcore.discovery.step`` does of its keys by and by must give these bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dpcore.arrays import Floats, Ints
from dpcore.discovery.rule import Rule
from dpcore.discovery.step import Noises
from dpcore.program import Program


class Life(NamedTuple):
    """What a key releases once it is found.

    Attributes:
      key: its place among the names. birth: the tick. strides: (first tick, arrays (n, 1, ...)).
    """

    key: int
    birth: int
    strides: tuple[tuple[int, tuple[Floats, ...]], ...]


def lives(
    program: Program,
    rule: Rule,
    noises: Noises,
    names: Sequence[bytes],
    leaves: Ints,
    stride: int,
) -> Iterator[Life]:
    """All keys that are found, in the order of ``names``.

    Args:
      names: (K,) of all keys with data. leaves: (T, K, D) int64 from tick 0 on.
    """
    ticks = len(leaves)
    starts = [0, *rule.edges(0, ticks)]
    sampled = noises.sampled(names, rule.discover.sample)
    for key, name in enumerate(names):
        for start, end in pairwise([*starts, ticks]):
            if not sampled[key] or not leaves[start:end, key].any():
                continue
            strides = list(
                _walk(program, noises, name, leaves[:, key : key + 1], start, ticks, stride)
            )
            noisy = [one[1][rule.array][:, 0, rule.coordinate] for one in strides]
            users = np.cumsum(leaves[start:end, key, rule.leaf])
            over = np.concatenate(noisy)[: end - start] >= rule.thresholds(start, end)
            over &= users >= rule.users
            if over.any():
                birth = start + int(over.argmax())
                shown = tuple(_from(rule, birth, *one) for one in strides)
                yield Life(key, birth, tuple(one for one in shown if len(one[1][0])))
                break


def _walk(
    program: Program, noises: Noises, name: bytes, leaves: Ints, start: int, ticks: int, stride: int
) -> Iterator[tuple[int, tuple[Floats, ...]]]:
    state = program.init(1)
    edges = sorted({*range(start, ticks, stride), *noises.edges(start, ticks), ticks})
    for first, stop in pairwise(edges):
        state, arrays = program.step(state, leaves[first:stop], noises.noise_of((name,), first))
        yield first, arrays


def _from(
    rule: Rule, birth: int, first: int, arrays: tuple[Floats, ...]
) -> tuple[int, tuple[Floats, ...]]:
    """The part of a stride that is released."""
    skip = max(0, birth - first)
    kept = [array[skip:] for array in arrays]
    if rule.hidden:
        del kept[rule.array]
    return first + skip, tuple(kept)
