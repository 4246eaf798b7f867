"""BLT noise: running totals whose noise costs a few vectors of state, the default mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.pattern import Pattern
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.continual.blt_table import PERPETUAL, WINDOWS
from weir.dpcore.continual.buffers import (
    BufferedSum,
    best_form,
    check_room,
    record_units,
    with_buffers,
)
from weir.dpcore.continual.rational import Rational
from weir.dpcore.continual.repeated import repeated_squares, user_units, user_units_of_periods
from weir.dpcore.continual.unit import (
    loss_of_units,
    noise_for,
    noise_scale_for,
    refuse_options,
    refuse_overs,
)
from weir.dpcore.neighbours import Family

FOREVER = 2**40
"""Ticks that a promise without end is calibrated for: 34,865 years of seconds."""


@dataclass(frozen=True)
class Blt(BufferedSum):
    """Running totals with correlated noise from a few decaying buffers; expiration is graded.

    Release s_t = v_1 + ... + v_t + z_t with z = B xi, xi_t independent Gaussians of scale sigma,
    and B lower-triangular Toeplitz with b_0 = 1, b_k = sum_j omega_j theta_j^(k-1).

    **Formal guarantees**
      Unit: one event. Relation: that under which ``sensitivity`` was derived.
      Sensitivity: Delta = ``sensitivity``, the l2 norm of what one neighbour changes in
        (leaf / scales), at one tick. The coefficients c of C = B^-1 M, M the running sum, are
        positive and non-increasing for ever, because poles and zeros interlace.
      Guarantee: mu-GDP, adaptively and exactly: against everything released within n ticks of its
        arrival, mu_n = (Delta / sigma) sqrt(c_0^2 + ... + c_{n-1}^2). For releases up to tick
        i + n - 1 are a function of the first i + n - 1 rows of (C v + xi), and a record at tick i
        moves rows i .. i + n - 1 of C v by c_0 .. c_{n-1} times its change. mu_n grows slowly after
        the window that it was calibrated for, and has no limit: without an end of the clock nothing
        is promised for ever. Nothing is released after ``horizon``, so mu_n = mu_horizon beyond it.
        A user (``pattern``): mu^2 = (Delta / sigma)^2 times ``over_keys`` of F(j), what j
        contributions of a key move within the rows from the start of the period to the end of the
        window after it; columns have no negative inner products, so it holds adaptively as long as
        caps do on every path (Choquette-Choo et al. 2023; Smith, Thakurta 2022).
      Without window and without end: calibrated for 2^40 ticks, which is then the horizon.
      Error: at tick t (from 0) sigma^2 (b_0^2 + ... + b_t^2), bounded for all t.
      Real-valued noise: releases are rounded to the lattice, which is post-processing, but noise in
        floating point is not exactly Gaussian.
      Source: matrix mechanisms for running sums under adaptive input: Denisov, McMahan, Rush,
        Smith, Thakurta (2022); buffered linear Toeplitz noise: Dvijotham, McMahan, Pillutla,
        Steinke, Thakurta (2024). The loss within n ticks is derived in this project.
    """

    name: ClassVar[str] = "blt"
    signed: ClassVar[bool] = False
    neighbours: ClassVar[Family] = Family(
        ("first", "last", "window"), "corners", "columns are alike but for how many rows follow"
    )
    patterned: ClassVar[bool] = True
    title: ClassVar[str] = "Correlated noise from a few decaying buffers"
    source: ClassVar[str] = "Dvijotham, McMahan, Pillutla, Steinke, Thakurta (2024)"

    @classmethod
    def serves(cls, overs: Sequence[int | None]) -> bool:
        """Running totals serve any ``over``: sums over N ticks are differences of two of them."""
        return len(overs) > 0 and all(over is None or over >= 1 for over in overs)

    @classmethod
    def calibrated(
        cls,
        *,
        dimension: int,
        scales: tuple[float, ...],
        sensitivity: float,
        overs: tuple[int | None, ...],
        window: int | None,
        horizon: int | None,
        budget: PrivacyLoss,
        pattern: Pattern | None = None,
        buffers: int | None = None,
        **options: Any,
    ) -> Blt:
        """The least noise whose loss(window) is at most the budget.

        Args:
          dimension, scales, sensitivity, overs: as in ``ContinualSum``.
          window: protection window in ticks; None: for ever.
          horizon: ticks of the clock; None: no end.
          budget: mu of Gaussian DP.
          pattern: of a user's contributions; the window then begins with their period's last tick.
          buffers: take no more vectors of state than this.
          options: none.

        Raises:
          ConfigError: it cannot serve this.
        """
        refuse_options(cls.name, options)
        refuse_overs(cls.name, overs, cls.serves(overs))
        noise_for(cls.name, cls.kinds, budget)
        form, count, end = chosen(window, horizon, buffers, pattern)
        scale = noise_scale_for(units_of(form, count, pattern), sensitivity, budget)
        made = cls(dimension, scales, sensitivity, scale, overs, form, end, pattern=pattern)
        check_room(cls.name, scale, scales, float(form.noise_squares(end)))
        return made

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """mu against everything released within ``ticks`` of arrival (None: for ever)."""
        units = units_of(self.form, self.rows(ticks), self.pattern)
        return loss_of_units("gaussian", units, self.sensitivity, self.noise_scale)

    def loss_of_periods(self, periods: int, ticks: int | None, among: int) -> PrivacyLoss:
        """The smaller of the sum over periods and what the distances between them allow."""
        assert self.pattern is not None
        rows = self.rows(ticks, among)
        units = user_units_of_periods(self.form, periods, rows, self.pattern)
        near = loss_of_units("gaussian", units, self.sensitivity, self.noise_scale)
        return min(near, super().loss_of_periods(periods, ticks, among), key=lambda x: x.value)

    def factor(self, ticks: Ints, over: int | None) -> Floats:
        """sum_{k <= t} (b_k - b_{k - over})^2: (m,)."""
        return self.form.noise_squares_at(np.asarray(ticks) + 1, over)


def units_of(form: Rational, rows: int | None, pattern: Pattern | None) -> float:
    """Units of noise that a record, or a user's contributions of a period, move within so many
    rows."""
    if pattern is not None:
        return user_units(form, rows, pattern)
    return 0.0 if rows is not None and rows <= 0 else record_units(form, rows, None)


@lru_cache(maxsize=1024)
def chosen(
    window: int | None,
    horizon: int | None,
    buffers: int | None = None,
    pattern: Pattern | None = None,
) -> tuple[Rational, int, int | None]:
    """The form of least worst-tick error.

    Returns:
      The form; the number of rows to calibrate for; the horizon.
    """
    rows = window if pattern is None else pattern.rows(window)
    if rows is None and horizon is None:
        perpetual = with_buffers(Blt.name, (PERPETUAL,), buffers)
        if perpetual:
            return perpetual[0], FOREVER, FOREVER
        horizon = FOREVER
    count = min(end for end in (rows, horizon) if end is not None)
    forms = with_buffers(Blt.name, (Rational((), ()), *WINDOWS, PERPETUAL), buffers)

    def moved(form: Rational) -> Decimal:
        if pattern is None:
            return form.record_squares(count)
        return repeated_squares(form, pattern.key_ticks, pattern.spacing, count)

    return best_form(forms, moved, horizon), count, horizon
