from __future__ import annotations

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp
from dp_accounting.pld.accountant import get_smallest_gaussian_noise
from scipy.integrate import quad
from scipy.stats import norm

from weir.dpcore.accounting import calibrate as c
from weir.dpcore.errors import ConfigError

PAIRS = list(itertools.product((1e-3, 0.1, 1.0, 3.0, 20.0), (1e-15, 1e-9, 1e-6, 1e-2)))


def closed_form(epsilon: float, delta: float) -> float:
    """rho of Bun and Steinke (2016), Proposition 1.3."""
    log = math.log(1 / delta)
    return (math.sqrt(epsilon + log) - math.sqrt(log)) ** 2


@pytest.mark.parametrize(
    ("delta", "sigma", "rho", "loose"),
    [(1e-5, 3.7306, 0.03056, 0.02082), (1e-6, 4.2247, 0.02436, 0.01747)],
)
def test_known_answers(delta: float, sigma: float, rho: float, loose: float) -> None:
    assert 1 / c.gdp_mu(1.0, delta) == pytest.approx(sigma, abs=5e-5)
    assert c.zcdp_rho(1.0, delta) == pytest.approx(rho, abs=5e-6)
    assert closed_form(1.0, delta) == pytest.approx(loose, abs=5e-6)


def test_discrete_gaussian_costs_eight_percent() -> None:
    assert 1 / math.sqrt(2 * c.zcdp_rho(1, 1e-5)) == pytest.approx(4.045, abs=1e-3)


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_closed_form_is_looser(epsilon: float, delta: float) -> None:
    rho = c.zcdp_rho(epsilon, delta)
    assert rho > closed_form(epsilon, delta)
    assert math.sqrt(2 * rho) < c.gdp_mu(epsilon, delta)  # and GDP is tighter still


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_price_of_a_calibrated_budget_is_just_below_the_target(
    epsilon: float, delta: float
) -> None:
    for budget, price in (
        (c.gdp_mu(epsilon, delta), c.gdp_epsilon),
        (c.zcdp_rho(epsilon, delta), c.zcdp_epsilon),
    ):
        assert epsilon * (1 - 1e-5) < price(budget, delta) <= epsilon
    assert c.gdp_delta(c.gdp_mu(epsilon, delta), epsilon) == pytest.approx(delta, rel=1e-6)
    assert c.gdp_delta(c.gdp_mu(epsilon, delta), epsilon) <= delta * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1, 1e-6), (1, 1e-5), (5, 1e-3)])
def test_gdp_against_dp_accounting(epsilon: float, delta: float) -> None:
    theirs = get_smallest_gaussian_noise(
        pld.common.DifferentialPrivacyParameters(epsilon, delta), 1
    )
    sigma = 1.0 / c.gdp_mu(epsilon, delta)
    assert sigma == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize("sigma", [0.2, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_gdp_epsilon_against_dp_accounting(sigma: float, delta: float) -> None:
    loss = pld.privacy_loss_mechanism.GaussianPrivacyLoss(sigma)
    for epsilon in (0.01, 0.5, 2.0, 10.0):
        expected = loss.get_delta_for_epsilon(epsilon)
        if expected > 1e-250:
            assert c.gdp_delta(1 / sigma, epsilon) == pytest.approx(expected, rel=1e-6)
    epsilon = c.gdp_epsilon(1 / sigma, delta)
    if epsilon > 0:
        assert loss.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize(("rho", "delta"), [(1e-3, 1e-6), (0.03, 1e-5), (0.5, 1e-9), (4.0, 1e-4)])
def test_zcdp_against_dp_accounting(rho: float, delta: float) -> None:
    orders = 1 + np.geomspace(1e-2, 1e4, 40_000)
    theirs, _ = rdp.compute_epsilon(orders, rho * orders, delta)
    assert c.zcdp_epsilon(rho, delta) == pytest.approx(theirs, rel=1e-6)
    deltas, _ = rdp.rdp_privacy_accountant.compute_delta(orders, rho * orders, theirs)
    assert c.zcdp_delta(rho, theirs) == pytest.approx(deltas, rel=1e-5)


@pytest.mark.slow
def test_gdp_composes_like_the_accountant() -> None:
    event = dp_accounting.ComposedDpEvent([dp_accounting.GaussianDpEvent(s) for s in (3.0, 5.0)])
    theirs = pld.PLDAccountant(value_discretization_interval=1e-5).compose(event).get_epsilon(1e-6)
    assert c.gdp_epsilon(math.hypot(1 / 3, 1 / 5), 1e-6) == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.1, 0.4999, 0.5, 1.0, 5.0, 20.0, 100.0])
