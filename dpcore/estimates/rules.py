"""When an estimate is shown in place of the release, and how far it may be from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats

CLAIM = 0.95
"""Of the release's standard deviation: a model that claims more than this has nothing to add."""
GUARD = 3.0
"""Standard deviations of the release that an estimate may be away from it."""
BAND = 1.96
LEAST_TICKS = 14
"""Ticks of a key before its first estimate."""


class Estimates(NamedTuple):
    """Estimates of one sum, in its unit, of any one shape.

    Attributes:
      value, stddev: of the estimate; those of the release where there is no claim.
      low, high: 95 % interval, as far as the model holds.
      claims: whether it is an estimate at all. surprise: whether release and estimate are
        further apart than the noise explains.
    """

    value: Floats
    stddev: Floats
    low: Floats
    high: Floats
    claims: NDArray[np.bool_]
    surprise: NDArray[np.bool_]


def shown(
    release: Floats,
    release_stddev: Floats,
    value: Floats,
    variance: Floats,
    event: Floats | float,
    least: float | None,
    likely: Floats | None = None,
) -> Estimates:
    """What is shown of a model's estimate.

    **Guard.** The value is at most ``GUARD`` standard deviations of the release away from it, so
    |error| <= |error of the release| + 3 standard deviations whatever the data are (limited
    translation: Efron, Morris 1972). Moving a value to a bound that the true one respects brings it
    no further away from that.

    **Floor.** A count varies at least like a Poisson count, which noise hides: its estimate, times
    the size of one event, is added to the variance, up to that of the release.

    Args:
      release, release_stddev: of the noise in it. value, variance: of the model.
      event: size of one event: 1, or half the clip of a sum; 0: the floor is in the variance.
      least: bound that the true value respects; None: there is none.
      likely: variance by which claim and surprise are judged where ``variance`` is an upper bound;
        None: the same.
    """
    wide = variance + np.maximum(value, 0.0) * event
    stddev = np.minimum(np.sqrt(wide), np.maximum(release_stddev, np.sqrt(variance)))
    judged = stddev if likely is None else np.sqrt(likely)
    claims = judged <= CLAIM * release_stddev
    reach = GUARD * release_stddev
    value = np.where(claims, np.clip(value, release - reach, release + reach), release)
    stddev = np.where(claims, stddev, release_stddev)
    noise = np.sqrt(np.maximum(release_stddev**2 - judged**2, 0.0))
    surprise = claims & (np.abs(release - value) > BAND * noise)
    if least is not None:
        value = np.where(claims, np.maximum(value, least), value)
    low, high = value - BAND * stddev, value + BAND * stddev
    if least is not None:
        low = np.where(claims, np.maximum(low, least), low)
    return Estimates(value, stddev, low, high, claims, surprise)


def claimed(first: Estimates, second: Estimates) -> Estimates:
    """The first where it is an estimate, else the second."""
    return Estimates(*(np.where(first.claims, a, b) for a, b in zip(first, second, strict=True)))


def narrower(first: Estimates, second: Estimates) -> tuple[Estimates, NDArray[np.bool_]]:
    """At each place the one of smaller standard deviation, and where it is the second."""
    which = second.stddev < first.stddev
    pairs = zip(first, second, strict=True)
    return Estimates(*(np.where(which, b, a) for a, b in pairs)), which
