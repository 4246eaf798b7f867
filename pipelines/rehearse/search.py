"""Error targets, and the changes of a config that reach them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from weir.dpcore.config import durations
from weir.dpcore.config.durations import months_of
from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.rehearse.explore import (
    EPSILON,
    Place,
    changed,
    explore,
    growth,
    only,
    place_at,
    with_period,
)
from weir.pipelines.terminal import number, span

_FORM = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)(?:\s+over\s+(?P<over>all|\d+))?\s*:\s*"
    r"(?:\+-\s*|\N{PLUS-MINUS SIGN}\s*)?(?P<number>[0-9.,e+-]+)\s*"
    r"(?:(?P<share>%)\s*of\s+(?P<of>[0-9.,e+-]+)\s*)?"
    r"(?:an?\s+(?P<each>second|minute|hour|day|week)|per\s+(?P<per>\S+))?\s*\Z"
)
_EACH = {"second": "1s", "minute": "1m", "hour": "1h", "day": "1d", "week": "7d"}
EXAMPLE = '"total: 5% of 2000 a day", "total over 7: 300" or "basket: 0.5"'


@dataclass(frozen=True)
class ErrorTarget:
    """A margin that an output must keep.

    Attributes:
      place: the output. half: half of its 95 % margin at most, in its own unit, under the config's
        own ticks. grows: whether it may be larger where longer ticks make the value larger.
      text: as it was written, or in words.
    """

    place: Place
    half: float
    grows: bool
    text: str

    @property
    def words(self) -> str:
        """Name and span."""
        name, over = self.place
        return f"{name}, {span(over)}"

    def at(self, config: PlanConfig, ratio: Fraction) -> float:
        """The margin under ticks that are ``ratio`` times as long."""
        return self.half * (growth(config, self.place, ratio) if self.grows else 1.0)


def parse(text: str, config: PlanConfig) -> ErrorTarget:
    """``NAME [over N|all]: X`` or ``...: P% of X``, with ``a day`` or ``per 12h`` behind it.

    What is said of a day is taken to the span of the output.

    Raises:
      ConfigError: names ``--target``: no such output, or no such form.
    """
    result = _FORM.match(text.strip())
    if result is None:
        raise ConfigError("--target", text, f"must look like {EXAMPLE}.")
    if config.model is not None:
        raise ConfigError(
            "--target",
            text,
            "is for aggregates: the error of a model is not known before it runs; look at it with "
            "weir rehearse CONFIG --on public.csv.",
        )
    place = _place(text, result["name"], result["over"], config)
    amount = _number(text, result["number"])
    if result["share"]:
        amount = amount / 100 * _number(text, result["of"])
    each = result["per"] or _EACH.get(result["each"] or "")
    if each is not None:
        amount *= _times(text, each, place, config)
    grows = bool(result["share"]) or each is not None
    return ErrorTarget(place, amount, grows, " ".join(text.split()))


def _place(text: str, name: str, over: str | None, config: PlanConfig) -> Place:
    if name not in config.aggregates:
        raise ConfigError(
            "--target", text, f"names no output: {nearest(name, list(config.aggregates))}"
        )
    overs: Sequence[int | None] = config.aggregates[name].overs
    if over is None:
        if len(overs) > 1:
            each = " or ".join(f'"{name} over {n or "all"}: ..."' for n in overs)
            _wrong(text, f"must say over which span, as {name} has several: {each}.")
        return name, overs[0]
    asked = None if over == "all" else int(over)
    if asked not in overs:
        known = ", ".join(str(n or "all") for n in overs)
        _wrong(text, f"names a span that {name} has not; it has over: {known}.")
    return name, asked


def _number(text: str, value: str) -> float:
    try:
        result = float(value.replace(",", ""))
    except ValueError:
        result = math.nan
    if not (0 < result < math.inf):
        _wrong(text, f"must have finite numbers above 0; {value} is none.")
    return result


def _times(text: str, each: str, place: Place, config: PlanConfig) -> float:
    """The span of an output in such times."""
    name, over = place
    clock = config.release_clock
    if clock.once:
        _wrong(text, f"cannot speak of {each}: the config has no clock; say it of its value.")
    try:
        length = durations.duration(each)
    except ValueError as error:
        _wrong(text, f"has a time that {error}")
    if not length:
        _wrong(text, "has a time of no length.")
    if clock.calendar is not None:
        _wrong(text, f"cannot speak of {each} on a clock of a calendar; say it of a tick.")
    if config.aggregates[name].averages:
        _wrong(text, f"cannot speak of {each}: {name} is an average; say it of its value.")
    if over is None:
        _wrong(text, f"cannot speak of {each} of a sum since the start; say it of its value.")
    return over * clock.period / length


def _wrong(text: str, remedy: str) -> NoReturn:
    raise ConfigError("--target", text, remedy)


def shown(half: float) -> str:
    """A margin as people read it."""
    return f"\N{PLUS-MINUS SIGN} {number(half)}"


MOST_EPSILON = 64.0
LEAST_EPSILON = 2.0**-10
CLOSE = 1.01
"""Bisection ends where both ends are so near, as a ratio."""

PERIODS = ("1s", "5s", "10s", "30s", "1m", "5m", "15m", "30m", "1h", "2h", "3h", "4h", "6h", "8h",
           "12h", "1d", "2d", "3d", "7d", "14d", "28d", "30d", "60d", "90d", "180d",
           "365d")  # fmt: skip
MONTHS = (1, 2, 3, 6, 12)
ONE = Fraction(1)


@dataclass(frozen=True)
class Candidate:
    """A config that was tried.

    Attributes:
      value: what was changed to what: an epsilon, a period, names of the outputs that stay.
      halves: half of the 95 % margin of each target, in the order of the targets. reaches: all of
        them.
    """

    value: Any
    halves: tuple[float, ...]
    reaches: bool

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "value": self.value,
            "reaches": self.reaches,
            "half_bands": [half if math.isfinite(half) else None for half in self.halves],
        }


def tried(
    value: Any, config: PlanConfig | None, targets: Sequence[ErrorTarget], ratio: Fraction = ONE,
    own: PlanConfig | None = None,
) -> Candidate:  # fmt: skip
    """Prices a variant. own: the config that the targets speak of, where ticks differ."""
    priced: Mapping[Place, float] = explore(config)
    halves = tuple(priced.get(place_at(target.place, ratio), math.nan) for target in targets)
    reaches = config is not None and all(
        half <= target.at(own or config, ratio)
        for half, target in zip(halves, targets, strict=True)
    )
    return Candidate(value, halves, reaches)


def least_epsilon(config: PlanConfig, targets: Sequence[ErrorTarget]) -> Candidate:
    """The least epsilon that reaches all targets; else what MOST_EPSILON gives.

    Noise falls as epsilon grows. The interval between one that does not reach them and one that
    does is halved, or cut where a straight line through its ends, in logarithms, meets the targets:
    that is nearly what noise follows. Rounded up to three digits.
    """
    least = tried(LEAST_EPSILON, changed(config, {EPSILON: LEAST_EPSILON}), targets)
    best = tried(MOST_EPSILON, changed(config, {EPSILON: MOST_EPSILON}), targets)
    if not best.reaches or least.reaches:
        return least if least.reaches else best
    low, high, by_line = least, best, True
    while high.value > CLOSE * low.value:
        epsilon = rounded_up(_between(low, high, targets, by_line))
        if not low.value < epsilon < high.value:
            return high
        result = tried(epsilon, changed(config, {EPSILON: epsilon}), targets)
        # A line leaves the same end where it is again and again: then a step down, or a half.
        by_line = not by_line or result.reaches
        low, high = (low, result) if result.reaches else (result, high)
        if result.reaches:
            epsilon = rounded_up(result.value / CLOSE)
            below = tried(epsilon, changed(config, {EPSILON: epsilon}), targets)
            low, high = (low, below) if below.reaches else (below, high)
    return high


def _between(
    low: Candidate, high: Candidate, targets: Sequence[ErrorTarget], by_line: bool
) -> float:
    """An epsilon between two: where the line through both meets the targets, or the middle."""
    a, b = (_farthest(item, targets) for item in (low, high))
    start, stop = math.log(low.value), math.log(high.value)
    if not by_line or not (math.isfinite(a) and 0 < b < a):
        return math.exp((start + stop) / 2)
    part = math.log(a) / (math.log(a) - math.log(b))
    return math.exp(start + part * (stop - start))


def rounded_up(value: float, digits: int = 3) -> float:
    """The next number of so many digits: privacy is told of what is planned, never of less."""
    if value <= 0:
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.{digits}g}")


def ratios(config: PlanConfig) -> Iterator[tuple[str, Fraction]]:
    """Other lengths of a tick, the finest first: as written, and in the config's own ticks."""
    clock = config.clock
    if clock is None:
        return
    months = months_of(clock.period)
    if months is not None:
        for n in MONTHS:
            if n % months == 0:
                yield f"{n} month{'' if n == 1 else 's'}", Fraction(n, months)
        return
    whole = clock.to_clock()
    if whole.calendar is not None:
        return
    lengths = {durations.duration(text): text for text in PERIODS}
    lengths[whole.period] = clock.period
    for length in sorted(lengths):
        yield lengths[length], Fraction(length, whole.period)


