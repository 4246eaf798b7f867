"""What makes outputs useful: remedies after a dry run, and advice for error targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir.dpcore.aggregates.bounding import BoundedAggregate
from weir.dpcore.config.ticks import show_ticks
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.rehearse.bounds import BoundRemedies, Remedy, raised
from weir.pipelines.rehearse.event_stats import BoundedStats, EventStats
from weir.pipelines.rehearse.explore import (
    Place,
    changed,
    explore,
    only,
    prices,
    prices_of,
)
from weir.pipelines.rehearse.scores import BoundLoss, Score
from weir.pipelines.rehearse.search import (
    EXAMPLE,
    MOST_EPSILON,
    Candidate,
    ErrorTarget,
    fewest_left_out,
    finest_period,
    least_epsilon,
    parse,
    tried,
)
from weir.pipelines.terminal import number

SPANS = (2, 7, 14, 28, 30, 90, 365)
"""Ticks of longer spans."""
QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
"""Of public values, at which a clip is tried."""
WINDOWS = 8
"""Halvings of the window that are tried."""


@dataclass(frozen=True)
class Advised:
    """An output and what would make it useful. others: of the output, as ``Score`` names it."""

    name: str
    over: int | None
    remedies: tuple[Remedy, ...]

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "name": self.name,
            "over": self.over,
            "remedies": [remedy.to_json() for remedy in self.remedies],
        }


def advised(
    plan: Plan,
    scores: tuple[Score, ...],
    seen: EventStats,
    caps: tuple[BoundLoss, ...],
    within: float,
    known: frozenset[str] | None,
) -> tuple[Advised, ...]:
    """Remedies for each output that is not useful and whose error is known beforehand.

    Args:
      caps: what other contribution bounds would take.
      known: columns whose values are spread as real ones are, so that they may say where a clip
        should lie; None: all of them.
    """
    config, now = plan.config, prices_of(plan)
    results = []
    several = () if not caps or config.model is not None else tuple(raised(plan, seen))
    for score in scores:
        place = (score.name, score.over)
        if config.model is not None or score.grade not in ("rough", "useless"):
            continue
        if not math.isfinite(now.get(place, math.nan)) or not score.true > 0:
            continue
        column = config.aggregates[score.name].column
        item = _Output(config, seen, score, now[place], within, caps, several)
        remedies = list(item.remedies(plan, known is None or column in known))
        results.append(Advised(score.name, score.over, tuple(remedies)))
    return tuple(results)


@dataclass(frozen=True)
class _Output:
    """One output: what was measured of it, and half of its margin at the worst tick as planned."""

    config: PlanConfig
    seen: EventStats
    score: Score
    priced: float
    within: float
    caps: tuple[BoundLoss, ...]
    raised: tuple[tuple[dict[str, int], BoundedStats], ...] = ()

    @property
    def place(self) -> Place:
        return self.score.name, self.score.over

    @property
    def target(self) -> ErrorTarget | None:
        """The margin that leaves the error within its share; None: the clip alone takes more."""
        allowed, clip = self.within * self.score.true, self.score.clip
        if not clip < allowed:
            return None
        room = math.sqrt(allowed**2 - clip**2)
        band = self.score.band if self.score.band > 0 else self.score.noise
        return ErrorTarget(self.place, self.priced * room / band, True, f"within {self.within:g}")

    def remedies(self, plan: Plan, public: bool) -> Iterator[Remedy]:
        target = self.target
        if target is None:
            takes = (
                "clip and contribution bounds alone take" if self.caps else "the clip alone takes"
            )
            yield Remedy("privacy.epsilon", None, f"none: {takes} more than that")
            yield from self._bounds(plan)
            if public:
                yield from self._clips()
            return
        yield self._epsilon(target)
        yield from self._period(target)
        yield from self._window(plan, target)
        yield from self._over(target)
        yield from self._outputs(target)
        yield from self._bounds(plan)
        if public:
            yield from self._clips()

    def _epsilon(self, target: ErrorTarget) -> Remedy:
        result = least_epsilon(self.config, [target])
        if result.reaches:
            weak = ", a weak guarantee" if result.value > 10 else ""
            return Remedy("privacy.epsilon", result.value, f"{number(result.value)} or more{weak}")
        return Remedy("privacy.epsilon", None, f"none up to {MOST_EPSILON:g} is enough")

    def _period(self, target: ErrorTarget) -> Iterator[Remedy]:
        result = finest_period(self.config, [target])
        if result is not None and result.reaches:
            yield Remedy("clock.period", result.value, f"{result.value} or longer")
        elif result is not None:
            yield Remedy("clock.period", None, f"none is enough; {result.value} comes nearest")

    def _window(self, plan: Plan, target: ErrorTarget) -> Iterator[Remedy]:
        """The longest of ever shorter windows."""
        window = plan.guarantee.window or plan.clock.ticks
        for _ in range(WINDOWS):
            if window is None or window < 2:
                return
            window //= 2
            result = explore(self.config, {("privacy", "protect_for"): f"{window} ticks"})
            half = result.get(self.place, math.inf)
            if half <= target.half:
                shown = show_ticks(plan.clock, window)
                yield Remedy("privacy.protect_for", f"{window} ticks", f"{shown} or less")
                return

    def _over(self, target: ErrorTarget) -> Iterator[Remedy]:
        """The shortest of longer spans: its value is as many times as large."""
        name, over = self.place
        item = self.config.aggregates[name]
        if over is None:
            return
        for span in SPANS:
            if span <= over:
                continue
            grows = 1.0 if item.averages else span / over
            result = explore(self.config, {("aggregates", name, "over"): (span,)})
            half = result.get((name, span), math.inf)
            if half <= target.half * grows:
                yield Remedy(f"aggregates.{name}.over", span, f"{span} ticks or more")
                return

    def _outputs(self, target: ErrorTarget) -> Iterator[Remedy]:
        result = fewest_left_out(self.config, [target])
        gone = [name for name in self.config.aggregates if name not in result.value]
        if result.reaches and gone:
            yield Remedy("aggregates", list(result.value), f"without {', '.join(gone)}")

    def _bounds(self, plan: Plan) -> Iterator[Remedy]:
        bounds = BoundRemedies(
            plan, self.seen, self.score, self.priced, self.within, self.caps, self.raised
        )
        yield from bounds.remedies()

    def _clips(self) -> Iterator[Remedy]:
        """The clip of least error, among quantiles of the public values."""
        name, over = self.place
        item = self.config.aggregates[name]
        if not isinstance(item, BoundedAggregate) or item.clips[0] != "clip" or item.column is None:
            return
        values = self.seen.values(item.column)
        if values is None or not np.isfinite(values).any():
            return
        low, high = item.bounds
        best: tuple[float, float] | None = None
        for bound in _bounds(values, low):
            half = explore(self.config, {("aggregates", name, "clip"): (low, bound)}).get(
                self.place
            )
            if half is None:
                continue
            band = self.score.band * half / self.priced
            error = math.hypot(band, self._bias(values, low, bound, item.averages))
            if best is None or error < best[0]:
                best = error, bound
        if best is None or math.isclose(best[1], high, rel_tol=0.1):
            return
        error, bound = best
        share = error / self.score.true
        if error < 0.9 * self.score.error:
            words = f"[{low:g}, {bound:g}]: about {100 * share:.3g} % on these events"
            if share > self.within:
                words += ", which is not enough"
            yield Remedy(f"aggregates.{name}.clip", [low, bound], words)

    def _bias(self, values: Any, low: float, high: float, averages: bool) -> float:
        """What a clip takes of a value of this output, where it takes much."""
        finite = np.where(np.isfinite(values), values, 0.0)
        off = finite - np.clip(finite, low, high)
        if averages:
            return abs(float(off.mean()))
        whole = float(np.abs(finite.sum()))
        # Of a sum the same share is taken of each span, about.
        return abs(float(off.sum())) / whole * self.score.true if whole > 0 else 0.0


def _bounds(values: Any, low: float) -> Iterator[float]:
    finite = values[np.isfinite(values)]
    seen: set[float] = set()
    for bound in np.quantile(finite, QUANTILES).tolist():
        nice = float(f"{bound:.2g}")
        if nice > low and nice not in seen:
            seen.add(nice)
            yield nice


@dataclass(frozen=True)
class Advice:
    """What reaches all targets, one change of the config at a time.

    Attributes:
      targets: what is asked. now: the config as it is.
      epsilon: the least; else the largest that was tried, which does not reach them.
      alone: the same, of the targets' own outputs alone; None: there are no others.
      period: the shortest tick; else the one that comes nearest. None: ticks cannot be changed.
      outputs: those that may stay; else the targets' own, which do not reach them.
    """

    config: PlanConfig
    targets: tuple[ErrorTarget, ...]
    now: Candidate
    epsilon: Candidate
    alone: Candidate | None
    period: Candidate | None
    outputs: Candidate

    @property
    def left_out(self) -> tuple[str, ...]:
        """Outputs that go."""
        return tuple(name for name in self.config.aggregates if name not in self.outputs.value)

    @property
    def reached(self) -> bool:
        """Whether anything reaches all targets."""
        result = (self.now, self.epsilon, self.alone, self.period, self.outputs)
        return any(item is not None and item.reaches for item in result)

    def to_json(self) -> dict[str, Any]:
        """For ``weir advise --json``."""
        return {
            "name": self.config.name,
            "targets": [
                {
                    "text": target.text,
                    "name": target.place[0],
                    "over": target.place[1],
                    "half_band": target.half,
                }
                for target in self.targets
            ],
            "reached": self.reached,
            "now": self.now.to_json(),
            "epsilon": self.epsilon.to_json(),
            "epsilon_alone": None if self.alone is None else self.alone.to_json(),
            "period": None if self.period is None else self.period.to_json(),
            "outputs": {**self.outputs.to_json(), "left_out": list(self.left_out)},
        }


def advise(config: PlanConfig, targets: Sequence[str]) -> Advice:
    """Looks for what reaches all targets. Reads no data and spends nothing.

    Raises:
      ConfigError: the config, a target that is none, or one whose error is not known beforehand.
    """
    if not targets:
        raise ConfigError("--target", None, f"is missing; write something like {EXAMPLE}.")
    priced = prices(config)
    asked = tuple(parse(text, config) for text in targets)
    for item in asked:
        if not math.isfinite(priced.get(item.place, math.nan)):
            raise ConfigError("--target", item.text, "names an output without a known error.")
    own = {entry.place[0] for entry in asked}
    few = changed(config, only(config, own))
    alone = None if few == config else least_epsilon(few, asked)
    return Advice(
        config,
        asked,
        tried(config.privacy.epsilon, config, asked),
        least_epsilon(config, asked),
        alone,
        finest_period(config, asked),
        fewest_left_out(config, asked),
    )
