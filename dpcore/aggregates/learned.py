"""Clips that are learned in private: their section, the channels of a leaf, and the output."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field
from scipy.special import ndtri

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.joint import ChannelGroup, joint_sensitivity
from weir.dpcore.aggregates.aggregate import Aggregate, AggregateOutput, Noisy
from weir.dpcore.aggregates.leaf import ChannelLeaf
from weir.dpcore.arrays import Floats
from weir.dpcore.config.section import AnyTicks, Pair, Positive, Says, Section, refusal
from weir.dpcore.config.validation import validate
from weir.dpcore.config.yaml import with_numbers
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.ended import LONGEST
from weir.dpcore.continual.learned import FULL, LearnedSum, keys_of
from weir.dpcore.errors import ConfigError
from weir.dpcore.pricing.calibration import calibrated, round_up
from weir.dpcore.pricing.noises import noises_for
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.words import number

BINS = 40
"""Of a histogram: each ends sqrt(2) times as high as the one below, the last with ``top``."""
PURE = ("kary_tree", "tree", "independent", "hybrid")
"""Sums under pure noise that are looked at."""
FALSE = 0.001
"""Chance that noise alone finds a bin of an empty histogram, at most."""

Times = Annotated[
    float, Field(ge=1, le=64, allow_inf_nan=False), Says("must be a number from 1 to 64, like 2.")
]


class Learn(Section):
    """How a clip is learned from the first ticks of the clock."""

    ticks: AnyTicks = Field(
        description="The first ticks, or a duration: their values choose the clip, and are in no "
        "sum. With privacy.unit: user they end with a period (privacy.per).",
        examples=[30, "30d"],
    )
    top: Positive = Field(
        description="No clip is higher. Public: choose it generously, like 1e6; the noise does not "
        "follow it.",
        examples=["1e6"],
    )
    start: Positive = Field(
        description="The clip of a key whose values the noise hides. Public, at most top.",
        examples=[100],
    )
    times: Times = Field(
        default=2.0,
        description="The clip is so many times as high as the highest bin of sizes that is found.",
        examples=[2],
    )

    @property
    def edges(self) -> tuple[float, ...]:
        """Upper ends of the bins."""
        halves = range(BINS - 1, -1, -1)
        root = math.sqrt(0.5)
        return tuple(self.top * 0.5 ** (half // 2) * (root if half % 2 else 1.0) for half in halves)

    @property
    def first_clip(self) -> int:
        """Place of the lowest edge that is ``start`` or more."""
        return next(at for at, edge in enumerate(self.edges) if edge >= self.start * (1 - 1e-12))

    @property
    def wider(self) -> int:
        """Edges from a bin's upper end to ``times`` times as high, rounded up."""
        return math.ceil(2 * math.log2(self.times) - 1e-9)


class LearnClip(Section):
    """A clip that is learned in private, in place of two numbers."""

    learn: Learn = Field(
        description="Learned from the first ticks by a noisy histogram of sizes, then frozen.",
        examples=["{ticks: 30, top: 1e6, start: 100}"],
    )


def refuse_learned(aggregates: Mapping[str, Aggregate], terms: Terms) -> None:
    """Raises ConfigError: a clip that is to be learned, where it cannot be."""
    for name, aggregate in aggregates.items():
        learn = getattr(aggregate, "learn", None)
        if learn is not None:
            _check(f"aggregates.{name}.clip.learn", learn, terms)


