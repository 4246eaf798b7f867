"""Sensitivity of an event that counts in several keys at once: one of each grouping.

**Formal guarantees.** An event adds the same bounded vector to one cell (key, tick) of each of G
groupings. Which cells these are follows from that event alone, and every key has noise of its own.
Let Delta bound what one neighbour moves in the keys of *one* grouping, in units of the noise (the
scope of ``joint_sensitivity``: one cell, or two of the same or of different keys and ticks under
``replace_anywhere``).

- Gaussian and discrete Gaussian noise: keys of different groupings are different coordinates of one
  joint release, so squares add up: at most G Delta^2 in all. Attained: under ``add_remove`` and
  ``replace_one`` the event has one cell in each grouping and moves it by the same vector, so that
  equality holds wherever Delta is attained. mu is sqrt(G) times, rho G times that of one grouping.
- Noise of the K-norm (delta = 0): losses of different keys add up, G times epsilon. The factor on
  the sensitivity is G.

Releases of different groupings compose adaptively, as those of one event's keys and ticks do: this
is one Gaussian release of all of them, of which every coordinate is drawn in its turn. Under a
window W the loss is that of one grouping at W with this sensitivity, as all cells of the event have
one tick. Everything is rounded up.

Source: Dong, Roth, Su (2022), Theorem 2.7 and Corollary 3.3 (composition); Bun, Steinke (2016).
"""

from __future__ import annotations

import math

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss


def over_groupings(sensitivity: float, count: int, kind: LossKind) -> float:
    """What an event moves in the keys of ``count`` groupings, of what it moves in those of one.

    kind: of the budget; it says how keys add up.
    """
    if count == 1:
        return sensitivity
    if kind == "pure":
        return sensitivity * count
    root = math.isqrt(count)
    if root * root == count:
        return sensitivity * root
    return sensitivity * (math.sqrt(count) * (1 + 2.0**-50))


def of_one(loss: PrivacyLoss, count: int) -> PrivacyLoss:
    """Loss against the keys of one of ``count`` groupings, of the loss against all of them."""
    if count == 1:
        return loss
    share = math.sqrt(count) if loss.kind == "gdp" else count
    return PrivacyLoss(loss.kind, loss.value / share * (1 + 2.0**-40))
