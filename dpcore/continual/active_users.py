"""Distinct users of the last N ticks (weekly or monthly active users), with correlated noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from weir.dpcore.accounting.contributions import Pattern, shared
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.continual.blt import BufferedSum, BufferState, best_form, with_buffers
from weir.dpcore.continual.rational import Rational, exponentials, series_at
from weir.dpcore.continual.tables import SLIDING, WINDOWS
from weir.dpcore.continual.unit import SumRequest, chained, loss_of_units
from weir.dpcore.leaves.lattice import add_wide, running_sums, wide_modulo
from weir.dpcore.neighbours import Family
from weir.dpcore.noise import replay
from weir.dpcore.noise.noise import Noise

MARGIN = 2.0**-36
"""Of a number of units: far more than its rounding errors."""


class ActiveUsersState(NamedTuple):
    """State of the active users of K keys.

    Attributes:
      total: (K, 1, 2) int64, exact number of active users in two limbs.
      ahead: (K, N) int64, by how much it changes at each of the next N ticks if nobody comes.
      chain: (K, 2) uint64, XOR of the keyed digests of all changes so far.
      own: the buffers.
    """

    total: Ints
    ahead: Ints
    chain: Digests
    own: BufferState


@dataclass(frozen=True)
class ActiveUsers(BufferedSum):
    """Users with a counted cell in the last N ticks, each once; the guarantee is permanent.

    Release sum_u x_u(t) + z_t, where x_u(t) is 1 if user u has a counted cell of the key in the
    ticks t - N + 1 .. t and else 0, and z = B xi as in ``Blt``. A leaf says how many users came
    after how many ticks (``step``), which is all that the next N values of x depend on.

    **Formal guarantees**
      Unit: one user in a period of S ticks, with a counted cell of a key in m ticks at most, g
        apart or more. Relation: the user's cells of the period are there or not. ``sensitivity`` is
        1 (in units of ``scales``); 2 where they are replaced by any others.
      Sensitivity: of a key, x with and without the period differ by 0 or 1, in the ticks that the
        period's counted cells cover less a prefix (active already) and a suffix (active again
        later). In changes f of x, C f = B^-1 x, whose coefficients are h_0 = 1 and h_k = c_k -
        c_{k-1} <= 0, c as in ``Blt``. The autocorrelation of h at d >= 1 is h_d + sum h_k h_{k+d}
        <= h_d + |h_d| sum |h_k| <= 0, as c is convex and falls. So products between separate runs
        of x only lower || h * x ||^2, which is at most the sum of w(L) over runs of length L, with
        w(d) = sum_k (c_k - c_{k-d})^2. w is concave: equal lengths are worst. R runs have R m
        counted ticks or fewer that cover N each, lie in S + N - R ticks together, and start N + 1
        apart. So a key moves at most

          F(m) = max over R <= min(m', 1 + (S - 1) // max(N + 1, g)) of
                 (R - rem) w(quo) + rem w(quo + 1),   quo, rem = divmod(T, R),
                 T = min(m' N, S + N - R),   m' = min(m, 1 + (S - 1) // g).

        Keys have rows of their own: of several keys the largest sum of F over the ways to share the
        user's cells among them (``shared``). k F(m) would be too little, as products are negative:
        many keys at few ticks each move more than few keys at many.
      Guarantee: mu-GDP, adaptively, against everything ever released: mu = (Delta / sigma)
        sqrt(units). It holds on every path on which caps do, as rows are bounded whatever they are
        (Smith, Thakurta 2022). n periods, near or far, cost sqrt(n) mu: runs that meet are one run,
        and w(a + b) <= w(a) + w(b).
      Error: at tick t (from 0) sigma^2 (b_0^2 + ... + b_t^2), bounded for all t.
      Real-valued noise: releases are rounded to the lattice, which is post-processing, but noise in
        floating point is not exactly Gaussian.
      Source: the matrix mechanism of Li, Miklau, Hay, McGregor, Rastogi (2015) with the form of
        ``Blt``; the sensitivity is derived in this project.

    Attributes:
      known_keys: keys that there are; None: any number.
    """

    known_keys: int | None = None

    name: ClassVar[str] = "active_users"
    signed: ClassVar[bool] = True
    neighbours: ClassVar[Family] = Family(
        ("first", "last"), "corners", "columns are alike, and a user moves a count by one"
    )
    patterned: ClassVar[bool] = True
    any_signs: ClassVar[bool] = True
    title: ClassVar[str] = "Correlated noise for distinct users of the last N ticks"
    source: ClassVar[str] = "Li, Miklau, Hay, McGregor, Rastogi (2015); derived in this project"
    settings: ClassVar[dict[str, str]] = {
        **BufferedSum.settings,
        "known_keys": "keys that there are",
    }

    @classmethod
    def serves(cls, overs: Sequence[int | None]) -> bool:
        """One number of ticks."""
        return len(overs) == 1 and overs[0] is not None and overs[0] >= 1

    @classmethod
    def fitted(cls, request: SumRequest) -> ActiveUsers:
        """The least noise whose loss, for ever, is at most the budget, whatever the window.

        Raises:
          ConfigError: it cannot serve this.
        """
        over, pattern, horizon = request.overs[0], request.pattern, request.horizon
        assert over is not None and pattern is not None
        keys = request.options.get("known_keys")
        form = chosen(over, horizon, pattern, keys, request.options.get("buffers"))
        built = cls.of(request, user_units(form, over, pattern, keys), form, horizon)
        return replace(built, known_keys=keys)

    @property
    def over(self) -> int:
        """N."""
        return self.overs[0] or 0

    @property
    def depth(self) -> int:
        """Ticks ahead that are kept."""
        return self.over

    def _loss_of(self, periods: int) -> PrivacyLoss:
        assert self.pattern is not None
        units = periods * user_units(self.form, self.over, self.pattern, self.known_keys)
        return loss_of_units("gaussian", units, self.sensitivity, self.noise_scale)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """The same whenever one looks, once anything was released."""
        return self._loss_of(0 if self.rows(ticks) == 0 else 1)

    def loss_of_periods(self, periods: int, ticks: int | None, among: int) -> PrivacyLoss:
        """Squares add up, wherever the periods lie."""
        return self._loss_of(periods)

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """b_0^2 + ... + b_t^2: (m,)."""
        return self.form.noise_squares_at(np.asarray(ticks) + 1)

    def summed(self, leaves: Ints) -> Ints:
        """Changes of the number of active users: (n, M) -> (n, 1)."""
        nobody = np.zeros((1, self.over), dtype=np.int64)
        return changes_of(nobody, leaves[:, None, :])[0][:, 0]

    def response(self, n: int) -> Floats:
        """(n, n): clean numbers = this matrix times n changes. For audits and tests."""
        return np.tril(np.ones((n, n)))

    def init(self, n_keys: int) -> ActiveUsersState:  # type: ignore[override]
        """State of n_keys keys before the first tick."""
        return ActiveUsersState(
            total=np.zeros((n_keys, 1, 2), dtype=np.int64),
            ahead=np.zeros((n_keys, self.depth), dtype=np.int64),
            chain=np.zeros((n_keys, 2), dtype=np.uint64),
            own=self.buffers(n_keys),
        )

    def step(  # type: ignore[override]
        self, state: ActiveUsersState, leaves: Ints, noise: Noise
    ) -> tuple[ActiveUsersState, tuple[Floats, ...]]:
        """Steps a stride.

        Args:
          leaves: (n, K, M) int64 with M >= N: of the users of a tick, how many had their last tick
            before it 1, 2, ..., M - 1 ticks ago; the last: longer ago or never.

        Returns:
          New state, and (n, K, 1) float64 lattice values, once.
        """
        changes, ahead = changes_of(state.ahead, leaves)
        digests = noise.leaf_digests(changes)
        chain = chained(state.chain, digests)
        own, drawn = self.draw(state.own, chain, digests, noise)
        if replay.is_on():
            clean = wide_modulo(add_wide(state.total, changes))
            drawn = replay.shifted(self, changes, clean, drawn, noise.first_tick)
        sums = running_sums(state.total, changes, drawn, noisy=False, shown=True)
        new = ActiveUsersState(total=sums.total, ahead=ahead, chain=chain[-1].copy(), own=own)
        return new, (sums.shown,)


def changes_of(ahead: Ints, leaves: Ints) -> tuple[Ints, Ints]:
    """By how much the number of active users changes.

    A user who comes at tick s, d ticks after the last time (N where that is longer ago), stays to
    tick s + N - 1 in place of s + N - 1 - d: one more at tick s + N - d, one less at s + N.

    Args:
      ahead: (K, N) of the next N ticks, as known so far. leaves: (n, K, M), see
        ``ActiveUsers.step``.

    Returns:
      (n, K, 1) int64 at each tick, and ``ahead`` after them.
    """
    n, (n_keys, over) = len(leaves), ahead.shape
    line = np.zeros((n_keys, n + over), dtype=np.int64)
    line[:, :over] = ahead
    for tick, leaf in enumerate(leaves):
        line[:, tick] += leaf[:, over - 1 :].sum(axis=1)
        line[:, tick + 1 : tick + over] += leaf[:, : over - 1][:, ::-1]
        line[:, tick + over] -= leaf.sum(axis=1)
    return line[:, :n].T[:, :, None].copy(), line[:, n:].copy()


@lru_cache(maxsize=4096)
def key_units(form: Rational, over: int, count: int, span: int | None, spacing: int) -> float:
    """F(m): units of noise that a user's counted ticks of a period move in one key.

    Args:
      over: N. count: m. span: S; None: a period without end. spacing: g.
    """
    runs = m = count if span is None else min(count, 1 + (span - 1) // spacing)
    if span is not None:
        runs = min(m, 1 + (span - 1) // max(over + 1, spacing))
    r = np.arange(1, runs + 1, dtype=np.int64)
    covered = np.full(runs, m * over, dtype=np.int64)
    if span is not None:
        covered = np.minimum(covered, span + over - r)
    quotient, rest = np.divmod(covered, r)
    units = (r - rest) * run_units(form, quotient) + rest * run_units(form, quotient + 1)
    return float(units.max()) * (1 + MARGIN)


def run_units(form: Rational, lengths: Ints) -> Floats:
    """w(d) = sum over all k of (c_k - c_{k-d})^2, what a run of d active ticks moves: (n,)."""
    weights, logs = exponentials(form)
    d = np.asarray(lengths, dtype=np.float64)
    out = np.zeros(d.shape)
    for weight, log in zip(weights, logs, strict=True):
        for other, slope in zip(weights, logs, strict=True):
            out += weight * other * series_at(log + slope, d)
    for weight, log in zip(weights[1:], logs[1:], strict=True):
        for other, slope in zip(weights[1:], logs[1:], strict=True):
            both = np.expm1(d * log) * np.expm1(d * slope)
            out += weight * other * both / -np.expm1(log + slope)
    return out


@lru_cache(maxsize=4096)
def user_units(form: Rational, over: int, pattern: Pattern, known_keys: int | None) -> float:
    """Units of noise that all that a user adds in a period moves, over all keys."""

    def of_key(count: int) -> float:
        return key_units(form, over, count, pattern.span, pattern.spacing)

    most = keys_of(pattern, known_keys)
    if most == 1:
        return of_key(min(pattern.key_ticks, pattern.cells))
    return shared(of_key, pattern.key_ticks, pattern.cells, most) * (1 + MARGIN)


def keys_of(pattern: Pattern, known_keys: int | None) -> int | None:
    """Most keys that a user has in a period; None: any number."""
    both = [keys for keys in (pattern.period_keys, known_keys) if keys is not None]
    return min(both, default=None)


@lru_cache(maxsize=1024)
def chosen(
    over: int,
    horizon: int | None,
    pattern: Pattern,
    known_keys: int | None = None,
    buffers: int | None = None,
) -> Rational:
    """The form of least worst-tick error for a user who spreads over as many keys as there may
    be."""
    forms = with_buffers(ActiveUsers.name, (Rational((), ()), *SLIDING, *WINDOWS), buffers)
    keys = keys_of(pattern, known_keys) or pattern.cells
    count = min(pattern.key_ticks, -(-pattern.cells // keys))

    def moved(form: Rational) -> Decimal:
        # Of so few digits that every machine has the same.
        return Decimal(f"{key_units(form, over, count, pattern.span, pattern.spacing):.9g}")

    return best_form(forms, moved, horizon)
