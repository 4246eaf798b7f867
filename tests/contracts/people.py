"""Plans of users for tests: terms, and what a user's cells add to their sums."""

from __future__ import annotations

from typing import Any

from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.pricing.terms import Terms

CAPS: dict[str, Any] = {"ticks": 4, "keys": 2, "events": 3}


def config_of(
    rest: dict[str, Any], caps: dict[str, Any] | None = None, **privacy: Any
) -> PlanConfig:
    """A config over two keys and 24 days, in periods of 8."""
    promised = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "protect_for": "8d",
        "unit": "user",
        "per": "8d",
        "contributions": CAPS if caps is None else caps,
        **privacy,
    }
    return PlanConfig.from_dict(
        {
            "name": "people",
            "schema": {"time": "at", "unit": "user", "id": "id"},
            "key": {"column": "page", "declared": ["home", "help"]},
            "clock": {
                "start": "2025-01-01T00:00:00Z",
                "period": "1d",
                "end": "2025-01-25T00:00:00Z",
            },
            "privacy": promised,
            **rest,
        }
    )


def terms_of(caps: dict[str, Any] | None = None, **privacy: Any) -> Terms:
    """The terms of such a plan."""
    rest = {"aggregates": {"n": {"count": "events"}}}
    return config_of(rest, caps, **privacy).terms()
