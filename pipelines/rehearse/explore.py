"""Variants of a config and their errors: other epsilons, periods, clips, spans, outputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from weir.dpcore.config import durations
from weir.dpcore.config.durations import months_of
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.rehearse.scores import Score

Place = tuple[str, int | None]
"""An output: name and span in ticks; None: since the start."""


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
    """Half the 95 % band of each output at its worst tick; NaN: not known beforehand.

    Raises:
      ConfigError: the config cannot be served.
    """
    fields = {name: getattr(config, name) for name in PlanConfig.model_fields}
    return _planned(_Written(PlanConfig.model_construct(**fields)))


def prices_of(plan: Plan) -> dict[Place, float]:
    """The same of a plan."""
    ticks, algorithm = plan.ticks_to_look_at(), plan.config.algorithm
    return {
        (info.name, info.over): plan.band
        * algorithm.expected_error(info, plan.program, ticks).stddev
        for info in plan.outputs
    }


def with_epsilon(config: PlanConfig, epsilon: float) -> PlanConfig:
    """Another epsilon."""
    return config.model_copy(
        update={"privacy": config.privacy.model_copy(update={"epsilon": epsilon})}
    )


def with_window(config: PlanConfig, ticks: int) -> PlanConfig:
    """A promise for so many ticks."""
    return config.model_copy(
        update={"privacy": config.privacy.model_copy(update={"protect_for": ticks})}
    )


def with_outputs(config: PlanConfig, names: Iterable[str]) -> PlanConfig:
    """Only the aggregates of these names."""
    kept = set(names)
    some = {name: one for name, one in config.aggregates.items() if name in kept}
    return config.model_copy(update={"aggregates": some})


def with_over(config: PlanConfig, name: str, over: int) -> PlanConfig:
    """One aggregate over so many ticks alone."""
    one = config.aggregates[name].model_copy(update={"over": (over,)})
    return config.model_copy(update={"aggregates": {**config.aggregates, name: one}})


def with_clip(config: PlanConfig, name: str, field: str, bounds: tuple[float, float]) -> PlanConfig:
    """One aggregate within other bounds."""
    one = config.aggregates[name].model_copy(update={field: bounds})
    return config.model_copy(update={"aggregates": {**config.aggregates, name: one}})


def with_period(config: PlanConfig, ratio: Fraction) -> PlanConfig | None:
    """Ticks ``ratio`` times as long: spans keep their time, and each tick alone stays that.

    A span that is no whole number of them is priced as the next one.

    Returns:
      None where ticks of that length do not fit: a model or ``release_every`` counts in ticks, or
      the caps of users do, which only their owner can say anew.
    """
    if ratio == 1:
        return config
    if config.model is not None or config.release_every is not None:
        return None
    if config.privacy.unit == "user":
        return None
    clock = _clock(config, ratio)
    window = _window(config.privacy.protect_for, ratio)
    if clock is None or window is None:
        return None
    aggregates = {}
    for name, one in config.aggregates.items():
        overs = [over if over in (None, 1) else math.ceil(over / ratio) for over in one.overs]
        over = tuple(dict.fromkeys("all" if n is None else n for n in overs))
        aggregates[name] = one.model_copy(update={"over": over})
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
    found = over / ratio
    # None of a length of 0 is released, so that nothing is found of it.
    return int(found) if found.denominator == 1 else 0


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


def _clock(config: PlanConfig, ratio: Fraction) -> Any:
    clock = config.clock
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


def _window(protect_for: Any, ratio: Fraction) -> Any:
    if not isinstance(protect_for, int):
        return protect_for
    return math.ceil(protect_for / ratio)


def served(config: PlanConfig | None) -> Mapping[Place, float]:
    """As ``prices``; nothing where the config cannot be served."""
    if config is None:
        return {}
    try:
        return prices(config)
    except ConfigError:
        return {}


TIMES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Epsilons, as multiples of the config's."""
LONGER = (1, 7, 30)
"""Ticks, as multiples of the config's."""


@dataclass(frozen=True)
class ErrorGrid:
    """Errors beside the size of the value, for 19 of 20 values.

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
        one
        for one in scores
        if one.true > 0 and math.isfinite(one.band) and now.get((one.name, one.over), 0.0) > 0
    ]
    if not known or config.model is not None:
        return None
    epsilons = tuple(config.privacy.epsilon * times for times in TIMES)
    periods: list[str] = []
    shares: dict[Place, list[tuple[float, ...]]] = {(one.name, one.over): [] for one in known}
    for times in LONGER:
        ratio = Fraction(times)
        longer = with_period(config, ratio)
        if longer is None:
            continue
        priced = [served(with_epsilon(longer, epsilon)) for epsilon in epsilons]
        if not any(priced):
            continue
        periods.append(longer.clock.period)
        for one in known:
            row = (_share(config, one, ratio, now, some) for some in priced)
            shares[one.name, one.over].append(tuple(row))
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
