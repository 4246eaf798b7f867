"""Which keys cannot be found in a whole period: told before they are stepped, and never wrongly.

Where all events of a period are at hand (files), nearly all keys of few users can be set aside
without a step. What is released is the same to the last bit: a key that is set aside would have
waited until the period's end, and been forgotten there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Floats, Ints, accumulate
from weir.dpcore.continual.blt import BufferedSum
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
    assert isinstance(mechanism, BufferedSum)
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
        isinstance(mechanism, BufferedSum)
        and mechanism.noise_scale > 0
        and mechanism.scales[rule.coordinate] > 0
        and high - low <= LONGEST
        and not noises.edges(low, high)
    )


def _below(
    rule: DiscoveryRule,
    mechanism: BufferedSum,
    noise: KeyedNoise,
    cells: KeyCells,
    bars: Ints,
    low: int,
    n_keys: int,
) -> NDArray[np.bool_]:
    """(K,) whose noisy count stays below every threshold. In units of one draw of noise.

    cells: sorted by tick.
    """
    unit = mechanism.noise_scale * mechanism.scales[rule.coordinate]
    draw = drawing(mechanism, noise, noisy_coordinates(mechanism.scales).index(rule.coordinate))
    ticks = len(bars)
    # One step of the lattice for the rounding of the noise, one for sums and thresholds in floats.
    margin = 2 / unit + error(mechanism, ticks) + float(bars.max()) / unit * ticks * 2.0**-22
    limit = (bars / unit - margin).astype(np.float32)
    digests = noise.cell_digests(cells.ticks - low, cells.values[:, list(rule.read)])
    added = (cells.values[:, rule.leaf] / unit).astype(np.float32)
    within, after = stride(mechanism)
    buffers = np.zeros((len(mechanism.form.poles), n_keys), dtype=np.float32)
    chain = np.zeros((n_keys, 2), dtype=np.uint64)
    count = np.zeros(n_keys, dtype=np.float32)
    ok = np.ones(n_keys, dtype=bool)
    for begin in range(0, ticks, TICKS):
        n = min(TICKS, ticks - begin)
        span = slice(*np.searchsorted(cells.ticks, [low + begin, low + begin + n]))
        at = cells.ticks[span] - (low + begin), cells.rows[span]
        history = np.zeros((n, n_keys, 2), dtype=np.uint64)
        history[at] = digests[span]
        history[0] ^= chain
        accumulate(np.bitwise_xor, history)
        chain = history[-1].copy()
        labels = label(0, low + begin + np.arange(n))
        units = np.zeros((TICKS + len(buffers), n_keys), dtype=np.float32)
        units[:n] = draw(labels, history)
        ok &= (np.abs(units[:n]) < LARGEST).all(axis=0)
        units[TICKS:] = buffers
        noisy = _product(within[:n], units)
        counts = np.zeros((n, n_keys), dtype=np.float32)
        counts[at] = added[span]
        counts[0] += count
        accumulate(np.add, counts)
        count = counts[-1].copy()
        noisy += counts
        ok &= (noisy < limit[begin : begin + n, None]).all(axis=0)
        if n == TICKS:
            buffers = _product(after, units)
    return ok


def drawing(
    mechanism: BufferedSum, noise: KeyedNoise, coordinate: int
) -> Callable[[Digests, Digests], Singles]:
    """Labels and digests -> draws of a coordinate, in standard deviations: within ERROR of those of
    what is released."""
    if mechanism.exact is None:
        return partial(_normals, noise, coordinate)
    active = noisy_coordinates(mechanism.scales)
    scale = mechanism.scales[active[coordinate]]
    (variance,) = fine_variances(mechanism.noise_scale, (scale,))
    variances = tuple(variance if i == coordinate else 0 for i in range(len(active)))
    step = 2.0 ** -finer(mechanism.noise_scale * scale) / (mechanism.noise_scale * scale)
    return partial(_whole, noise, coordinate, variances, step)


def _normals(noise: KeyedNoise, coordinate: int, labels: Digests, digests: Digests) -> Singles:
    return noise.gaussian(labels, digests, coordinate + 1)[:, :, coordinate].astype(np.float32)


def _whole(
    noise: KeyedNoise,
    coordinate: int,
    variances: tuple[int, ...],
    step: float,
    labels: Digests,
    digests: Digests,
) -> Singles:
    drawn = noise.discrete_gaussian(labels, digests, variances)[:, :, coordinate]
    return (drawn * step).astype(np.float32)


def _product(left: Singles, right: Singles) -> Singles:
    """A product of matrices in pieces so small that no library wakes threads for them: they would
    spin longer than they work."""
    out = np.empty((len(left), right.shape[1]), dtype=np.float32)
    for first in range(0, right.shape[1], PIECE):
        piece = slice(first, first + PIECE)
        np.matmul(left, right[:, piece], out=out[:, piece])
    return out


def stride(mechanism: BufferedSum) -> tuple[Singles, Singles]:
    """What TICKS draws and the buffers before them are multiplied by: noise of running totals
    (TICKS, TICKS + m), and buffers behind (m, TICKS + m)."""
    theta, omega = np.asarray(mechanism.form.theta), np.asarray(mechanism.form.omega)
    powers = theta[:, None] ** np.arange(TICKS + 1)
    b = np.concatenate([[1.0], omega @ powers[:, : TICKS - 1]])
    difference = np.arange(TICKS)[:, None] - np.arange(TICKS)[None, :]
    own = np.where(difference >= 0, b[np.maximum(difference, 0)], 0.0)
    within = np.concatenate([own, (omega[:, None] * powers[:, :TICKS]).T], axis=1)
    after = np.concatenate([powers[:, TICKS - 1 :: -1], np.diag(powers[:, TICKS])], axis=1)
    return within.astype(np.float32), after.astype(np.float32)


def error(mechanism: BufferedSum, ticks: int) -> float:
    """How far noise by ``stride`` in single precision is from that which is released, at most.

    Each draw is off by ERROR at most, and b is positive. A product of matrices in single precision
    is off by (terms + 2) 2^-24 of the sum of sizes (its entries' rounding included), whatever the
    order of adding; buffers carry that from stride to stride, and forget no more than they would.
    """
    theta, omega = np.asarray(mechanism.form.theta), np.asarray(mechanism.form.omega)
    total = np.minimum(ticks, 1 / (1 - theta))  # sum of a buffer's powers
    reach = 1.0 + float(omega @ total)  # sum of b
    terms = TICKS + len(theta) + 2
    rounding = terms * 2.0**-24 * LARGEST
    carried: Floats = np.asarray(omega * total)
    return ERROR * reach + rounding * (reach + float(carried.sum()) * (ticks // TICKS + 1))
