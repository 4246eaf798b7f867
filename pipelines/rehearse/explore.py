"""Variants of a config and their errors: other epsilons, periods, clips, spans, outputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from weir.dpcore.config import durations
from weir.dpcore.config.clock import ClockConfig
from weir.dpcore.config.durations import months_of, ticks_in_words
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.rehearse.scores import Score

Place = tuple[str, int | None]
"""An output: name and span in ticks; None: since the start."""
Changes = Mapping[tuple[str, ...], Any]
"""Path of a field of a config -> another value."""
EPSILON = ("privacy", "epsilon")


KEPT = 1024
"""Configs whose prices are remembered: outputs ask for the same ones."""


class _Written:
    """A config that is the same as another one that is written alike."""

    def __init__(self, config: PlanConfig) -> None:
        self.config = config
        self._text = config.model_dump_json(by_alias=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Written) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


@lru_cache(maxsize=KEPT)
def _planned(written: _Written) -> Mapping[Place, float]:
    return prices_of(Plan.from_config(written.config))


def prices(config: PlanConfig) -> Mapping[Place, float]:
    """Half the 95 % margin of each output at its worst tick; NaN: not known beforehand.

    Raises:
      ConfigError: the config cannot be served.
    """
    fields = {name: getattr(config, name) for name in PlanConfig.model_fields}
    return _planned(_Written(PlanConfig.model_construct(**fields)))


def prices_of(plan: Plan) -> dict[Place, float]:
    """The same of a plan."""
    ticks, algorithm = plan.ticks_to_look_at(), plan.config.algorithm
    return {
        (info.name, info.over): plan.band * algorithm.expected_error(info, ticks).stddev
        for info in plan.outputs
    }


def changed(config: PlanConfig, changes: Changes) -> PlanConfig:
    """A config with other values of some fields.

    Args:
      changes: path of a field, like ``("privacy", "epsilon")`` -> value.
    """
    for path, value in changes.items():
        config = _changed(config, path, value)
    return config


def _changed(section: Any, path: tuple[str, ...], value: Any) -> Any:
    """A section, or sections by name, with another value at a path."""
    name, *rest = path
    named = isinstance(section, Mapping)
    if rest:
        value = _changed(section[name] if named else getattr(section, name), tuple(rest), value)
    return {**section, name: value} if named else section.model_copy(update={name: value})


def only(config: PlanConfig, names: Iterable[str]) -> Changes:
    """The change that leaves the aggregates of these names alone."""
    some = set(names)
    return {
        ("aggregates",): {n: aggregate for n, aggregate in config.aggregates.items() if n in some}
    }


def with_period(config: PlanConfig, ratio: Fraction) -> PlanConfig | None:
    """Ticks ``ratio`` times as long: spans keep their time, and each tick alone stays that.

    A span that is no whole number of them is priced as the next one.

    Returns:
      None where ticks of that length do not fit: a model or ``release_every`` counts in ticks, or
      the caps of users do, which only their owner can say again.
    """
    if ratio == 1:
        return config
    if config.clock is None:
        return None
    if config.model is not None or config.release_every is not None:
        return None
    if config.privacy.unit == "user":
        return None
    clock = _clock(config.clock, ratio)
    window = _window(config.privacy.protect_for, ratio)
    if clock is None or window is None:
        return None
    aggregates = {}
    for name, aggregate in config.aggregates.items():
        overs = [over if over in (None, 1) else math.ceil(over / ratio) for over in aggregate.overs]
        over = tuple(dict.fromkeys("all" if n is None else n for n in overs))
        aggregates[name] = aggregate.model_copy(update={"over": over})
    changed: dict[str, Any] = {
        "clock": clock,
        "privacy": config.privacy.model_copy(update={"protect_for": window}),
        "aggregates": aggregates,
    }
    if config.expect is not None:
        times = float(ratio)
        more: dict[str, Any] = {"events": config.expect.events * times}
        if config.expect.users is not None:
            more["users"] = config.expect.users * times
        changed["expect"] = config.expect.model_copy(update=more)
    return config.model_copy(update=changed)


def span_at(over: int, ratio: Fraction) -> int:
    """A span of ticks in ticks that are ``ratio`` times as long; 0: no whole number of them."""
    if over == 1:
        return 1
    result = over / ratio
    # None of a length of 0 is released, so that nothing is found of it.
    return int(result) if result.denominator == 1 else 0


def place_at(place: Place, ratio: Fraction) -> Place:
    """What an output is called under such ticks."""
    name, over = place
    return name, None if over is None else span_at(over, ratio)


def growth(config: PlanConfig, place: Place, ratio: Fraction) -> float:
    """How many times as large the value of an output is under such ticks: of a tick alone that of
    a sum grows with it."""
    name, over = place
    averages = config.model is not None or config.aggregates[name].averages
    return float(ratio) if over == 1 and not averages else 1.0


def _clock(clock: ClockConfig, ratio: Fraction) -> Any:
    whole, months = clock.to_clock(), months_of(clock.period)
    if months is not None:
        if ratio.denominator != 1:
            return None
        period = f"{months * ratio.numerator} months"
    elif whole.calendar is not None:
        return None
    else:
        length = whole.period * ratio
        if length.denominator != 1:
            return None
        period = durations.show_duration(int(length))
    changed: dict[str, Any] = {"period": period}
    if whole.ticks is not None:
        spans = math.floor(whole.ticks / ratio)
        if spans < 1:
            return None
        last = int(spans * ratio)
        changed["end"] = durations.show_timestamp(whole.tick_start(last))
        if spans * ratio != last:
            return None
    return clock.model_copy(update=changed)


def _window(protect_for: str | None, ratio: Fraction) -> str | None:
    ticks = None if protect_for is None else ticks_in_words(protect_for)
    return protect_for if ticks is None else f"{math.ceil(ticks / ratio)} ticks"


def explore(config: PlanConfig | None, changes: Changes | None = None) -> Mapping[Place, float]:
    """What ``prices`` says of a config with some changes; nothing where it cannot be served.

    Args:
      config: None: there is no such. changes: as of ``changed``.
    """
    if config is None:
        return {}
    try:
        return prices(changed(config, changes or {}))
    except ConfigError:
        return {}


TIMES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Epsilons, as multiples of the config's."""
LONGER = (1, 7, 30)
"""Ticks, as multiples of the config's."""


