"""Why a plan takes the noise that it takes, and what that costs later."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.scope import gdp_of_pure
from weir.dpcore.noise.noise import is_pure
from weir.dpcore.pricing.alternatives import SPLIT
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.noises import noises_of_sums
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.registry import CONTINUAL_SUMS
from weir.dpcore.words import number

SUMS = (*CONTINUAL_SUMS, SPLIT)
NAMES = {"gdp": "mu", "zcdp": "rho", "pure": "epsilon"}


def mu_of(loss: PrivacyLoss) -> float | None:
    """What it counts as in Gaussian DP, where losses of later periods and plans add up in squares;
    None: there is no such bound, as of zCDP."""
    if loss.kind == "pure":
        return gdp_of_pure(loss.value)
    return loss.value if loss.kind == "gdp" else None


def loss_json(loss: PrivacyLoss | None) -> dict[str, Any] | None:
    """Plain values; None where it has no end."""
    if loss is None or math.isinf(loss.value):
        return None
    return {"kind": loss.kind, "value": loss.value, "mu": mu_of(loss)}


def loss_words(loss: dict[str, Any] | None) -> str:
    """``mu 0.237``, ``rho 0.024``, ``epsilon 1 (mu 1.23)``; of ``loss_json``."""
    if loss is None:
        return "unbounded"
    shown = f"{NAMES[loss['kind']]} {number(loss['value'], 3)}"
    return f"{shown} (mu {number(loss['mu'], 3)})" if loss["kind"] == "pure" else shown


UNPRICED = (
    "Pure noise is not priced: its losses add up to more in a ledger. mechanism.pure: true prices "
    "it."
)


def reason(alternatives: Sequence[Alternative], terms: Terms) -> str:
    """Why the chosen mechanism and its noise were taken; "" where the config says so."""
    chosen = next((item for item in alternatives if item.chosen), None)
    caveat = (
        CONTINUAL_SUMS[chosen.mechanism].caveat
        if chosen is not None and chosen.mechanism in CONTINUAL_SUMS and not terms.declared
        else ""
    )
    noise = _noise_reason(alternatives, terms)
    return f"{WHOLE.format(name=chosen.mechanism)} {noise}".strip() if chosen and caveat else noise


WHOLE = (
    "Why {name}: its noise is less for every output, at the worst tick and on average. Its "
    "guarantee does not fade by degrees: all of the loss of a record may fall on the ticks right "
    "after it. Set mechanism.continual_sum to take another."
)


def _noise_reason(alternatives: Sequence[Alternative], terms: Terms) -> str:
    """Why the chosen noise was preferred to the best pure noise, or to the best that is not pure;
    "" where only one of both was priced, as the config says."""
    chosen = next((item for item in alternatives if item.chosen), None)
    if chosen is None:
        return ""
    of_sums = len({item.mechanism for item in alternatives}) > 1 and chosen.mechanism in SUMS
    if of_sums and noises_of_sums(terms) != noises_of_sums(replace(terms, pure=True)):
        return UNPRICED
    pure = is_pure(chosen.noise)
    others = [
        item
        for item in alternatives
        if is_pure(item.noise) != pure and math.isfinite(item.score) and not item.note
    ]
    if not others:
        return ""
    best = min(others, key=lambda item: item.score)
    ratio = best.score / chosen.score if chosen.score else math.inf
    cost, other = (loss_words(loss_json(item.loss)) for item in (chosen, best))
    name, else_name = (item.noise.replace("_", " ") for item in (chosen, best))
    later = "later plans and ledgers" if terms.clock.once else "later periods, plans and ledgers"
    if pure:
        return (
            f"Why {name} noise: {else_name} noise ({best.mechanism}) has {ratio:.2f} times the "
            f"error. It costs {later} more: {cost}, where {else_name} "
            f"noise costs {other}. Set mechanism.noise: {best.noise} to spend less there."
        )
    error = f"{ratio:.2f} times the error" if ratio >= 1 else f"{1 - ratio:.1%} less error"
    return (
        f"Why {name} noise: {else_name} noise ({best.mechanism}) has {error}, and would cost "
        f"{later} {other} in place of {cost}."
    )
