"""Which keys cannot be found in a whole period: told before they are stepped, and never wrongly.

Where all events of a period are at hand (files), nearly all keys of few users can be set aside
without a step. What is released is the same to the last bit: a key that is set aside would have
waited until the period's end, and been forgotten there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Floats, Ints, accumulate
from weir.dpcore.continual.blt import BufferedSum
from weir.dpcore.continual.columns import Knots, Values, between
from weir.dpcore.continual.ended import EndedSum
from weir.dpcore.continual.rational import Rational
from weir.dpcore.continual.unit import fine_variances, finer, noisy_coordinates
from weir.dpcore.discovery.rule import DiscoveryRule
from weir.dpcore.discovery.step import Noises
from weir.dpcore.discovery.waiting import KeyCells
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise

LIKELY: Final = 0.7
"""Keys of so much of a threshold are not looked at: they will have to be stepped."""
KEYS: Final = 4096
"""Keys that are looked at together; with TICKS ticks all that is worked on stays in the cache."""
TICKS: Final = 16
PIECE: Final = 512
"""Keys in one product of matrices."""
LONGEST: Final = 1 << 14
"""Ticks of a period, at most: behind that the errors of single precision are too large."""
LARGEST: Final = 9.1
"""No normal made of doubles is larger (``dpcore.noise.gaussian``); a key with a larger exact one is
not set aside."""
ERROR: Final = 2.0**-20
"""How far a draw of at most that size is off in single precision."""
Singles = NDArray[np.float32]
Filtered = BufferedSum | EndedSum
"""Sums whose noise is a linear filter of one draw a tick."""


def prefilter(
    rule: DiscoveryRule,
    noises: Noises,
    names: Sequence[bytes],
    cells: KeyCells,
    low: int,
    high: int,
) -> NDArray[np.bool_]:
    """Keys that are certainly not found in the period [low, high): (K,) bool.

    A key with too few users is none. Of others a bound of their noise at every tick is compared
    with the threshold: single precision, plus all the errors that it can have.

    Args:
      names: (K,) of keys that are not live. cells: all their leaves of the period.
    """
    n_keys = len(names)
    users = np.zeros(n_keys, dtype=np.int64)
    np.add.at(users, cells.rows, cells.values[:, rule.leaf])
    out = users < rule.users
    bars = rule.thresholds(low, high)
    mechanism = rule.mechanism
    asked = np.flatnonzero(~out & (users < LIKELY * float(bars.min())))
    if not _looks_ahead(rule, noises, low, high) or not asked.size:
        return out
    assert isinstance(mechanism, Filtered)
    place = np.full(n_keys, -1, dtype=np.int64)
    place[asked] = np.arange(asked.size)
    mine = cells.renumbered(place)
    order = np.argsort(mine.rows // KEYS, kind="stable")
    mine = mine.pick(order)
    ends = np.searchsorted(mine.rows // KEYS, np.arange(-(-asked.size // KEYS) + 1))
    for group, first in enumerate(range(0, asked.size, KEYS)):
        some = asked[first : first + KEYS]
        noise = noises.noise_of([names[key] for key in some.tolist()], low)(rule.part)
        if not isinstance(noise, KeyedNoise):
            break  # of tests: not keyed
        here = mine.pick(slice(ends[group], ends[group + 1]))
        here = here._replace(rows=here.rows - first)
        out[some] = _below(rule, mechanism, noise, here, bars, low, len(some))
    return out


def _looks_ahead(rule: DiscoveryRule, noises: Noises, low: int, high: int) -> bool:
    mechanism = rule.mechanism
    return (
        isinstance(mechanism, Filtered)
        and mechanism.noise_scale > 0
        and mechanism.scales[rule.coordinate] > 0
        and high - low <= LONGEST
        and not noises.edges(low, high)
    )


def _below(
    rule: DiscoveryRule,
    mechanism: Filtered,
    noise: KeyedNoise,
    cells: KeyCells,
    bars: Ints,
    low: int,
    n_keys: int,
) -> NDArray[np.bool_]:
    """(K,) whose noisy count stays below every threshold. In units of one draw at ratio 1.

    cells: sorted by tick.
    """
    unit = mechanism.noise_scale * mechanism.scales[rule.coordinate]
    place = noisy_coordinates(mechanism.scales).index(rule.coordinate)
    ticks = len(bars)
    strides = strides_of(*curves_of(mechanism), low, low + ticks)
    # One step of the lattice for the rounding of the noise, one for sums and thresholds in floats.
    margin = 2 / unit + error(mechanism, strides) + float(bars.max()) / unit * ticks * 2.0**-22
    limit = (bars / unit - margin).astype(np.float32)
    digests = noise.cell_digests(cells.ticks - low, cells.values[:, list(rule.read)])
    added = (cells.values[:, rule.leaf] / unit).astype(np.float32)
    state = np.zeros((len(strides[0].after), n_keys), dtype=np.float32)
    chain = np.zeros((n_keys, 2), dtype=np.uint64)
    count = np.zeros(n_keys, dtype=np.float32)
    ok = np.ones(n_keys, dtype=bool)
    for stride, begin in zip(strides, range(0, ticks, TICKS), strict=True):
        n = min(TICKS, ticks - begin)
        span = slice(*np.searchsorted(cells.ticks, [low + begin, low + begin + n]))
        at = cells.ticks[span] - (low + begin), cells.rows[span]
        history = np.zeros((n, n_keys, 2), dtype=np.uint64)
        history[at] = digests[span]
        history[0] ^= chain
        accumulate(np.bitwise_xor, history)
        chain = history[-1].copy()
        units = np.zeros((TICKS + len(state), n_keys), dtype=np.float32)
        units[:n] = drawn(mechanism, noise, place, history, low + begin)
        ok &= (np.abs(units[:n]) < LARGEST).all(axis=0)
        units[TICKS:] = state
        noisy = _product(stride.within[:n], units)
        counts = np.zeros((n, n_keys), dtype=np.float32)
        counts[at] = added[span]
        counts[0] += count
        accumulate(np.add, counts)
        count = counts[-1].copy()
        noisy += counts
        ok &= (noisy < limit[begin : begin + n, None]).all(axis=0)
        state = _product(stride.after, units)
    return ok


def drawn(
    mechanism: Filtered, noise: KeyedNoise, coordinate: int, digests: Digests, first: int
) -> Floats:
    """Draws of a coordinate from a tick on, in standard deviations: (n, K). Rounded to single
    precision they are within ERROR of those of what is released.

    Args:
      coordinate: its place among those that have noise. digests: (n, K, 2).
    """
    n = len(digests)
    labels = label(0, first + np.arange(n))
    if mechanism.exact is None:
        return noise.gaussian(labels, digests, coordinate + 1)[:, :, coordinate]
    variances, steps = _sizes(mechanism, coordinate, first, n)
    whole = noise.discrete_gaussian(labels, digests, variances)[:, :, coordinate]
    return np.asarray(whole * steps)


@lru_cache(maxsize=1 << 11)
def _sizes(mechanism: Filtered, coordinate: int, first: int, n: int) -> tuple[Any, Floats]:
    """Variances of exact draws at n ticks, 0 of other coordinates; and (n, 1) what a step of their
    grid is in standard deviations."""
    active = noisy_coordinates(mechanism.scales)
    sigma, scale = mechanism.noise_scale, mechanism.scales[active[coordinate]]
    before, behind = (0,) * coordinate, (0,) * (len(active) - coordinate - 1)
    step = 2.0 ** -finer(sigma * scale) / (sigma * scale)
    if not isinstance(mechanism, EndedSum):
        (variance,) = fine_variances(sigma, (scale,))
        return (*before, variance, *behind), np.full((n, 1), step)
    ticks = np.arange(first, first + n)
    each = mechanism.drawn_variances(scale, ticks)
    variances = tuple((*before, variance, *behind) for variance in each)
    return variances, step / mechanism.ratios(ticks)[:, None]


def _product(left: Singles, right: Singles) -> Singles:
    """A product of matrices in pieces so small that no library wakes threads for them: they would
    spin longer than they work."""
    out = np.empty((len(left), right.shape[1]), dtype=np.float32)
    for first in range(0, right.shape[1], PIECE):
        piece = slice(first, first + PIECE)
        np.matmul(left, right[:, piece], out=out[:, piece])
    return out


class Stride(NamedTuple):
    """TICKS ticks of a filter in single precision. Its state is a number a buffer, and one that is
    carried.

    Attributes:
      within: (TICKS, TICKS + s), what draws and the state before are multiplied by: noise.
      after: (s, TICKS + s), the same: the state behind.
      error: how far that noise may be off in all, at most. reach: sum of the sizes of what any of
        its noise takes of all draws so far, at most.
    """

    within: Singles
    after: Singles
    error: float
    reach: float


def curves_of(mechanism: Filtered) -> tuple[Rational, Knots, Values, Values]:
    """Form, and gains and scales at knots."""
    if isinstance(mechanism, EndedSum):
        return mechanism.form, mechanism.knots, mechanism.gains, mechanism.scales_of_ticks
    return mechanism.form, (0,), (1.0,), (1.0,)


@lru_cache(maxsize=16)
def strides_of(
    form: Rational, knots: Knots, gains: Values, scales: Values, low: int, high: int
) -> tuple[Stride, ...]:
    """The filter of keys that begin at ``low``, until ``high``.

    Let w be draws of size LARGEST at most, each known to ERROR, s the state before a stride, known
    to E; W and F the matrices of noise and state. A product of matrices in single precision is off
    by (terms + 4) 2^-24 of the sum of sizes, whatever the order of adding (its entries' rounding
    included). So noise is off by |W| (ERROR, E) and that share of |W| (LARGEST, |s|); and so is the
    state behind, with F.
    """
    size = len(form.poles) + 1
    share = (TICKS + size + 4) * 2.0**-24
    largest, off, reached = (np.zeros(size) for _ in range(3))
    results = []
    for first in range(low, high, TICKS):
        ticks = np.arange(first, first + TICKS + 1)
        curves = between(knots, gains, ticks)[:TICKS], between(knots, scales, ticks)
        within, after = _filter(form, *curves)
        taken, behind = np.abs(within), np.abs(after)
        known = np.concatenate([np.full(TICKS, ERROR), off])
        sizes = np.concatenate([np.full(TICKS, LARGEST + ERROR), largest + off])
        units = np.concatenate([np.ones(TICKS), reached])
        wrong = float((taken @ (known + share * sizes)).max())
        reach = float((taken @ units).max())
        results.append(Stride(within.astype(np.float32), after.astype(np.float32), wrong, reach))
        off, reached = behind @ (known + share * sizes), behind @ units
        largest = LARGEST * reached
    return tuple(results)


def _filter(form: Rational, gains: Floats, scales: Floats) -> tuple[Floats, Floats]:
    """Noise and state of TICKS ticks, by draws and the state before: see ``EndedSum``."""
    theta, omega = np.asarray(form.theta), np.asarray(form.omega)
    basis = np.eye(TICKS + len(theta) + 1)
    buffers, carried, noise = basis[TICKS:-1], basis[-1], []
    for unit, gain, scale, after in zip(basis, gains, scales, scales[1:], strict=False):
        y = unit / gain + omega @ buffers
        noise.append(scale * y + carried)
        carried = carried + (scale - after) * y
        buffers = theta[:, None] * buffers + unit / gain
    return np.array(noise), np.concatenate([buffers, carried[None]])


def error(mechanism: Filtered, strides: Sequence[Stride]) -> float:
    """How far noise by ``strides`` is from that which is released, at most, rounding to the lattice
    left out; and what exact noise is off by, in whole numbers with rounded coefficients."""
    wrong, reach = max(one.error for one in strides), max(one.reach for one in strides)
    draws = LARGEST * math.sqrt(TICKS * len(strides))
    if mechanism.exact is None:
        return wrong + 2.0**-40 * reach * draws
    fixed = mechanism.fixed
    return wrong + fixed.rounding + (fixed.widening - 1) * reach * draws