def _check(field: str, learn: Learn, terms: Terms) -> None:
    ticks, horizon, person = learn.ticks, terms.horizon, terms.person

    def refuse(at: str, value: Any, remedy: str) -> None:
        raise ConfigError(at, value, remedy)

    if learn.start > learn.top:
        refuse(f"{field}.start", learn.start, f"must be at most top, {learn.top:g}.")
    if terms.clock.once:
        refuse(field, None, "needs a clock, whose first ticks it learns from; write a public clip.")
    if horizon is not None and ticks >= horizon:
        words = f"must be fewer than the {horizon:,} ticks of the clock, as sums begin behind them."
        refuse(f"{field}.ticks", ticks, words)
    if terms.relation == "replace_anywhere":
        words = "moves events between ticks, and clip.learn needs them apart; write add_remove."
        refuse("privacy.relation", terms.relation, words)
    if terms.groups is not None:
        why = "whose weights need public clips"
        if person is not None:
            why = "whose users' sums meet in coarser keys"
        words = (
            f"cannot be combined with {field}, {why}; give each grouping a plan of its own, or "
            "write a public clip."
        )
        refuse("key.groups", terms.groupings, words)
    if not set(noises_for(terms)) & set(LearnedSum.kinds):
        at: str = "mechanism.noise" if terms.noise else "privacy.delta"
        words = (
            f"cannot serve {field}: a learned clip needs Gaussian or pure noise; set "
            "privacy.delta: 1e-6 or 0, without mechanism.noise."
        )
        refuse(at, terms.noise or terms.delta, words)
    if person is None:
        return
    periods = person.periods
    if periods.longest is None or periods.per is None:
        words = "has one period, in which nobody comes behind the first ticks; take one like 30d."
        refuse("privacy.per", "all", words)
    before = int(periods.of(np.asarray([ticks - 1]))[0])
    ends = [n for n in (periods.first(before), periods.first(before + 1)) if n > 0]
    if ticks not in ends:
        words = f"must end with a period (privacy.per): {' or '.join(map(str, ends))} ticks."
        refuse(f"{field}.ticks", ticks, words)


@dataclass(frozen=True)
class LearnedOutput(AggregateOutput):
    """A noisy sum within a learned clip.

    Attributes:
      sizes, parts, signs: indices of its channels. learn: how the clip is learned.
    """

    sizes: int
    parts: int
    signs: int
    learn: Learn

    kind: ClassVar[str] = "sum"

    @property
    def unit(self) -> float:
        """The clip of a key whose values the noise hides; other clips have noise in proportion."""
        return self.learn.edges[self.learn.first_clip]

    @property
    def channels(self) -> tuple[int, ...]:
        """Channels it reads."""
        return (self.sizes, self.parts, self.signs)

    def canonical(self) -> tuple[Any, ...]:
        return ("learned",)

    def importance(self) -> dict[int, float]:
        return {self.sizes: self.weight}

    def solve(self, noisy: Noisy) -> tuple[Floats, Floats]:
        """Nothing is there to say while the clip is learned."""
        value, stddev = noisy(self.sizes)
        total, clip = value[:, :, :1], value[:, :, 1:]
        some = clip > 0
        spread = np.broadcast_to(stddev[:, :, :1] * clip, total.shape)
        return np.where(some, total, np.nan), np.where(some, spread, np.nan)