@dataclass(frozen=True)
class ErrorGrid:
    """Errors next to the size of the value, for 19 of 20 values.

    Attributes:
      epsilons, periods: of the config and others. shares: output -> (periods, epsilons); NaN: it
        cannot be served so.
    """

    epsilons: tuple[float, ...]
    periods: tuple[str, ...]
    shares: Mapping[Place, tuple[tuple[float, ...], ...]]

    def to_json(self) -> list[dict[str, Any]]:
        """For ``--json``: a row for each number."""
        return [
            {"name": name, "over": over, "period": period, "epsilon": epsilon, "share": share}
            for (name, over), table in self.shares.items()
            for period, row in zip(self.periods, table, strict=True)
            for epsilon, share in zip(self.epsilons, row, strict=True)
            if math.isfinite(share)
        ]


def grid_of(plan: Plan, scores: tuple[Score, ...]) -> ErrorGrid | None:
    """The grid of the outputs whose error is known beforehand; None: there are none.

    Noise is priced by plans; what clips and caps take is as measured, and the value of a tick alone
    grows with the tick.
    """
    config, now = plan.config, prices_of(plan)
    known = [
        score
        for score in scores
        if score.true > 0
        and math.isfinite(score.band)
        and now.get((score.name, score.over), 0.0) > 0
    ]
    if not known or config.model is not None:
        return None
    epsilons = tuple(config.privacy.epsilon * times for times in TIMES)
    periods: list[str] = []
    shares: dict[Place, list[tuple[float, ...]]] = {(item.name, item.over): [] for item in known}
    for times in LONGER:
        ratio = Fraction(times)
        longer = with_period(config, ratio)
        if longer is None:
            continue
        priced = [explore(longer, {EPSILON: epsilon}) for epsilon in epsilons]
        if not any(priced):
            continue
        periods.append("all rows" if longer.clock is None else longer.clock.period)
        for entry in known:
            row = (_share(config, entry, ratio, now, some) for some in priced)
            shares[entry.name, entry.over].append(tuple(row))
    return ErrorGrid(
        epsilons, tuple(periods), {place: tuple(rows) for place, rows in shares.items()}
    )


def _share(
    config: PlanConfig,
    score: Score,
    ratio: Fraction,
    now: Mapping[Place, float],
    priced: Mapping[Place, float],
) -> float:
    place = score.name, score.over
    half = priced.get(place_at(place, ratio), math.nan)
    grows = growth(config, place, ratio)
    noise = score.band * half / now[place]
    return math.hypot(noise, score.clip * grows) / (score.true * grows)


PANELS = 24
"""Outputs that are drawn."""
COLUMNS = 3
WIDTH, HEIGHT = 260, 200
"""Of a panel, in points."""
COLOURS = ("#1f5fa8", "#c2571a", "#3a7d44")


def chart(grid: ErrorGrid, name: str, within: float) -> dict[str, Any]:
    """The grid as a specification of Vega-Lite: a panel for each output, a line for each tick.

    Args:
      name: of the plan. within: share of the value up to which an error is useful.
    """
    import altair as alt

    rows = [row | {"output": _title(row)} for row in grid.to_json() if row["share"] > 0]
    titles = list(dict.fromkeys(row["output"] for row in rows))[:PANELS]
    rows = [row for row in rows if row["output"] in titles]
    shares = [row["share"] for row in rows]
    low, high = min(*shares, within) / 1.5, max(*shares, 1.0) * 1.5
    colours = alt.Scale(range=list(COLOURS))
    lines = alt.Chart().mark_line(point=True)
    lines = lines.encode(
        x=alt.X(
            "epsilon:Q",
            scale=alt.Scale(type="log", base=2, nice=False),
            axis=alt.Axis(values=list(grid.epsilons), format="~g"),
        ),
        y=alt.Y(
            "share:Q",
            title="error of 19 in 20 values, of the true value",
            scale=alt.Scale(type="log", domain=[low, high], nice=False),
            axis=alt.Axis(format="~%"),
        ),
        color=alt.Color("period:N", title="a tick of", sort=list(grid.periods), scale=colours),
    )
    once = alt.Chart().transform_aggregate(rows="count()", groupby=["output"])
    useful = once.mark_rect(color=COLOURS[2], opacity=0.1)
    useful = useful.encode(y=alt.datum(low, type="quantitative"), y2=alt.datum(within))
    useless = once.mark_rule(color="#b02020", strokeDash=[4, 3])
    useless = useless.encode(y=alt.datum(1.0, type="quantitative"))
    panel = alt.layer(useful, useless, lines, data=alt.Data(values=rows))
    facet = alt.Facet("output:N", title=None, sort=titles)
    shown = panel.properties(width=WIDTH, height=HEIGHT)
    shown = shown.facet(facet, columns=min(COLUMNS, len(titles)))
    spec: dict[str, Any] = shown.properties(title=f"{name}: useful below the green edge").to_dict()
    return spec


def _title(row: Mapping[str, Any]) -> str:
    """An output and its span."""
    over = row["over"]
    span = "since the start" if over is None else "each tick" if over == 1 else f"{over:,} ticks"
    return f"{row['name']}, {span}"
