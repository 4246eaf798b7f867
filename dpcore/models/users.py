"""What models say to a plan of users: which serve it, and what it takes."""

from __future__ import annotations

import math

from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import LossKind
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.pricing.terms import Terms


def events_of(terms: Terms, cap: int) -> int | None:
    """Events of a user in a key and tick, of which whole users are capped; None: the unit is an
    event.

    Raises:
      ConfigError: a cap on rows that has no room for one user.
    """
    if terms.person is None:
        return None
    events = terms.person.caps.events
    if cap < events:
        raise ConfigError(
            "model.cap",
            cap,
            f"is too small for one user's events (privacy.contributions.events: {events}); set "
            f"{events} or more.",
        )
    return events


def rows_of_user(pattern: Pattern, events: int, kind: LossKind) -> int:
    """Rows that a user-period counts for in batches of rows that are kept, all keys together.

    Formal guarantees:
      A user has at most n_i ticks of key i, and e n_i of its rows, sum n_i <= N, n_i <= r. A run
      meets each key's rows with noise of its own. Where losses add in squares (mu^2, rho), what all
      keys move adds up to at most e sqrt(max sum n_i^2) rows; the sum is convex, so largest with
      as many keys as possible at r and the rest in one more. Where they add straight: e N.
      Source: derived here.
    """
    if kind == "pure":
        return events * pattern.cells
    whole, rest = divmod(pattern.cells, pattern.key_ticks)
    square = events**2 * (whole * pattern.key_ticks**2 + rest**2)
    return math.isqrt(square - 1) + 1


def refuse_blind(mechanism: ContinualSum) -> None:
    """Raises ConfigError: a sum whose loss of a user does not hold for an adaptive stream.

    What a user adds depends on earlier releases, so that signs may be whatever costs most. Where
    C'C >= 0 elementwise, equal contributions are the worst on every path, adaptive or not (Denisov
    et al. 2022; Choquette-Choo et al. 2023); else |C'C| must have been charged. The sum as it was
    calibrated says which.
    """
    if not mechanism.adaptive:
        raise ConfigError(
            "mechanism.continual_sum",
            mechanism.name,
            "cannot carry the gradients of users: what a user adds follows earlier releases, and "
            "columns of its strategy point against each other uncharged; use blt.",
        )
