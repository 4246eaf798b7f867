"""Steps a block whose keys are found privately: pure, and the same however ticks are split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints, State, accumulate, concatenate, take
from weir.dpcore.discovery.rule import DiscoveryRule
from weir.dpcore.discovery.waiting import Block, KeyCells, Tested, Watched
from weir.dpcore.errors import WeirError
from weir.dpcore.program import NoiseOf, Program

TICKS = 128
"""Ticks that are synthetic for at once, where noise begins before a key has its users."""
NUMBERS = 1 << 19
"""Numbers in the leaves of a group of keys over so many ticks, at most."""
SWEPT = 4
"""A share of one in so many keys that are found already is swept away."""


class Noises(Protocol):
    """Where the noise of a stride comes from."""

    def noise_of(self, keys: Sequence[bytes], first_tick: int) -> NoiseOf:
        """Part index -> keyed noise."""

    def edges(self, first: int, stop: int) -> tuple[int, ...]:
        """Ticks inside (first, stop) at which another secret begins."""

    def sampled(self, keys: Sequence[bytes], share: float) -> list[bool]:
        """Which keys lie in a share of all, by a keyed hash of their names."""


class Piece(NamedTuple):
    """What a block releases of ticks [first, stop), before it is solved.

    Attributes:
      keys: live in the last of them, in order of discovery.
      births: (K,) int64, ticks from the first one on after which each is live.
      arrays: (n, K, ...) each, 0 where a key is not live yet; none without keys.
    """

    first: int
    stop: int
    keys: tuple[bytes, ...]
    births: Ints
    arrays: tuple[Floats, ...]


class Entered(NamedTuple):
    """Keys that are found in a stride.

    Attributes:
      names: (F,). births: (F,) ticks from the stride's start. arrays: (n, F, ...) each.
      state: the program's after the stride; None without keys.
    """

    names: tuple[bytes, ...]
    births: Ints
    arrays: tuple[Floats, ...]
    state: State | None


def step(
    program: Program,
    rule: DiscoveryRule,
    noises: Noises,
    block: Block,
    names: Sequence[bytes],
    cells: KeyCells,
    low: int,
    high: int,
    aside: int = 0,
) -> tuple[Block, Piece]:
    """Steps ticks [low, high), which lie in one period and under one secret.

    Args:
      block: after every tick before ``low``.
      names: of keys with data in these ticks. cells: their leaves.
      aside: keys that wait too and are not among them, because they cannot be found.

    Returns:
      The block after them, and what is released.

    Raises:
      WeirError: more keys wait than the plan allows.
    """
    if rule.start(low) == low:
        block = block.anew()
        gone = rule.retired(block.watched.quiet)
        if gone.any():
            block = block.without(gone)
    elif SWEPT * np.count_nonzero(block.tested.gone) > len(block.tested.names):
        block = block._replace(tested=block.tested.swept())
    block, live_cells, tested_cells = _placed(rule, noises, block, names, cells, low)
    block, made_up = _ready(program, rule, noises, block, low)
    tested_cells = _joined(tested_cells, made_up)
    tested, entered = _test(program, rule, noises, block.tested, tested_cells, low, high)
    if block.waiting + aside > rule.discover.max_tracked:
        raise WeirError(
            f"more than {rule.discover.max_tracked:,} keys of one block wait to be discovered: "
            "nothing more is released. Raise key.discover.max_tracked or blocks, set "
            "key.discover.sample, or group by a coarser key."
        )
    arrays: tuple[Floats, ...] = ()
    state = block.state
    if block.live:
        leaves = live_cells.dense(low, high, 0, len(block.live))
        state, arrays = program.step(state, leaves, noises.noise_of(block.live, low))
    piece = _piece(rule, block.live, arrays, entered, low, high)
    if entered.names:
        state = entered.state if state is None else concatenate([state, entered.state])
    live = block.live + entered.names
    watched = block.watched
    if rule.discover.retire is not None:
        watched = watched.joined(len(entered.names))
        if live and rule.start(high) == high:
            shown = [group[rule.array][-1] for group in (arrays, entered.arrays) if group]
            totals = np.concatenate(shown)[:, rule.coordinate]
            watched = Watched(totals, rule.quiet(totals - watched.totals, watched.quiet))
    return Block(live, state, tested, block.faint, watched), piece


def _placed(
    rule: DiscoveryRule,
    noises: Noises,
    block: Block,
    names: Sequence[bytes],
    cells: KeyCells,
    low: int,
) -> tuple[Block, KeyCells, KeyCells]:
    """Cells of live and of tested keys; the others' are kept with the faint keys."""
    asked = {name: at for at, name in enumerate(names)}
    where = np.full((3, len(names)), -1, dtype=np.int64)
    gone = block.tested.gone
    for group, known in enumerate((block.faint.names, block.tested.names, block.live)):
        if asked:
            for row in [row for row, name in enumerate(known) if name in asked]:
                if group != 1 or not gone[row]:
                    where[group, asked[known[row]]] = row
    unknown = [names[at] for at in np.flatnonzero((where < 0).all(axis=0)).tolist()]
    fresh: list[bytes] = []
    for name, inside in zip(unknown, noises.sampled(unknown, rule.discover.sample), strict=True):
        if inside:
            where[0, asked[name]] = len(block.faint.names) + len(fresh)
            fresh.append(name)
    faint = block.faint
    if names:
        faint = faint.with_cells(fresh, cells.renumbered(where[0]), rule.leaf)
    return (
        block._replace(faint=faint),
        cells.renumbered(where[2]),
        cells.renumbered(where[1]),
    )


