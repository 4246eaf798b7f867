"""DP-SQLP, the published mechanism, made again from its description: the peer.

A key has a binary tree over all ticks that counts its distinct users, read by Honaker's estimate
from below, and is released when that is above its standard deviation times a quantile. Then its
tree of events moves on and is released, and the selection of the key begins again with a fresh
tree: a user who touches C keys may meet C such rounds, which compose. Half of epsilon pays for
selection, half for the trees of events, whose noise is for all C events of a user on one key. Keys
without data are looked at by prediction: every tick is tested from a round's first event on.

The calibration is that of confidential-storm (zCDP, alpha = 1/2), as it reproduces its published
scales to the last digit. Nothing here claims that it is private: the tail of the threshold is not
added up over ticks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from benchmarks.dp_sqlp.data import MINUTES, Setting
from benchmarks.dp_sqlp.errors import Errors, errors
from benchmarks.dp_sqlp.published import CAP, DELTA, EPSILON
from weir.dpcore.accounting.calibrate import zcdp_rho

TOGETHER = 8_192
"""Keys whose trees are drawn together."""
HOPELESS = 0.4
"""Keys of fewer users than this share of the threshold over one node are not tried: with 0.6 in its
place it took 4 standard deviations to cross, and not a key more is found."""

Floats = NDArray[np.float32]
Counts = NDArray[np.int64]


class Scales(NamedTuple):
    """Standard deviations of a node of either tree; the threshold in those of the estimate."""

    selection: float
    events: float
    quantile: float


def scales(ticks: int, cap: int = CAP, epsilon: float = EPSILON, delta: float = DELTA) -> Scales:
    """eps/2 each; two thirds of delta for selection, and of a round's delta half for its tail."""
    levels = math.ceil(math.log2(ticks))
    a_round = zcdp_rho(epsilon / 2, delta * 2 / 3) / cap
    its_delta = delta * 2 / 3 / cap
    its_epsilon = a_round + 2 * math.sqrt(a_round * math.log(1 / its_delta))
    selection = math.sqrt(levels / (2 * zcdp_rho(its_epsilon, its_delta / 2)))
    of_events = cap * math.sqrt(levels / (2 * zcdp_rho(epsilon / 2, delta / 3)))
    beta = its_delta / 2 / (math.exp(its_epsilon) + 1)
    return Scales(selection, of_events, float(norm.isf(beta)))


def variances(ticks: int) -> NDArray[np.float64]:
    """(ticks,): of Honaker's estimate of each prefix, nodes of unit variance."""
    found = np.zeros(ticks)
    for end in range(1, ticks + 1):
        found[end - 1] = sum(
            1 / _weight(level) for level in range(end.bit_length()) if end >> level & 1
        )
    return found


def paths(rng: np.random.Generator, ticks: int, trees: int) -> Floats:
    """(trees, ticks): the noise of each prefix, from nodes of unit variance."""
    leaves = 1 << math.ceil(math.log2(ticks))
    level = rng.standard_normal((trees, leaves), dtype=np.float32)
    levels = [level]
    while level.shape[1] > 1:
        below = (level[:, 0::2] + level[:, 1::2]) / 2
        level = rng.standard_normal(below.shape, dtype=np.float32) + below
        levels.append(level)
    out = np.zeros((trees, ticks), dtype=np.float32)
    for end in range(1, ticks + 1):
        begin = 0
        for height in reversed(range(len(levels))):
            if end >> height & 1:
                out[:, end - 1] += levels[height][:, begin >> height] / np.float32(_weight(height))
                begin += 1 << height
    return out


def _weight(level: int) -> float:
    """A node's estimate: its levels, each at half the one above, over this. 1 / this: variance."""
    return 2 * (1 - 2.0 ** -(level + 1))


def table(
    keys: NDArray[np.int32],
    minutes: NDArray[np.int16],
    chosen: NDArray[np.int64],
    ticks: int,
    n: int,
) -> Counts:
    """(chosen, ticks): how many of the events each chosen key has up to each tick."""
    place = np.full(n, -1, dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    row = place[keys]
    inside = row >= 0
    cell = row[inside] * ticks + minutes[inside].astype(np.int64) * ticks // MINUTES
    flat = np.bincount(cell, minlength=len(chosen) * ticks)
    return np.cumsum(flat.reshape(len(chosen), ticks), axis=1)


def dp_sqlp(
    setting: Setting,
    ticks: int,
    truth: Counts,
    pairs: tuple[NDArray[np.int32], NDArray[np.int16]],
    bounded: tuple[NDArray[np.int32], NDArray[np.int16]],
    seed: int,
) -> Errors:
    """One run.

    A user who comes back to a key after its release is new there; here they are not, which moves
    one user in 2,000.

    Args:
      setting, ticks: of the data.
      truth: (keys,) events.
      pairs: key and minute of each user's first event at a key, of bounded events.
      bounded: key and minute of each event within the cap.
    """
    rng = np.random.default_rng((seed, ticks))
    sigma = scales(ticks)
    deviation = sigma.selection * np.sqrt(variances(ticks))
    users = np.bincount(pairs[0], minlength=setting.keys)
    chosen = np.flatnonzero(users > HOPELESS * sigma.quantile * sigma.selection)
    distinct = table(*pairs, chosen, ticks, setting.keys)
    last = _last_releases(rng, distinct, sigma, sigma.quantile * deviation)
    summed = table(*bounded, chosen, ticks, setting.keys)
    released = np.flatnonzero(last >= 0)
    estimates = np.zeros(setting.keys)
    for part in _parts(released):
        noise = paths(rng, ticks, len(part))[np.arange(len(part)), last[part]]
        estimates[chosen[part]] = summed[part, last[part]] + sigma.events * noise
    live = np.zeros(setting.keys, dtype=np.bool_)
    live[chosen[released]] = True
    return errors(truth, live, estimates)


def _last_releases(
    rng: np.random.Generator, distinct: Counts, sigma: Scales, threshold: NDArray[np.float64]
) -> NDArray[np.int64]:
    """(keys,): the tick of each key's last release, -1 if there is none."""
    keys, ticks = distinct.shape
    begins, last = np.zeros(keys, dtype=np.int64), np.full(keys, -1, dtype=np.int64)
    active, tick = np.arange(keys), np.arange(ticks)
    while len(active):
        again = []
        for part in _parts(active):
            noise = sigma.selection * paths(rng, ticks, len(part))
            before = np.where(begins[part] > 0, distinct[part, begins[part] - 1], 0)
            found = distinct[part] - before[:, None]
            begun = found > 0
            crossed = (found + noise >= threshold) & (tick >= begins[part][:, None]) & begun
            some, first = crossed.any(axis=1), crossed.argmax(axis=1)
            last[part[some]] = first[some]
            begins[part[some]] = first[some] + 1
            again.append(part[some & (first < ticks - 1)])
        active = np.concatenate(again)
    return last


def _parts(which: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    for i in range(0, len(which), TOGETHER):
        yield which[i : i + TOGETHER]
