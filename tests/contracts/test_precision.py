"""Real-valued noise never misses steps of the fixed-point grid: what would is refused, anyone "
"who draws it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.contracts.cases import Case, cases, noise
from tests.contracts.test_models import KEYS, config_of
from weir.dpcore.accounting.precision import TAILS, WHOLE, sparse_tail, unevenness
from weir.dpcore.continual.independent import UnitSum
from weir.dpcore.continual.unit import draw_units
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.gaussian import exponential_from_bits, normal_from_bits
from weir.dpcore.noise.noise import label
from weir.dpcore.plan import Plan
from weir.dpcore.registry import MODELS


def drawn(kind: str, scale: float) -> np.ndarray:
    digests = np.random.default_rng(0).integers(0, 1 << 63, (1, 20_000, 2)).astype(np.uint64)
    keys = tuple(b"%d" % k for k in range(20_000))
    return draw_units(kind, noise(0, keys), label(0, 0), digests, scale, (1.0,))[0, :, 0]


@pytest.mark.parametrize("kind", TAILS)
def test_noise_that_is_too_large_misses_steps_and_the_largest_that_is_allowed_does_not(
    kind: str,
) -> None:
    """A double beyond 2^53 is even, beyond 2^54 a multiple of 4: an output tells what is below."""
    wide = drawn(kind, 2.0**58)
    assert not (wide[np.abs(wide) > 2**54] % 4).any()
    fine = drawn(kind, WHOLE / TAILS[kind] / np.sqrt(2))
    assert np.abs(fine).max() < 2**53
    assert (np.bincount(fine % 4, minlength=4) > 0.2 * len(fine)).all()


def test_steps_are_uneven_in_proportion_to_the_noise() -> None:
    """What ``unevenness`` rests on: about 2^-52 of the standard deviation."""
    bits = np.random.default_rng(1).integers(0, 1 << 64, 1 << 20, dtype=np.uint64)
    normals = normal_from_bits(bits)
    inner = normals[(np.abs(normals) > 1) & (np.abs(normals) < 1.4)]

    def off(bits: int) -> float:
        steps = np.bincount(np.rint(inner * 2.0**bits).astype(np.int64) % 4, minlength=4)
        return float(np.abs(steps / steps.mean() - 1).max())

    assert 0.03 < off(49) < 2.0**-3 * 2 and off(50) > 1.4 * off(49) and off(40) < 0.02
    assert unevenness("gaussian", 2.0**49, 1.0) == 2.0**-3
    assert unevenness("gaussian", 2.0**49, 0.5) == 2.0**-2


@pytest.mark.parametrize(("epsilon", "warned"), [(2.0, False), (0.1, False), (0.03, True)])
def test_a_plan_warns_where_doubles_are_not_fine_beside_its_promise(
    epsilon: float, warned: bool
) -> None:
    made = Plan.from_yaml(config("regression.incremental", "gaussian", epsilon, 1e-9))
    assert any("rounding of doubles" in warning for warning in made.warnings) == warned


def test_a_plan_is_refused_where_doubles_may_tell_more_than_it_promises() -> None:
    with pytest.raises(ConfigError, match="rounding to doubles alone may tell") as refused:
        Plan.from_yaml(config("regression.incremental", "gaussian", 0.005, 1e-9))
    assert "privacy.epsilon = 0.005" in str(refused.value)


def test_the_far_tail_of_laplace_noise_leaves_steps_out_where_it_is_said_to() -> None:
    """Of the words whose exponential is beyond x scales, as many as there are steps, or fewer."""
    scale = 2.0**26
    begins = -np.log(sparse_tail("k_norm", scale))

    def reached(x: float) -> float:
        first = 2**63 - int(2.0**63 * np.exp(-x))
        words = np.arange(first, first + 50_000, dtype=np.uint64) << np.uint64(1)
        steps = np.rint(exponential_from_bits(words) * scale)
        return len(np.unique(steps)) / (np.ptp(steps) + 1)

    assert reached(begins - 1.5) == 1.0 and reached(begins + 0.5) < 0.9
    pure = Plan.from_yaml(config("online.follow_the_leader", "k_norm", 1.0, 0.0))
    (part,) = pure.program.sums  # type: ignore[attr-defined]
    told = f"{sparse_tail(*part.real_noise):.0e} of the probability of every draw"
    assert any(told in warning for warning in pure.warnings)


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=str)
def test_no_continual_sum_exists_whose_noise_misses_steps(case: Case) -> None:
    """Not by calibration, and not by any other way to a larger scale."""
    mechanism = case.build()
    kind, stddev = mechanism.real_noise
    assert kind == case.kind
    assert stddev >= mechanism.noise_scale * max(mechanism.scales)
    if mechanism.drawn_exactly and not isinstance(mechanism, UnitSum):
        assert replace(mechanism, noise_scale=1e60).noise_scale == 1e60  # refused by the sampler
        return
    ends = WHOLE / (TAILS[kind] * stddev)
    replace(mechanism, noise_scale=mechanism.noise_scale * ends * 0.999)
    with pytest.raises(ConfigError, match=r"privacy\.epsilon.*2\^53"):
        replace(mechanism, noise_scale=mechanism.noise_scale * ends * 1.001)


@pytest.mark.parametrize("case", [c for c in cases() if c.kind == "gaussian"], ids=str)
def test_what_is_rounded_is_no_larger_than_it_says(case: Case) -> None:
    """Correlated noise is rounded as a whole; sums of units that are rounded each may be larger."""
    mechanism = case.build()
    whole = mechanism.stddev(np.arange(600), case.overs[0])[:, -1].max()
    if case.name in ("blt", "toeplitz", "sliding"):
        assert mechanism.real_noise[1] >= whole * (1 - 1e-9) or None not in case.overs


def config(name: str, noise: str, epsilon: float, delta: float) -> str:
    text = config_of(name, "replace_one", KEYS)
    asked = f"privacy: {{epsilon: {epsilon!r}, delta: {delta!r}, protect_for: all"
    text = text.replace("privacy: {epsilon: 2.0, delta: 1e-5, protect_for: all", asked)
    return text + f"mechanism: {{noise: {noise}}}\n"


SMALL = {"gaussian": (1e-300, 1e-12), "k_norm": (1e-12, 0.0)}
"""Epsilon and delta at which noise passes 2^53 steps: delta alone bounds it at any epsilon."""


@pytest.mark.parametrize(
    ("name", "noise"),
    [(name, noise) for name, model in MODELS.items() for noise in SMALL if noise in model.noises],
)
def test_every_algorithm_refuses_noise_that_would_miss_steps(name: str, noise: str) -> None:
    # A regulariser that follows from epsilon is too strong for doubles before the noise is.
    with pytest.raises(ConfigError, match=r"2\^53|^privacy\.epsilon = .*double precision; raise"):
        Plan.from_yaml(config(name, noise, *SMALL[noise]))


@pytest.mark.parametrize("name", ["online.pocg", "regression.erm", "regression.naive"])
def test_noise_outside_of_continual_sums_is_refused_at_the_same_place(name: str) -> None:
    """At ever smaller budgets: what is planned stays below, and what comes first above is told."""
    for exponent in range(20):
        try:
            made = Plan.from_yaml(config(name, "gaussian", 10.0**-exponent, 1e-12))
        except ConfigError as error:
            assert "2^53" in str(error) and exponent > 3
            return
        program: Any = made.program
        if name == "online.pocg":
            sigma = float(program.descent.sigma(np.zeros(1, dtype=np.int64))[0])
            steps = sigma / program.descent._grid
        else:
            steps = program.gradient_stddev(program.schedule.smallest)
            steps /= program.problem.gradients.lattice.resolution
        assert TAILS["gaussian"] * steps < WHOLE
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("name", ["regression.erm", "online.follow_the_leader"])
def test_exact_noise_beyond_its_sampler_is_refused_when_it_is_planned(name: str) -> None:
    Plan.from_yaml(config(name, "discrete_gaussian", 1e-3, 1e-9))
    with pytest.raises(ConfigError):
        Plan.from_yaml(config(name, "discrete_gaussian", 1e-8, 1e-9))
