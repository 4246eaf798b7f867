"""Fits clocks that end to users of several contributions: on public numbers only.

``python -m tests.dpcore.continual.fit_ended`` prints the rows of users in the table "ended" of
``dpcore/continual/tables.json`` (ten seconds of a processor for each up to 1,000 ticks). A fit
minimises the worst error that a plan is charged, over the five coefficients of the gains and the
forms of running totals; searches from other places may find a percent less, and so did some rows.
``python -m tests.dpcore.continual.fit_ended 90 30 1`` prints the row of one case.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from tests.dpcore.continual.fit_tables import _listed
from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.continual import curves
from weir.dpcore.continual.columns import Products, between, contributions, knots_of, variances
from weir.dpcore.continual.rational import Rational
from weir.dpcore.continual.tables import ENDED, WINDOWS

Floats = NDArray[np.float64]
Case = tuple[int, int, int]
minimize: Any = optimize.minimize

CASES: tuple[Case, ...] = tuple(
    (row.ticks, row.contributions, row.spacing) for row in ENDED if row.contributions > 1
)
"""(ticks, contributions, fewest ticks from one to the next) of the table."""
FORMS = tuple(form for form in WINDOWS if len(form.poles) <= 5)
START = (0.9, -1.0, -0.3, 0.0, -0.1)
TRIED, TURNS = 2, 2
"""Forms that are fitted, those of least error at where the last turn ended; and turns."""
POWER = 60


def errors(form: Rational, gains: Sequence[float], case: Case) -> Floats:
    """Squared error of each tick per Delta / mu, as charged but for roundings: (n,)."""
    n, count, spacing = case
    pattern = Pattern(n, n, count, spacing, 1, count, None, count)
    knots, ticks = knots_of(n), np.arange(n)
    with np.errstate(all="ignore"):
        e = np.exp(curves.logs_of(gains, knots, n))
        products = Products(form, between(knots, tuple(e), ticks))
        scales = np.sqrt(curves.scale_squares(products, None, pattern)[list(knots)])
        r = between(knots, tuple(scales), ticks)
        charged = contributions(products, r, spacing * np.arange(1, count), spacing)[-1]
        of_ticks = variances.__wrapped__(form, n, knots, tuple(e), tuple(scales), None)
        found = np.asarray(charged * of_ticks)
    return found if np.isfinite(found).all() else np.full(n, 1e30)


def worst(form: Rational, gains: Sequence[float], case: Case) -> float:
    """Error of the worst tick."""
    return math.sqrt(errors(form, gains, case).max())


def gains_of(form: Rational, start: Sequence[float], case: Case) -> tuple[float, ...]:
    """Coefficients of the gains under a form, for a power mean of the errors of ticks."""

    def objective(gains: Floats) -> float:
        squares = errors(form, tuple(gains), case)
        most = squares.max()
        return float(np.log(most) + np.log(((squares / most) ** POWER).mean()) / POWER)

    quick: Any = {"maxiter": 25}
    found = minimize(objective, np.asarray(start), method="BFGS", options=quick).x
    return tuple(map(float, found))


def fit(case: Case) -> tuple[float, Rational, tuple[float, ...]]:
    """Worst error, form and coefficients of the gains, rounded."""
    known: dict[int, tuple[float, tuple[float, ...]]] = {}
    start: tuple[float, ...] = START
    for _ in range(TURNS):
        by_error = sorted(range(len(FORMS)), key=lambda i: worst(FORMS[i], start, case))
        new = [i for i in by_error[:TRIED] if i not in known]
        if not new:
            break
        for i in new:
            gains = gains_of(FORMS[i], start, case)
            known[i] = worst(FORMS[i], gains, case), gains
        start = min(known.values())[1]
    best = min(known, key=lambda i: known[i][0])
    form = FORMS[best]
    # The errors have edges where another tick is the worst: a simplex goes on along them.
    patient: Any = {"maxiter": 250, "xatol": 1e-3, "fatol": 1e-6, "adaptive": True}
    gains = minimize(
        lambda gains: math.log(worst(form, tuple(gains), case)),
        known[best][1],
        method="Nelder-Mead",
        options=patient,
    ).x
    rounded = tuple(round(float(value), 6) for value in gains)
    return worst(form, rounded, case), form, rounded


def row(case: Case) -> str:
    """The line of the table."""
    _, form, gains = fit(case)
    named = json.dumps(" ".join(map(str, case)))
    return f"    {named}: [\n      {json.dumps(gains)},\n      {json.dumps(_listed(form))}\n    ]"


def main() -> None:
    """Prints rows: of one case, or of all."""
    if len(sys.argv) > 1:
        n, count, spacing = map(int, sys.argv[1:])
        print(row((n, count, spacing)))
        return
    with ProcessPoolExecutor() as pool:
        print(",\n".join(pool.map(row, CASES)))


if __name__ == "__main__":
    main()
