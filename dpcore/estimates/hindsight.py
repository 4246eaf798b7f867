"""Estimates of every tick from all releases: a smoother for each member, in disturbance form."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.estimates.bank import (
    Bank,
    FilterStep,
    NoiseMoments,
    SignalMove,
    likely,
    mixture,
    moved,
)
from weir.dpcore.noise.gaussian import exact_log
from weir.dpcore.noise.generalised_gaussian import exact_exp

LONGEST = 800
"""Ticks that are smoothed at once, at most."""
MEMBERS, ROUNDS, LEAST = 48, 20, 1e-4
"""Members that are smoothed, rounds of the pooled prior, and the weight below which a member is
left out for a key."""


def weights_of(likelihood: Floats) -> Floats:
    """Weights of members (G, K) by the whole likelihood, under a prior that keys pool (EM)."""
    g, keys = likelihood.shape
    prior = np.full((g, 1), 1 / g)
    weights = likelihood
    for _ in range(ROUNDS if keys > 1 else 1):
        score = likelihood + exact_log(prior)
        weights = exact_exp(score - score.max(axis=0))
        weights /= weights.sum(axis=0)
        if keys > 1:
            prior = (weights.sum(axis=1, keepdims=True) + 1 / g) / (keys + 1)
    return weights


def smoothed(bank: Bank, changes: Floats) -> dict[int | None, list[NoiseMoments]]:
    """The noise in the releases of every tick, given the releases of all ticks.

    Args:
      bank: that took all ticks; of its members those that matter run again. changes: (n, K), as it
        took them.

    Returns:
      for each of its ``overs`` the moments at each tick.
    """
    assert bank.members is not None
    logs = exact_log(np.maximum(weights_of(bank.likelihood), 1e-300))
    places = likely(logs, bank.members, MEMBERS)
    again = Bank(bank.model, bank.keys, bank.overs, bank.first, bank.members[places], remember=True)
    for change in changes:
        again.step(change)
    weights = weights_of(again.likelihood)
    weights = np.where(weights < LEAST, 0.0, weights)
    weights /= weights.sum(axis=0)
    return _backwards(again.history, again.state, again.gains.state, weights, bank.overs)


def _backwards(
    history: Sequence[FilterStep],
    state: Floats,
    variance: Floats,
    weights: Floats,
    overs: Sequence[int | None],
) -> dict[int | None, list[NoiseMoments]]:
    """From the last tick to the first.

    Args:
      history: of n ticks. state, variance: after the last. weights: (G, K).
    """
    n = len(history)
    d, g, keys = state.shape
    back, info = np.zeros((d, g, keys)), np.zeros((d, d, g))
    mean = np.zeros((n + 1, g, keys))  # of z of the tick before
    spread = np.zeros((n + 1, g))
    infos: list[Floats] = [info] * (n + 1)
    steps: list[Floats] = []
    for t in range(n, -1, -1):
        before, x = (variance, state) if t == n else (history[t].row.before, history[t].state)
        if t < n:
            row, error = history[t].row, history[t].error
            step = _closed(row.move, row.gain)
            steps.append(step)
            back = _of_keys(step, back)
            for place, weight in row.move.seen:
                back[place] += weight * error / row.spread[:, None]
            info = _of_matrix(step, _of_matrix(step, info).transpose(1, 0, 2))
            for i, left in row.move.seen:
                for j, right in row.move.seen:
                    info[i, j] += left * right / row.spread
        infos[t] = info
        mean[t] = x[0] + sum(before[0, i][:, None] * back[i] for i in range(d))
        middle = sum(info[:, i] * before[0, i] for i in range(d))
        spread[t] = before[0, 0] - sum(before[0, i] * middle[i] for i in range(d))
    steps.reverse()
    result: dict[int | None, list[NoiseMoments]] = {}
    for over in overs:
        moments = []
        for t in range(n):
            end = t + 1
            if over is None or end <= over:
                moments.append(mixture(weights, mean[end], spread[end]))
                continue
            start = end - over
            both = _covariance(history, variance, steps, infos, start, end)
            apart = spread[end] + spread[start] - 2 * both
            moments.append(mixture(weights, mean[end] - mean[start], apart))
        result[over] = moments
    return result


def _covariance(
    history: Sequence[FilterStep],
    last: Floats,
    steps: Sequence[Floats],
    infos: Sequence[Floats],
    start: int,
    end: int,
) -> Floats:
    """Of the first coordinates of the states before two ticks, given all releases: (G,)."""
    row = history[start].row.before[0]
    d = len(row)
    for t in range(start, end):
        row = np.stack([sum(steps[t][i, j] * row[j] for j in range(d)) for i in range(d)])
    after = last if end == len(history) else history[end].row.before
    through = sum(row[i] * infos[end][i] for i in range(d))
    return np.asarray(row[0] - sum(through[i] * after[i, 0] for i in range(d)))


def _closed(move: SignalMove, gain: Floats) -> Floats:
    """F - K H: (d, d, G)."""
    d = len(gain)
    out = np.repeat(moved(move.entries, np.eye(d))[:, :, None], gain.shape[1], axis=2)
    for place, weight in move.seen:
        out[:, place] -= weight * gain
    return out


def _of_keys(matrix: Floats, x: Floats) -> Floats:
    """M' x, for M (d, d, G) and x (d, G, K)."""
    out = np.zeros_like(x)
    for row, own in zip(matrix, x, strict=True):
        out += row[:, :, None] * own
    return out


def _of_matrix(matrix: Floats, x: Floats) -> Floats:
    """M' X, for M and X (d, d, G)."""
    out = np.zeros_like(x)
    for row, own in zip(matrix, x, strict=True):
        out += row[:, None, :] * own
    return out


def rising(values: Floats, weights: Floats) -> Floats:
    """The nearest series that never falls (pool adjacent violators), in squares by weights: (n,).

    Totals of what is not negative never fall, and moving to the nearest such series does not raise
    the sum of squared errors.
    """
    level: list[float] = []
    weight: list[float] = []
    count: list[int] = []
    for value, own in zip(values.tolist(), weights.tolist(), strict=True):
        level.append(value)
        weight.append(own)
        count.append(1)
        while len(level) > 1 and level[-2] > level[-1]:
            both = weight[-2] + weight[-1]
            level[-2] = (level[-2] * weight[-2] + level[-1] * weight[-1]) / both
            weight[-2], count[-2] = both, count[-2] + count[-1]
            del level[-1], weight[-1], count[-1]
    return np.repeat(np.asarray(level), np.asarray(count))