def test_gdp_delta_against_quadrature(mu: float) -> None:
    # delta = integral of (1 - e^(epsilon - loss))_+ over the loss, which is N(mu^2/2, mu^2).
    for z in (-2.0, 0.0, 3.0, 6.0):
        epsilon = mu * mu / 2 + z * mu
        if epsilon < 0:
            continue
        expected, _ = quad(
            lambda x, z=z: norm.pdf(x) * -math.expm1(mu * (z - x)),
            z,
            z + 12,
            epsabs=0,
            epsrel=1e-11,
        )
        assert c.gdp_delta(mu, epsilon) == pytest.approx(expected, rel=1e-8)


def test_branches_meet() -> None:
    for epsilon in (0.01, 1.0, 40.0):
        below, above = (c._gdp_log_delta(mu, epsilon) for mu in (math.nextafter(0.5, 0), 0.5))
        assert below == pytest.approx(above, rel=1e-12)
    for mu in (16.0, 40.0):
        epsilon = mu * (mu / 2 - 8)  # a = -8
        low, high = (c._gdp_log_delta(mu, epsilon * f) for f in (1 - 1e-9, 1 + 1e-9))
        assert low == pytest.approx(high, abs=1e-13)
    assert c._mills_slope(math.nextafter(30, 0)) == pytest.approx(c._mills_slope(30.0), rel=1e-11)


def test_extreme_values_stay_finite_and_monotone() -> None:
    tiny = [c.gdp_mu(1.0, 10.0**-k) for k in range(1, 300, 30)]
    assert all(a > b > 0 for a, b in itertools.pairwise(tiny))
    mus = [c.gdp_epsilon(10.0**k, 1e-6) for k in range(-8, 9)]
    assert all(a <= b for a, b in itertools.pairwise(mus)) and mus[0] == 0
    rhos = [c.zcdp_epsilon(10.0**k, 1e-6) for k in range(-16, 17)]
    assert all(a <= b for a, b in itertools.pairwise(rhos))
    assert c.gdp_epsilon(1e200, 1e-6) == math.inf
    assert c.gdp_mu(1e6, 1e-6) == pytest.approx(math.sqrt(2e6), rel=1e-2)


def test_no_loss_and_all_loss() -> None:
    assert c.gdp_epsilon(0.0, 1e-6) == c.zcdp_epsilon(0.0, 1e-6) == 0
    assert c.gdp_epsilon(math.inf, 1e-6) == c.zcdp_epsilon(math.inf, 1e-6) == math.inf
    assert c.gdp_delta(0.0, 1.0) == c.zcdp_delta(0.0, 1.0) == 0
    assert c.gdp_delta(math.inf, 1.0) == c.zcdp_delta(math.inf, 1.0) == 1
    assert c.gdp_delta(1.0, 0.0) == pytest.approx(2 * norm.cdf(0.5) - 1)


def test_results_have_few_bits() -> None:
    for value in (c.gdp_mu(1, 1e-6), c.zcdp_rho(1, 1e-6), c.gdp_epsilon(0.3, 1e-6)):
        mantissa, _ = math.frexp(value)
        assert math.ldexp(mantissa, c.BITS).is_integer()
    # They go into a plan's digest: another value on another machine would make another plan.
    assert c.gdp_mu(1.0, 1e-6).hex() == "0x1.e4c5442e08000p-3"
    assert c.zcdp_rho(1.0, 1e-6).hex() == "0x1.8f0c5809ec000p-6"
    assert c.gdp_epsilon(0.25, 1e-6).hex() == "0x1.0f8a284184000p+0"
    assert c.zcdp_epsilon(0.03, 1e-6).hex() == "0x1.1e404c1bca000p+0"


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, 2.0, math.nan])
def test_refuses_delta(delta: float) -> None:
    for call in (
        lambda: c.gdp_mu(1.0, delta),
        lambda: c.zcdp_rho(1.0, delta),
        lambda: c.gdp_epsilon(1.0, delta),
        lambda: c.zcdp_epsilon(1.0, delta),
    ):
        with pytest.raises(ConfigError) as refusal:
            call()
        assert refusal.value.field == "privacy.delta"
    if delta == 0:
        assert "K-norm" in str(refusal.value)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_refuses_epsilon(epsilon: float) -> None:
    for call in (lambda: c.gdp_mu(epsilon, 1e-6), lambda: c.zcdp_rho(epsilon, 1e-6)):
        with pytest.raises(ConfigError) as refusal:
            call()
        assert refusal.value.field == "privacy.epsilon"


def test_refuses_impossible_losses() -> None:
    with pytest.raises(ConfigError):
        c.gdp_delta(-1.0, 1.0)
    with pytest.raises(ConfigError):
        c.zcdp_delta(math.nan, 1.0)
