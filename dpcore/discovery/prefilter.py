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
from weir.dpcore.continual.columns import between
from weir.dpcore.continual.ended import EndedSum
from weir.dpcore.continual.unit import fine_variances, finer, noisy_coordinates
from weir.dpcore.discovery.rule import DiscoveryRule
from weir.dpcore.discovery.step import Noises
from weir.dpcore.discovery.waiting import KeyCells
from weir.dpcore.native import ciphers
from weir.dpcore.noise.discrete_gaussian import envelopes
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise
from weir.dpcore.noise.streams import DISCRETE_GAUSSIAN, GAUSSIAN

LIKELY: Final = 0.7
"""Keys of so much of a threshold are not looked at: they will have to be stepped."""
KEYS: Final = 4096
DRAWS: Final = 1 << 22
"""Keys that are looked at together, and their draws, at most: what is known of them stays in the
cache from tick to tick, and numpy has room where there is no kernel."""
LONGEST: Final = 1 << 14
"""Ticks of a period, at most."""
LARGEST: Final = 9.1
"""No normal made of doubles is larger (``dpcore.noise.gaussian``); a key with a larger exact one is
not set aside."""
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
    with the threshold: in floating point, plus all the errors that it can have.

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
    mine, together = cells.renumbered(place), min(KEYS, DRAWS // (high - low))
    group = mine.rows // together
    if asked.size > together:
        order = np.argsort(group, kind="stable")
        mine, group = mine.pick(order), group[order]
    ends = np.searchsorted(group, np.arange(-(-asked.size // together) + 1))
    for number, first in enumerate(range(0, asked.size, together)):
        some = asked[first : first + together]
        noise = noises.noise_of([names[key] for key in some.tolist()], low)(rule.part)
        if not isinstance(noise, KeyedNoise):
            break  # of tests: not keyed
        here = mine.pick(slice(*ends[number : number + 2]))
        here = here._replace(rows=here.rows - first)
        out[some] = excess(rule, mechanism, noise, here, bars, low, len(some)) < 0
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


def excess(
    rule: DiscoveryRule,
    mechanism: Filtered,
    noise: KeyedNoise,
    cells: KeyCells,
    bars: Ints,
    low: int,
    n_keys: int,
) -> Floats:
    """(K,) how far the noisy count comes above a threshold at most, in standard deviations of a
    draw at ratio 1, plus all that may be wrong with that; infinite where a draw is too large.

    Args:
      cells: sorted by tick. bars: (n,) thresholds of the ticks from ``low`` on.
    """
    unit = mechanism.noise_scale * mechanism.scales[rule.coordinate]
    place = noisy_coordinates(mechanism.scales).index(rule.coordinate)
    ticks = len(bars)
    own = filter_of(mechanism, place, low, low + ticks)
    # One step of the lattice for the rounding of the noise, one for sums and thresholds in floats.
    margin = 2 / unit + error(mechanism, own) + float(bars.max()) / unit * ticks * 2.0**-50
    curves = np.column_stack([own.curves, bars / unit - margin])
    cells = cells._replace(ticks=cells.ticks - low)
    digests = noise.cell_digests(cells.ticks, cells.values[:, list(rule.read)])
    counts = cells.values[:, rule.leaf] / unit
    labels = label(0, low + np.arange(ticks))
    kind = DISCRETE_GAUSSIAN if own.variances else GAUSSIAN
    sources = noise.sources(kind, labels)
    if ciphers is None or sources is None:
        return _excess(own, noise, labels, cells, digests, counts, curves, n_keys)
    out = np.empty(n_keys)
    numbers = np.array([place], dtype=np.uint64), np.array([LARGEST])
    at = np.ascontiguousarray(cells.ticks), np.ascontiguousarray(cells.rows)
    ciphers.excess(*sources, out, *at, digests, counts, curves, own.poles, *numbers, *own.envelopes)
    return out


def _excess(
    own: NoiseFilter,
    noise: KeyedNoise,
    labels: Digests,
    cells: KeyCells,
    digests: Digests,
    counts: Floats,
    curves: Floats,
    n_keys: int,
) -> Floats:
    """``excess`` without a kernel: one operation at a time, in its order."""
    history = np.zeros((len(labels), n_keys, 2), dtype=np.uint64)
    history[cells.ticks, cells.rows] = digests
    accumulate(np.bitwise_xor, history)
    added = np.zeros(history.shape[:2])
    added[cells.ticks, cells.rows] = counts
    draws = drawn(own, noise, labels, history)
    out, count, carried = np.full(n_keys, -np.inf), np.zeros(n_keys), np.zeros(n_keys)
    buffers = np.zeros((len(own.poles[0]), n_keys))
    for unit, more, (inverse, scale, fall, limit) in zip(draws, added, curves[:, 1:], strict=True):
        out[np.abs(unit) >= LARGEST] = np.inf
        unit *= inverse
        y = unit.copy()
        for u, theta, omega in zip(buffers, *own.poles, strict=True):
            y += u * omega
            u[:] = u * theta + unit
        count += more
        np.maximum(out, y * scale + carried + count - limit, out=out)
        carried += y * fall
    return out


class NoiseFilter(NamedTuple):
    """Noise of keys that begin at a tick, as a filter of draws of variance 1.

    Attributes:
      place: of the coordinate among those with noise.
      variances: (n,) of exact draws on their grid; none: draws are Gaussian.
      envelopes: the same for a kernel.
      poles: (2, P), by what buffers decay and what they weigh.
      curves: (n, 4) of each tick, the step of its draws' grid in standard deviations, one over its
        gain, its scale, and by how much that falls.
      reach: the sum of the sizes of what noise takes of all draws so far, at most.
    """

    place: int
    variances: tuple[int, ...]
    envelopes: tuple[Any, ...]
    poles: Floats
    curves: Floats
    reach: float


def drawn(own: NoiseFilter, noise: KeyedNoise, labels: Digests, chain: Digests) -> Floats:
    """Draws in standard deviations: (n, K).

    Args:
      chain: (n, K, 2), digests of all leaves until each tick.
    """
    at = own.place
    if not own.variances:
        return noise.gaussian(labels, chain, at + 1)[:, :, at]
    each = [(*(0,) * at, variance) for variance in own.variances]
    return noise.discrete_gaussian(labels, chain, each)[:, :, at] * own.curves[:, :1]


@lru_cache(maxsize=16)
def filter_of(mechanism: Filtered, place: int, low: int, high: int) -> NoiseFilter:
    """The filter of keys that begin at ``low``, until ``high``."""
    ticks = np.arange(low, high + 1)
    inverse, scales = np.ones(len(ticks)), np.ones(len(ticks))
    if isinstance(mechanism, EndedSum):
        inverse = 1 / between(mechanism.knots, mechanism.gains, ticks)
        scales = between(mechanism.knots, mechanism.scales_of_ticks, ticks)
    form, steps, variances = mechanism.form, np.ones(high - low), tuple[int, ...]()
    if mechanism.exact is not None:
        sigma = mechanism.noise_scale
        scale = mechanism.scales[noisy_coordinates(mechanism.scales)[place]]
        steps *= 2.0 ** -finer(sigma * scale) / (sigma * scale)
        if isinstance(mechanism, EndedSum):
            variances = mechanism.drawn_variances(scale, ticks[:-1])
            steps /= mechanism.ratios(ticks[:-1])
        else:
            variances = fine_variances(sigma, (scale,)) * len(steps)
    reach, carried, buffers = 0.0, 0.0, [0.0] * len(form.poles)
    curves = np.stack([steps, inverse[:-1], scales[:-1], scales[:-1] - scales[1:]], axis=1)
    for _, unit, scale, fall in curves.tolist():
        y = unit + sum(u * omega for u, omega in zip(buffers, form.omega, strict=True))
        reach = max(reach, scale * y + carried)
        carried += abs(fall) * y
        buffers = [u * theta + unit for u, theta in zip(buffers, form.theta, strict=True)]
    poles = np.array([form.theta, form.omega])
    return NoiseFilter(place, variances, envelopes(variances), poles, curves, reach)


def error(mechanism: Filtered, own: NoiseFilter) -> float:
    """How far noise by a filter is from that which is released, at most, rounding to the lattice
    left out.

    Draws are of size LARGEST at most, and noise is a sum of terms, each a draw times coefficients.
    From the draw on a term goes through at most two roundings a tick in a buffer and one where it
    is carried, and 2 P + 16 more where buffers meet and in coefficients: here, and where noise is
    released in doubles. Exact noise is off by its roundings, and by what rounded coefficients
    change.
    """
    size, ticks = own.reach * LARGEST, len(own.curves)
    wrong: float = size * (3 * ticks + 2 * own.poles.shape[1] + 16) * 2.0**-51
    if mechanism.exact is None:
        return wrong
    fixed = mechanism.fixed
    exact: float = fixed.rounding + (fixed.widening - 1) * size * math.sqrt(ticks)
    return wrong + exact