@dataclass(frozen=True)
class LearnedLeaf(ChannelLeaf):
    """The channels of one learned clip, as a calibration looks at them: one number is released."""

    @property
    def once(self) -> bool:
        """No: every cell adds to sums."""
        return False

    @property
    def dimension(self) -> int:
        """One number is released."""
        return 1

    @property
    def learn(self) -> Learn:
        """Of its output."""
        (output,) = self.outputs
        assert isinstance(output, LearnedOutput)
        return output.learn

    def scales(self, unit: Callable[[], ContinualSum]) -> tuple[float, ...]:
        """The clip."""
        return (float(FULL),)

    def sensitivity(self, scales: Sequence[float], add_up: bool) -> float:
        """A value within the clip, once for each event."""
        events = self.channels[self.read[1]].events
        group = ChannelGroup(0, 1, -FULL, FULL, events=events)
        relation = self.terms.cell_relation
        return joint_sensitivity([group], scales, relation, self.terms.may_vanish)

    def mechanism(self, name: str, budget: PrivacyLoss) -> LearnedSum:
        """With all of the budget for the histogram, and for sums.

        What it guarantees: see ``LearnedSum``.
        """
        terms, learn, pure = self.terms, self.learn, budget.kind == "pure"
        inner = self._inner(name, budget)
        moved = 1 if terms.relation == "add_remove" else 2 if terms.person is None or pure else 4
        moved, keys = moved * terms.groupings, 1
        if terms.person is not None:
            keys = keys_of(terms.person.pattern, terms.known_keys)
        change = moved * keys if pure else math.sqrt(moved * keys)
        scale = round_up(change / budget.value * (1 + 2.0**-36))
        reach = math.log(BINS / FALSE / 2) if pure else -float(ndtri(FALSE / BINS))
        threshold = round_up(reach * scale, 20)
        shape = (learn.ticks, learn.edges, learn.first_clip, learn.wider)
        return LearnedSum.around(inner, *shape, scale, threshold, moved, terms.known_keys)

    def _inner(self, name: str, budget: PrivacyLoss) -> ContinualSum:
        """The sum by its name, else the one that serves; under pure noise that of least error."""
        terms, refused = self.terms, list[ConfigError]()
        results = list[tuple[float, ContinualSum]]()
        others = PURE if budget.kind == "pure" else (name, "blt")
        for item in others if terms.continual_sum is None else (name,):
            try:
                inner = calibrated(item, self, terms, budget)
            except ConfigError as error:
                refused.append(error)
                continue
            if budget.kind != "pure":
                return inner
            spread = (inner.stddev(terms.ticks(), over).max() for over in self.overs)
            if not inner.caveat or terms.lasting is None:
                results.append((sum(spread), inner))
        if not results:
            raise refused[-1]
        return min(results, key=lambda item: item[0])[1]


def learns(output: AggregateOutput) -> bool:
    """Whether an output has a learned clip."""
    return isinstance(output, LearnedOutput)


CLIPS = "must be two finite numbers: [low, high]; or {learn: {ticks: 30, top: 1e6, start: 100}}."


def as_clip(value: Any) -> Any:
    """[low, high] as a tuple, and {learn: ...} as a section."""
    if isinstance(value, LearnClip):
        return value
    if isinstance(value, Mapping):
        try:
            return validate(LearnClip, value)
        except ConfigError as error:
            raise refusal(error.field, error.value, error.remedy) from None
    value = with_numbers(value)
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(CLIPS)
    if any(isinstance(item, bool) or not isinstance(item, int | float) for item in value):
        raise ValueError(CLIPS)
    return tuple(map(float, value))


Clip = Annotated[
    Any,
    BeforeValidator(as_clip, json_schema_input_type=Pair | LearnClip),
]


def leaves_of(
    leaf: ChannelLeaf, outputs: Iterable[AggregateOutput]
) -> list[tuple[str, LearnedLeaf]]:
    """A leaf for each output with a learned clip, and the sum that suits its spans."""
    results, terms = [], leaf.terms
    for output in outputs:
        overs = tuple(sorted(output.overs, key=lambda over: over or math.inf))[::-1]
        name = "blt"
        if overs == (1,):
            name = "independent"
        elif len(overs) == 1 and overs[0] is not None:
            name = "sliding"
        elif overs == (None,) and terms.lasting is None and (terms.horizon or LONGEST) < LONGEST:
            name = "ended"
        name = terms.continual_sum or name
        results.append((name, LearnedLeaf(leaf.channels, (output,), overs, terms, leaf.norm)))
    return results


def learned_notes(program: Any) -> Iterator[str]:
    """What a plan says of clips that are learned."""
    for output in getattr(program, "infos", ()):
        if not isinstance(output, LearnedOutput):
            continue
        part = next(part for part in program.parts if output.sizes in part.channels)
        learn, mechanism = output.learn, part.mechanism
        clip = number(output.unit)
        who = "users" if mechanism.pattern is not None else "events"
        yield (
            f"{output.name}: the first {learn.ticks:,} ticks choose its bound, and are in no sum: "
            f"{number(learn.times)} times the highest bin of sizes that about "
            f"{number(mechanism.threshold)} {who} or more have there, at most {number(learn.top)}. "
            f"The error is for a bound of {clip}, that of a key where no bin is found or that "
            "appears later; for others it is in proportion. `weir rehearse` shows the bound of "
            "its events."
        )
