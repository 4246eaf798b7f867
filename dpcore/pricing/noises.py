"""Which noises a continual sum is tried with."""

from __future__ import annotations

from weir.dpcore.errors import ConfigError
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.registry import CONTINUAL_SUMS

FINEST = 2.0**-40
"""Smallest delta that real-valued noise serves: each normal is made from 64 random bits, so that
its far tail is a few atoms of mass 2^-63 and then nothing. Discrete noise is exact at any delta."""


def noises_for(terms: Terms) -> tuple[str, ...]:
    """Which noises can keep the promise.

    Raises:
      ConfigError: the noise that was named cannot.
    """
    asked, delta = terms.noise, terms.delta
    if asked is None and delta == 0:
        return ("k_norm",)
    if 0 < delta < FINEST and asked in (None, "gaussian"):
        only_real = "discrete_gaussian" not in kinds_of(terms.continual_sum)
        if asked is not None or only_real:
            raise ConfigError(
                "privacy.delta",
                delta,
                "is finer than Gaussian noise in floating point, whose tails end at 9 standard "
                "deviations; set 1e-12 or more, or mechanism.noise: discrete_gaussian, which is "
                "exact.",
            )
        return ("discrete_gaussian",)
    if asked is None:
        return ("gaussian", "discrete_gaussian")
    if delta == 0 and asked != "k_norm":
        raise ConfigError(
            "privacy.delta",
            delta,
            f"must be above 0 for {asked} noise; set 1e-6, or use "
            "mechanism.noise: k_norm, which serves delta = 0.",
        )
    return (asked,)


def kinds_of(named: str | None) -> tuple[str, ...]:
    """Noises of the mechanism that the user named; all of them without a name.

    A name that is no continual sum is a way to combine several with Gaussian noise.
    """
    if named is None:
        return ("gaussian", "discrete_gaussian", "k_norm")
    return tuple(CONTINUAL_SUMS[named].kinds) if named in CONTINUAL_SUMS else ("gaussian",)
