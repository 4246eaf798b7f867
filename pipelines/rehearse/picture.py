"""The grid of a rehearsal as a picture: error beside value, by epsilon, a line for each tick."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.pipelines.rehearse.rehearse import Rehearsal

ENDINGS = (".png", ".svg", ".pdf")
PANELS = 24
"""Outputs that are drawn."""
COLUMNS = 3
WIDTH, HEIGHT = 260, 200
"""Of a panel, in points."""
COLOURS = ("#1f5fa8", "#c2571a", "#3a7d44")


def check(path: Path) -> None:
    """Refuses a file that no picture can be written to, before anything runs.

    Raises:
      ConfigError: its ending, or a folder that is not there.
    """
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError("--picture", str(path), f"must end in one of {', '.join(ENDINGS)}.")
    if not path.absolute().parent.is_dir():
        raise ConfigError("--picture", str(path), "lies in a folder that is not there; make it.")


def draw(found: Rehearsal, path: Path) -> Path | None:
    """Draws a panel for each output; None: there is no grid, as of models.

    Raises:
      ConfigError: the file cannot be written.
    """
    if found.grid is None or not found.grid.shares:
        return None
    import vl_convert

    spec = chart(found).to_json()
    try:
        if path.suffix.lower() == ".svg":
            path.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
        elif path.suffix.lower() == ".pdf":
            path.write_bytes(vl_convert.vegalite_to_pdf(spec))
        else:
            path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
    except OSError as error:
        raise ConfigError("--picture", str(path), f"cannot be written: {error.strerror}.") from None
    return path


def chart(found: Rehearsal) -> Any:
    """Panels of lines, in one specification: below the band is useful, above the line useless."""
    import altair as alt

    assert found.grid is not None
    rows = [row | {"output": title(row)} for row in found.grid.to_json() if row["share"] > 0]
    titles = list(dict.fromkeys(row["output"] for row in rows))[:PANELS]
    rows = [row for row in rows if row["output"] in titles]
    shares = [row["share"] for row in rows]
    low, high = min(*shares, found.within) / 1.5, max(*shares, 1.0) * 1.5
    data = alt.Data(values=rows)
    epsilon = alt.X(
        "epsilon:Q",
        scale=alt.Scale(type="log", base=2, nice=False),
        axis=alt.Axis(values=list(found.grid.epsilons), format="~g"),
    )
    share = alt.Y(
        "share:Q",
        title="error of 19 in 20 values, of the true value",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(format="~%"),
    )
    lines = alt.Chart().mark_line(point=True)
    lines = lines.encode(
        x=epsilon,
        y=share,
        color=alt.Color(
            "period:N", title="a tick of", sort=list(found.grid.periods), scale=_colours()
        ),
    )
    once = alt.Chart().transform_aggregate(rows="count()", groupby=["output"])
    useful = once.mark_rect(color=COLOURS[2], opacity=0.1)
    useful = useful.encode(y=alt.datum(low, type="quantitative"), y2=alt.datum(found.within))
    useless = once.mark_rule(color="#b02020", strokeDash=[4, 3])
    useless = useless.encode(y=alt.datum(1.0, type="quantitative"))
    panel = alt.layer(useful, useless, lines, data=data).properties(width=WIDTH, height=HEIGHT)
    facet = alt.Facet("output:N", title=None, sort=titles)
    shown = panel.facet(facet, columns=min(COLUMNS, len(titles)))
    return shown.properties(title=f"{found.result.plan.name}: useful below the green edge")


def _colours() -> Any:
    import altair as alt

    return alt.Scale(range=list(COLOURS))


def title(row: Mapping[str, Any]) -> str:
    """An output and its span."""
    over = row["over"]
    span = "since the start" if over is None else "each tick" if over == 1 else f"{over:,} ticks"
    return f"{row['name']}, {span}"


__all__ = ["check", "draw"]
