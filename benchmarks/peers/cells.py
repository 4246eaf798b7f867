"""Jobs, data, seeds and errors of the comparison with other libraries.

It needs numpy alone: workers of other libraries import it in an environment of their own.

Every job is at (1, 1e-6), ``add_remove``, and each draw has fresh noise and fresh choices of what
bounds keep. Data are synthetic and the same for all draws. An error is that of the release off the
truth, which no bound has touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

EPSILON, DELTA, DRAWS, SEED = 1.0, 1e-6, 30, 20251126
DAYS, WEEK, SHOPS, FEW = 90, 7, 4, 4
AMOUNT, BINS = 100.0, 10
L0_DAILY, L0_FEW, L0_RARE, LINF = 40, 4, 10, 5


class Cell(NamedTuple):
    """A job: ``events`` of ``people`` in ``keys``. shape: of the gamma law of how active they are;
    skew: of the power law of keys. unit: what is protected. peers: who serve it. unable: why the
    others do not: diffprivlib protects rows."""

    what: str
    events: int
    people: int
    keys: int
    unit: str
    error: str
    peers: tuple[str, ...]
    unable: str = ""
    shape: float = 1.2
    skew: float = 0.9


ROWS_ALONE = "diffprivlib protects a row, not a user"

CELLS: Mapping[str, Cell] = {
    "daily": Cell(
        "users a day and key, 40 of the pairs of key and day a user", 200_000, 9_400, SHOPS,
        "user", "root mean square, in users", ("pipeline_dp", "opendp"), ROWS_ALONE, skew=0.95,
    ),
    "unknown": Cell(
        "users a key, keys unknown, 10 keys a user", 30_000, 3_000, 2_000, "user",
        "keys not found, of those with 30 users", ("pipeline_dp", "opendp"),
        ROWS_ALONE + ", and takes keys from the user", skew=1.0,
    ),
    "sum_mean": Cell(
        "sum and mean a key, 4 keys and 5 events a user", 30_000, 3_000, FEW, "user",
        "root mean square of the mean, in its unit", ("pipeline_dp", "opendp"), ROWS_ALONE,
    ),
    "quantiles": Cell(
        "median and 95 % quantile, 5 events a user", 30_000, 3_000, 1, "user",
        "mean absolute, in the unit", ("pipeline_dp", "opendp"), ROWS_ALONE,
    ),
    "total": Cell(
        "one total of rows", 30_000, 3_000, 1, "row", "root mean square, in rows",
        ("pipeline_dp", "opendp", "diffprivlib"),
    ),
    "histogram": Cell(
        "10 bins of rows", 30_000, 3_000, 1, "row", "root mean square, in rows",
        ("pipeline_dp", "opendp", "diffprivlib"),
    ),
    "weekly": Cell(
        "users of the last 7 days, every day of 90, no key", 30_000, 3_000, 1, "user",
        "root mean square, in users", ("pipeline_dp", "opendp"), ROWS_ALONE,
    ),
}  # fmt: skip


class Data(NamedTuple):
    """Columns of events, (n,) each: numbers of users, keys and days, and amounts in [0, 100]."""

    user: Any
    key: Any
    day: Any
    amount: Any


def data_of(name: str) -> Data:
    """The events of a job."""
    cell = CELLS[name]
    rng = np.random.default_rng([SEED, list(CELLS).index(name)])
    rate = rng.gamma(cell.shape, 1.0, cell.people)
    user = rng.choice(cell.people, cell.events, p=rate / rate.sum())
    weight = 1.0 / np.arange(1, cell.keys + 1) ** cell.skew
    key = rng.choice(cell.keys, cell.events, p=weight / weight.sum())
    day = rng.integers(0, DAYS, cell.events)
    amount = np.clip(rng.gamma(2.0, 15.0, cell.events), 0, AMOUNT).round(2)
    return Data(user, key, day, amount)


def error_of(name: str, data: Data, released: Any) -> float:
    """Error of a release.

    Args:
      released: daily: (DAYS, keys). unknown: names of keys. sum_mean: (keys,) means. quantiles:
        (2,). total: a number. histogram: (BINS,). weekly: (DAYS,).
    """
    n_keys = CELLS[name].keys
    if name == "unknown":
        pairs = np.unique(data.user * n_keys + data.key)
        large = np.flatnonzero(np.bincount(pairs % n_keys, minlength=n_keys) >= 30)
        return float(len(large) - np.isin(large, np.asarray(released, dtype=int)).sum())
    if name == "quantiles":
        return float(np.abs(np.quantile(data.amount, (0.5, 0.95)) - released).mean())
    return float(np.sqrt(np.mean((np.asarray(released, dtype=float) - truth(name, data)) ** 2)))


def truth(name: str, data: Data) -> Any:
    """What a release without privacy says."""
    n_keys = CELLS[name].keys
    if name == "daily":
        cells = np.unique((data.user * DAYS + data.day) * n_keys + data.key)
        return np.bincount(cells % (DAYS * n_keys), minlength=DAYS * n_keys).reshape(DAYS, n_keys)
    if name == "sum_mean":
        return np.bincount(data.key, data.amount) / np.bincount(data.key)
    if name == "total":
        return float(len(data.user))
    if name == "histogram":
        return np.histogram(data.amount, BINS, (0, AMOUNT))[0]
    seen = np.zeros((DAYS, CELLS[name].people), dtype=bool)
    seen[data.day, data.user] = True
    return np.array(
        [seen[max(0, day - WEEK + 1) : day + 1].any(axis=0).sum() for day in range(DAYS)]
    )