def finest_period(config: PlanConfig, targets: Sequence[ErrorTarget]) -> Candidate | None:
    """The shortest tick that reaches all targets; else the one that comes nearest.

    None: its ticks cannot be changed for it.
    """
    best: tuple[float, Candidate] | None = None
    if with_period(config, Fraction(2)) is None:
        return None
    for text, ratio in ratios(config):
        variant = with_period(config, ratio)
        if variant is None:
            continue
        result = tried(text, variant, targets, ratio, config)
        if result.reaches:
            return result
        off = max(
            half / target.at(config, ratio) if math.isfinite(half) else math.inf
            for half, target in zip(result.halves, targets, strict=True)
        )
        if math.isfinite(off) and (best is None or off < best[0]):
            best = off, result
    return None if best is None else best[1]


def fewest_left_out(config: PlanConfig, targets: Sequence[ErrorTarget]) -> Candidate:
    """The outputs that may stay: from all of them on, each time the one goes whose going helps
    most, until the targets are reached; else those that come nearest.

    Fewer are not always better: outputs share sums, and what two ask for is measured better.
    """
    names = list(config.aggregates)
    needed = {target.place[0] for target in targets}
    best = result = tried(tuple(names), config, targets)
    while not result.reaches:
        others = [name for name in names if name not in needed]
        if not others:
            return best
        without = [
            tried(retained, changed(config, only(config, retained)), targets)
            for retained in (tuple(n for n in names if n != gone) for gone in others)
        ]
        result = min(without, key=lambda item: _farthest(item, targets))
        best = min(best, result, key=lambda item: _farthest(item, targets))
        names = list(result.value)
    return result


def _farthest(found: Candidate, targets: Sequence[ErrorTarget]) -> float:
    return max(
        half / target.half if math.isfinite(half) else math.inf
        for half, target in zip(found.halves, targets, strict=True)
    )
