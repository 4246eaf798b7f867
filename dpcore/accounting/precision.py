"""How large floating-point noise may be before it leaves out steps of the fixed-point grid.

Real-valued noise is drawn in double precision and rounded to the lattice. From 2^53 steps on a
double is a multiple of 2: noise of that size misses every other step, and whether an output can
occur at all then depends on the exact sum below it, which is what the noise is there to hide. So
noise is refused whose tails reach 2^53 steps. Exact noise is made in integers: its sampler ends
at a standard deviation of 2^39 steps, beyond which noise is made of doubles.

Well below that doubles are uneven already: ``unevenness`` tells how much of the guarantee it takes.
The plan warns from ``UNEVEN`` on, and is refused where that is all of the guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from weir.dpcore.errors import ConfigError

WHOLE = 2.0**53
"""Below this every whole number is a double."""

TAILS: Mapping[str, float] = {"gaussian": 10.0, "k_norm": 40.0, "laplace": 40.0}
"""Standard deviations that the largest draw of 64 random bits stays within: 9.1 for a normal, 31
(44 scales) for a Laplace number."""

UNEVEN = 1 / 16
"""From this share on the unevenness of doubles is no longer small compared with the guarantee "
"itself."""

REMEDIES: Mapping[str, str] = {
    "gaussian": "raise epsilon or delta, or protect for a shorter time.",
    **dict.fromkeys(
        ("k_norm", "laplace"),
        "raise epsilon, protect for a shorter time, or set a delta above 0.",
    ),
}


def refuse_coarse(
    name: str, noise: str, stddev: float, field: str = "privacy.epsilon", remedy: str = ""
) -> None:
    """Refuses noise that misses steps of the fixed-point grid.

    Args:
      name: of the mechanism. noise: gaussian, k_norm or laplace; what else there is is exact.
      stddev: of the largest number that is rounded, in steps. field, remedy: for the message, if
        they are others than the usual ones.

    Raises:
      ConfigError: the tails of the noise reach 2^53 steps.
    """
    tail = TAILS.get(noise)
    if tail is not None and not tail * stddev < WHOLE:
        raise ConfigError(
            field,
            None,
            f"asks {name} for {noise} noise of {stddev:.3g} steps of the fixed-point grid: too "
            "large, as doubles leave out steps from 2^53 on, and its tails reach there (integers "
            f"end at 2^61); {remedy or REMEDIES[noise]}",
        )


def made_of_doubles(name: str) -> ConfigError:
    """The error where exact noise is needed and something has none."""
    return ConfigError(
        "mechanism.noise",
        "discrete_gaussian",
        f"noise of {name} is made of doubles here, and exact noise is needed: it is named, or "
        "privacy.delta is below 2^-40. Take another mechanism, set a delta of 1e-12 or more, or "
        "raise epsilon.",
    )


class Rounded(Protocol):
    """What is said of noise that is rounded to the lattice, as continual sums say it."""

    @property
    def sensitivity(self) -> float:
        """Of what is summed, in scales."""

    @property
    def noise_scale(self) -> float:
        """Of a unit of noise, in scales; 0: there is none."""

    @property
    def real_noise(self) -> tuple[str, float]:
        """Kind of the noise, and the standard deviation of the largest number that is rounded."""

    @property
    def drawn_exactly(self) -> bool:
        """Whether no double is in it."""


def refuse_uneven(sums: Iterable[Rounded], epsilon: float) -> float:
    """Refuses a plan whose rounding to doubles tells as much of a record as its guarantee allows.

    Args:
      sums: where its noise comes from. epsilon: of the plan, for the message.

    Returns:
      The worst ``unevenness`` of the sums.

    Raises:
      ConfigError: it is 1 or more.
    """
    share = 0.0
    for part in sums:
        if part.noise_scale > 0 and not part.drawn_exactly:
            share = max(share, unevenness(*part.real_noise, part.sensitivity / part.noise_scale))
    if share >= 1:
        raise ConfigError(
            "privacy.epsilon",
            epsilon,
            f"asks for noise so large that its rounding to doubles alone may tell {share:.3g} "
            "times as much of an event as the guarantee allows: raise epsilon or delta, protect "
            "for a shorter time, or name another mechanism.",
        )
    return share


def missing_tail(sums: Iterable[Rounded]) -> float:
    """Worst ``sparse_tail`` of continual sums; without any, that of the finest noise."""
    results = [sparse_tail(*part.real_noise) for part in sums]
    return max(results, default=sparse_tail("k_norm", 1.0))


def sparse_tail(noise: str, stddev: float) -> float:
    """Probability of the tail of one draw of pure noise in which not every step occurs.

    One coordinate is an exponential number of 63 bits, b steps in scale: beyond x scales there are
    2^63 exp(-x) words for as many steps, so that steps are left out where exp(-x) < b 2^-63, which
    is that probability. Several coordinates share more words; it is a bound there. stddev: at
    least b.
    """
    return max(stddev, 1.0) * 2.0**-63 if noise in ("k_norm", "laplace") else 0.0


def unevenness(noise: str, stddev: float, ratio: float) -> float:
    """What rounding to doubles does to the odds of a step, as a share of what a record may do.

    Doubles that are stddev 2^-52 steps apart fall into a step one more or one less often: its
    probability is off by about that factor, in a pattern that is public and moves with the exact
    sum. Measured on 4 million normals: 0.04 at a standard deviation of 2^49.2 steps, halved with
    each halving. A record may change odds by ``ratio`` = sensitivity / noise scale a unit; both add
    up in squares over the units.

    Args:
      noise, stddev: as above. ratio: the loss of a record against one unit of noise.
    """
    if noise not in TAILS or ratio <= 0:
        return 0.0
    return stddev * 2.0**-52 / ratio
