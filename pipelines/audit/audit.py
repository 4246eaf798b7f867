"""One audit: trials through the pipeline, a distinguisher, and what it proves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.audit.distinguish import (
    ERROR,
    STRICT,
    Counts,
    best_cut,
    curve,
    epsilon_bound,
    epsilon_of_mu,
    learn,
    mu_bound,
    separation,
)
from weir.dpcore.plan import Plan

MOST_CURVE = 200
"""Points of a ROC."""


@dataclass(frozen=True)
class Claim:
    """What a plan promises of releases within some ticks.

    Attributes:
      epsilon, delta: of the expiration table. mu: of Gaussian differential privacy (sqrt(2 rho) of
        a loss in rho); None: the loss is pure.
    """

    epsilon: float
    delta: float
    mu: float | None

    @classmethod
    def of(cls, plan: Plan, span: int | None, epsilon: float, delta: float) -> Claim:
        """Of a row of the table."""
        loss = plan.program.loss(span)
        mu = {"gdp": loss.value, "zcdp": math.sqrt(2 * loss.value)}.get(loss.kind)
        return cls(epsilon, delta, None if plan.discovery is not None else mu)


@dataclass(frozen=True)
class Audit:
    """What was proven of one claim.

    Attributes:
      what: which releases, and within how many ticks. claim: of the plan. proven, proven_mu: 95 %
        lower bounds. trials: that judged. seconds: of the run and its judgement.
      change: what neighbours differed in. by: the distinguisher. broken: whether the claim is, at
        an error of 1e-6. curve: ROC. note: why it proves no more.
    """

    what: str
    claim: Claim
    proven: float
    proven_mu: float | None
    trials: int
    seconds: float
    change: str
    by: str
    broken: bool
    curve: tuple[Floats, Floats]
    ticks: int | None = None

    @property
    def tightness(self) -> float | None:
        """proven_mu / claimed_mu; None: the law is not Gaussian, or nothing is claimed."""
        mu = self.claim.mu
        if mu is None or self.proven_mu is None or not 0 < mu < math.inf:
            return None
        return self.proven_mu / mu

    def to_json(self) -> dict[str, Any]:
        """As ``weir audit --json`` prints it; null: infinite, or not defined."""
        return {
            "what": self.what,
            "claimed": _finite(self.claim.epsilon),
            "proven": _finite(self.proven),
            "claimed_mu": _finite(self.claim.mu),
            "proven_mu": _finite(self.proven_mu),
            "tightness": self.tightness,
            "delta": self.claim.delta,
            "trials": self.trials,
            "seconds": round(self.seconds, 3),
            "ticks": self.ticks,
            "neighbours": self.change,
            "distinguisher": self.by,
            "broken": self.broken,
        }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Proof:
    """What scores prove: 95 % lower bounds, and whether a claim is broken."""

    epsilon: float
    mu: float
    broken: bool
    trials: int
    curve: tuple[Floats, Floats]


def by_law(
    ones: Floats, others: Floats, mu: float, claim: Claim, linear: bool, tries: int = 1
) -> Proof:
    """Judges a statistic whose law is known; cuts follow from public numbers.

    Args:
      ones, others: scores in units in which their standard deviation is 1 by the law, with the
        change and without. mu: by which the law says that they are apart. linear: whether scores
        are exactly normal. tries: audits that the best of which is taken.
    """
    centre = float(np.median(others))
    n = min(ones.size, others.size)
    cut = best_cut(max(mu, 1e-3), claim.delta, n)
    strict = STRICT / tries
    exact = [Counts.of(ones, others, centre + at) for at in (cut, mu / 2)]
    size, low = separation(ones, others, ERROR / tries)
    if linear:
        found_mu = low
        epsilon = epsilon_of_mu(low, claim.delta)
        hard = separation(ones, others, strict)[1]
    else:
        found_mu = mu_bound(exact[1], ERROR / tries)
        epsilon = epsilon_bound(exact[0], claim.delta, ERROR / tries)
        hard = mu_bound(exact[1], strict)
    broken = claim.mu is not None and hard > claim.mu * (1 + 1e-9)
    broken |= any(epsilon_bound(one, claim.delta, strict / 2) > claim.epsilon for one in exact)
    return Proof(epsilon, found_mu, broken, ones.size + others.size, curve(ones, others))


def by_learning(ones: Floats, others: Floats, claim: Claim, tries: int = 1) -> tuple[Proof, str]:
    """Learns on one half of the trials (n, features) and judges on the other.

    Cuts are chosen on the half that learned. A mu that is found so bounds that of a mechanism which
    claims one; its epsilon is what counts alone prove.
    """
    learned = learn(ones[::2], others[::2])
    train = learned.scores(ones[::2]), learned.scores(others[::2])
    test = learned.scores(ones[1::2]), learned.scores(others[1::2])
    cuts = np.unique(np.quantile(np.concatenate(train), np.linspace(0.002, 0.998, 200)))
    tried = [Counts.of(*train, float(cut)) for cut in cuts]
    by_epsilon = int(np.argmax([epsilon_bound(one, claim.delta) for one in tried]))
    by_mu = int(np.argmax([mu_bound(one) for one in tried]))
    strict = STRICT / tries
    # What is hardest to doubt lies further inside than what is most.
    hardest = int(np.argmax([epsilon_bound(one, claim.delta, strict) for one in tried]))
    places = (by_epsilon, by_mu, hardest)
    first, second, third = (Counts.of(*test, float(cuts[at])) for at in places)
    broken = epsilon_bound(third, claim.delta, strict) > claim.epsilon
    if claim.mu is not None:
        broken |= mu_bound(second, strict) > claim.mu * (1 + 1e-9)
    proof = Proof(
        epsilon_bound(first, claim.delta, ERROR / tries),
        mu_bound(second, ERROR / tries),
        broken,
        test[0].size + test[1].size,
        curve(*test),
    )
    return proof, f"learned: {learned.name}"


def scored(transcripts: Floats, weights: Floats, mu: float) -> Floats:
    """(trials, slots, T, m) and (slots, T, m) -> (trials,) in standard deviations of the law."""
    found: NDArray[np.float64] = np.zeros(len(transcripts))
    for slot in range(weights.shape[0]):
        for tick in np.flatnonzero(weights[slot].any(axis=1)):
            values = np.nan_to_num(transcripts[:, slot, tick])
            found += (values * weights[slot, tick]).sum(axis=1)
    return found / max(mu, 1e-12)
