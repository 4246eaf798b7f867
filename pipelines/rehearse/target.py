"""How exact an output has to be: ``total: 5% of 2000 a day``."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

from weir.dpcore.config import durations
from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.rehearse.variants import Place, growth
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
    """A band that an output must keep.

    Attributes:
      place: the output. half: half of its 95 % band at most, in its own unit, under the config's
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
        """The band under ticks that are ``ratio`` times as long."""
        return self.half * (growth(config, self.place, ratio) if self.grows else 1.0)


def parse(text: str, config: PlanConfig) -> ErrorTarget:
    """``NAME [over N|all]: X`` or ``...: P% of X``, with ``a day`` or ``per 12h`` behind it.

    What is said of a day is taken to the span of the output.

    Raises:
      ConfigError: names ``--target``: no such output, or no such form.
    """
    found = _FORM.match(text.strip())
    if found is None:
        raise ConfigError("--target", text, f"must look like {EXAMPLE}.")
    if config.model is not None:
        raise ConfigError(
            "--target",
            text,
            "is for aggregates: the error of a model is not known before it runs; look at it with "
            "weir rehearse CONFIG --on public.csv.",
        )
    place = _place(text, found["name"], found["over"], config)
    amount = _number(text, found["number"])
    if found["share"]:
        amount = amount / 100 * _number(text, found["of"])
    each = found["per"] or _EACH.get(found["each"] or "")
    if each is not None:
        amount *= _times(text, each, place, config)
    grows = bool(found["share"]) or each is not None
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
        found = float(value.replace(",", ""))
    except ValueError:
        found = math.nan
    if not (0 < found < math.inf):
        _wrong(text, f"must have finite numbers above 0; {value} is none.")
    return found


def _times(text: str, each: str, place: Place, config: PlanConfig) -> float:
    """The span of an output in such times."""
    name, over = place
    clock = config.clock.to_clock()
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
    """A band as people read it."""
    return f"\N{PLUS-MINUS SIGN} {number(half)}"


__all__ = ["EXAMPLE", "ErrorTarget", "parse", "shown"]