def _ready(
    program: Program, rule: DiscoveryRule, noises: Noises, block: Block, low: int
) -> tuple[Block, KeyCells]:
    """Faint keys that have their users now join the tested ones, after every tick before ``low``.

    Returns:
      The block, and the cells of the joined keys from ``low`` on.
    """
    names, cells, faint = block.faint.split(rule.users)
    if not names:
        return block, cells
    start, n = rule.start(low), len(names)
    before = cells.between(start, low)
    users = np.zeros(n, dtype=np.int64)
    np.add.at(users, before.rows, before.values[:, rule.leaf])
    states = []
    for first, stop in _groups(program, n):
        state = program.init(stop - first)
        edges = sorted({*range(start, low, TICKS), *noises.edges(start, low), low})
        for a, b in pairwise(edges):
            leaves = before.dense(a, b, first, stop)
            state, _ = program.step(state, leaves, noises.noise_of(names[first:stop], a))
        states.append(state)
    tested = block.tested.joined(names, users, concatenate(states))
    shift = len(block.tested.names)
    after = cells.pick(cells.ticks >= low)
    return block._replace(tested=tested, faint=faint), after._replace(rows=after.rows + shift)


def _test(
    program: Program,
    rule: DiscoveryRule,
    noises: Noises,
    tested: Tested,
    cells: KeyCells,
    low: int,
    high: int,
) -> tuple[Tested, Entered]:
    """Steps the tested keys and compares every tick."""
    if not tested.names:
        return tested, Entered((), np.zeros(0, dtype=np.int64), (), None)
    bars = rule.thresholds(low, high)[:, None]
    states, users, gone, result = [], [], [], []
    for first, stop in _groups(program, len(tested.names)):
        leaves = cells.dense(low, high, first, stop)
        names = tested.names[first:stop]
        state, arrays = program.step(
            take(tested.state, slice(first, stop)), leaves, noises.noise_of(names, low)
        )
        before, out = tested.users[first:stop], tested.gone[first:stop].copy()
        noisy = arrays[rule.array][:, :, rule.coordinate]
        which = np.flatnonzero((noisy >= bars).any(axis=0) & ~out)
        if which.size:
            counts = leaves[:, which, rule.leaf]
            counts[0] += before[which]
            accumulate(np.add, counts)
            over = passed(rule, counts, noisy[:, which], bars)
            hit = over.any(axis=0)
            which, over = which[hit], over[:, hit]
            out[which] = True
        if which.size:
            result.append(
                Entered(
                    tuple(names[row] for row in which.tolist()),
                    over.argmax(axis=0),
                    tuple(array[:, which] for array in arrays),
                    take(state, which),
                )
            )
        states.append(state)
        users.append(before + leaves[:, :, rule.leaf].sum(axis=0))
        gone.append(out)
    new = Tested(tested.names, np.concatenate(users), np.concatenate(gone), concatenate(states))
    return new, _in_order(result)


def passed(rule: DiscoveryRule, counts: Ints, noisy: Floats, bars: Ints) -> NDArray[np.bool_]:
    """Where a key may be found: every tick is compared, whether or not data came.

    Args:
      counts: (n, K) exact users so far, lattice steps. noisy: (n, K) the same with noise.
      bars: (n, 1) thresholds.
    """
    return np.asarray((noisy >= bars) & (counts >= rule.users))


def _in_order(found: list[Entered]) -> Entered:
    """Keys in order of (tick, bytes of the name)."""
    if not found:
        return Entered((), np.zeros(0, dtype=np.int64), (), None)
    names = [name for item in found for name in item.names]
    births = np.concatenate([item.births for item in found])
    order = np.array(sorted(range(len(names)), key=lambda i: (int(births[i]), names[i])))
    arrays = [
        np.concatenate(group, axis=1) for group in zip(*(f.arrays for f in found), strict=True)
    ]
    return Entered(
        tuple(names[i] for i in order.tolist()),
        births[order],
        tuple(array[:, order] for array in arrays),
        take(concatenate([item.state for item in found]), order),
    )


def _piece(
    rule: DiscoveryRule,
    live: tuple[bytes, ...],
    arrays: tuple[Floats, ...],
    entered: Entered,
    low: int,
    high: int,
) -> Piece:
    """What leaves: nothing of a key before the tick at which it is found."""
    births = np.concatenate([np.zeros(len(live), dtype=np.int64), entered.births])
    parts = [arrays] if live else []
    if entered.names:
        unborn = np.arange(high - low)[:, None] < entered.births
        born = tuple(array.copy() for array in entered.arrays)
        for array in born:
            array[unborn] = 0
        parts.append(born)
    both = [np.concatenate(pair, axis=1) for pair in zip(*parts, strict=True)]
    if rule.hidden and both:
        del both[rule.array]
    return Piece(low, high, live + entered.names, births, tuple(both))


def _groups(program: Program, n_keys: int) -> Iterator[tuple[int, int]]:
    """Keys in groups of a size that depends on the plan alone, in their order: what is remembered
    of a group of names serves as long as they stay."""
    size = max(1, NUMBERS // (TICKS * program.dimension))
    for first in range(0, n_keys, size):
        yield first, min(first + size, n_keys)


def _joined(cells: KeyCells, other: KeyCells) -> KeyCells:
    """All cells, in order of ticks."""
    if not len(other.ticks):
        return cells
    ticks = np.concatenate([cells.ticks, other.ticks])
    order = np.argsort(ticks, kind="stable")
    rows = np.concatenate([cells.rows, other.rows])
    values = np.concatenate([cells.values, other.values])
    return KeyCells(ticks[order], rows[order], values[order])
