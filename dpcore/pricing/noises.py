"""Which noises can keep a guarantee."""

from __future__ import annotations

from collections.abc import Sequence

from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.noise import KINDS, is_pure
from weir.dpcore.pricing.terms import Terms

FINEST = 2.0**-40
"""Smallest delta that real-valued noise serves: each normal is made from 64 random bits, so that
its far tail is a few atoms of mass 2^-63 and then nothing. Discrete noise is exact at any delta."""

REAL = ("gaussian", "generalised_gaussian")
"""Noises in floating point that need a delta above 0."""
FINEST_PURE = 2.0**-33
"""Smallest delta above 0 at which pure noise is taken by default: it covers the tails that 64 bits
leave out, about 2^-53 of a draw at usual resolutions, a thousand times and more."""


def noises_for(terms: Terms) -> tuple[str, ...]:
    """Which noises can keep the guarantee.

    Raises:
      ConfigError: the noise that was named cannot.
    """
    asked, delta = terms.noise, terms.delta
    if asked is None and delta == 0:
        return ("k_norm",)
    if 0 < delta < FINEST and asked in (None, "gaussian"):
        return ("discrete_gaussian",)
    if asked is None:
        return ("gaussian", "discrete_gaussian")
    if delta == 0 and not is_pure(asked):
        raise ConfigError(
            "privacy.delta",
            delta,
            f"must be above 0 for {asked} noise; set 1e-6, or use "
            "mechanism.noise: k_norm, which serves delta = 0.",
        )
    return (asked,)


def too_fine(delta: float) -> ConfigError:
    """The error for real-valued Gaussian noise at such a delta."""
    return ConfigError(
        "privacy.delta",
        delta,
        "is finer than Gaussian noise in floating point, whose tails end at 9 standard deviations; "
        "set 1e-12 or more, or mechanism.noise: discrete_gaussian, which is exact.",
    )


def fine_enough(noises: Sequence[str], delta: float) -> tuple[str, ...]:
    """Those of some noises whose tails delta covers: of a fine one none that is real-valued.

    Raises:
      ConfigError: none is left.
    """
    if not 0 < delta < FINEST:
        return tuple(noises)
    exact = tuple(noise for noise in noises if noise not in REAL)
    if not exact:
        raise too_fine(delta)
    return exact


def covers_pure(delta: float) -> bool:
    """Whether pure noise may be taken that nobody named: at delta = 0, or where delta covers its
    tails, which end in floating point."""
    return delta == 0 or delta >= FINEST_PURE


def noises_of_sums(terms: Terms) -> tuple[str, ...]:
    """Which noises are priced for a sum: those of ``noises_for``, and where neither the noise nor
    the mechanism is named, every pure noise (``Terms.pure``, ``covers_pure``).

    Gaussian noise of sums is discrete wherever it can be: it has one name, and where the other is
    asked for, ``must_be_exact`` refuses noise that is made of doubles.

    Raises:
      ConfigError: the noise that was named cannot keep the guarantee, or is not one of a sum.
    """
    noises = noises_for(terms)
    noises = tuple(dict.fromkeys(noise.removeprefix("discrete_") for noise in noises))
    if not any(noise in KINDS for noise in noises):
        raise ConfigError(
            "mechanism.noise",
            terms.noise,
            f"is no noise of a sum; write one of {', '.join(KINDS)}, or leave it out.",
        )
    # One release of all rows has one mechanism, which nobody had to name.
    named = terms.continual_sum is not None and not terms.clock.once
    if terms.declared or terms.noise is not None or named:
        return noises
    if not covers_pure(terms.delta) or (terms.delta > 0 and not terms.pure):
        return noises
    return tuple(dict.fromkeys((*noises, *filter(is_pure, KINDS))))


def must_be_exact(terms: Terms) -> bool:
    """Whether Gaussian noise of sums that is made of doubles is refused."""
    return terms.noise == "discrete_gaussian" or 0 < terms.delta < FINEST
