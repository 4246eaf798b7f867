"""``weir advise CONFIG --target ...``: what would make outputs exact enough, from plans alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.rehearse.search import (
    Candidate,
    fewest_left_out,
    finest_period,
    least_epsilon,
    tried,
)
from weir.pipelines.rehearse.target import EXAMPLE, ErrorTarget, parse
from weir.pipelines.rehearse.variants import prices, with_outputs


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
        found = (self.now, self.epsilon, self.alone, self.period, self.outputs)
        return any(one is not None and one.reaches for one in found)

    def to_json(self) -> dict[str, Any]:
        """For ``weir advise --json``."""
        return {
            "name": self.config.name,
            "targets": [
                {
                    "text": one.text,
                    "name": one.place[0],
                    "over": one.place[1],
                    "half_band": one.half,
                }
                for one in self.targets
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
    for one in asked:
        if not math.isfinite(priced.get(one.place, math.nan)):
            raise ConfigError("--target", one.text, "names an output without a known error.")
    own = {one.place[0] for one in asked}
    few = with_outputs(config, own)
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


__all__ = ["Advice", "advise"]
