"""The picture of the second example: what privacy costs the forecast, over time and by carrier."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from examples.flights.data import CARRIERS, START, Flights
from examples.flights.truth import CENTRE, EXACT, MADE_UP, PRIVATE
from weir.pipelines import vega
from weir.pipelines.report.picture import theme

Floats = NDArray[np.float64]

LOOK = {
    CENTRE: ("#8590a3", "as late as it left: the public guess"),
    MADE_UP: ("#0d7f6c", "as it left, less what last week's flights synthetic (not private)"),
    PRIVATE: ("#0b68b4", "private: epsilon = {}"),
    EXACT: ("#c2410c", "the same learner without noise (not private)"),
}
WINDOW = 28 * 24
FEW = 24


def draw(forecasts: Mapping[str, Floats], flights: Flights, epsilon: float, path: Path) -> Path:
    """Left: mean absolute error over the last four weeks. Right: over the year, by carrier."""
    order = np.argsort(flights.left, kind="stable")
    hours = np.arange(WINDOW, int(flights.left.max()) + 1, FEW)
    upto = np.searchsorted(flights.left[order], hours)
    since = np.searchsorted(flights.left[order], hours - WINDOW)
    count = np.bincount(flights.carrier, minlength=len(CARRIERS))
    ranked = np.argsort(-count).tolist()
    at = (START.astype("datetime64[ms]") + hours.astype("timedelta64[h]")).astype(int).tolist()
    labels = {name: label.format(f"{epsilon:g}") for name, (_, label) in LOOK.items()}
    rows, carriers = [], []
    for name, label in labels.items():
        off = np.abs(forecasts[name] - flights.target)
        total = np.concatenate([[0.0], off[order].cumsum()])
        rolling = (total[upto] - total[since]) / np.maximum(upto - since, 1)
        rows += [{"t": t, "e": e, "who": label} for t, e in zip(at, rolling.tolist(), strict=True)]
        mean = np.bincount(flights.carrier, off, len(CARRIERS)) / np.maximum(count, 1)
        carriers += [
            {"by": f"{CARRIERS[i]} {short(int(count[i]))}", "e": float(mean[i]), "who": label}
            for i in ranked
        ]
    scale = alt.Scale(domain=list(labels.values()), range=[colour for colour, _ in LOOK.values()])
    who = alt.Color("who:N", scale=scale, legend=_legend())
    bold = alt.datum.who == labels[PRIVATE]
    over = alt.Chart(alt.Data(values=rows)).mark_line()
    over = over.encode(
        x=alt.X("t:T", title=None, scale=alt.Scale(type="utc"), axis=alt.Axis(format="%b")),
        y=_error(),
        color=who,
        strokeWidth=alt.when(bold).then(alt.value(3.0)).otherwise(alt.value(1.3)),
    ).properties(width=500, height=270, title="over the four weeks before")
    by = alt.Chart(alt.Data(values=carriers)).mark_point(filled=True, opacity=1)
    by = by.encode(
        x=alt.X("by:N", title=None, sort=None, axis=alt.Axis(labelAngle=-45)),
        y=_error(),
        color=who,
        size=alt.when(bold).then(alt.value(90)).otherwise(alt.value(30)),
    ).properties(width=430, height=270, title="over the year, by carrier and its flights")
    title = alt.TitleParams(
        "How late will it land? Forecast by carrier, learned hour by hour",
        subtitle=f"{len(flights.target):,} flights from New York City in 2013, each forecast as it "
        "leaves its gate. Mean absolute error in minutes; lower is better.",
        fontSize=18,
        subtitleFontSize=12,
        offset=14,
    )
    spec: dict[str, Any] = (over | by).properties(title=title).to_dict()
    return vega.save({**spec, "config": theme()}, path, 1.4)


def _error() -> alt.Y:
    return alt.Y("e:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6))


def _legend() -> alt.Legend:
    return alt.Legend(orient="top", title=None, columns=2, labelLimit=500)


def short(count: int) -> str:
    """57,782 -> "58k"; 342 stays."""
    return f"{count / 1000:.0f}k" if count >= 1000 else str(count)
