"""What every model is in a config. A new learner is one file and one line in the registry.

A model's section is its algorithm: it declares the fields that it reads, with their bounds,
compiles them under the terms, and says in words what it does. Everything in it is in scaled units
but ``ranges``: a feature and the target are mapped from their range to [-1, 1], and the
coefficients, the set, the clips and the losses are about those.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from weir.dpcore.algorithm import (
    Bias,
    Compiled,
    Error,
    ModelColumns,
    Reading,
    Shown,
    noise_behind,
)
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.config.schema import FeatureColumns, ListColumn, listed_of
from weir.dpcore.config.section import FARTHEST, NEAREST, Pair, Section, nearest, refusal
from weir.dpcore.config.ticks import spans_of
from weir.dpcore.leaves.sparse_rows import MOST_DENSE
from weir.dpcore.models.fields import MOST_COEFFICIENTS, Target
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.prediction import Given, Predicted, linear
from weir.dpcore.models.words import advice, bounds_words, columns_words, loss_words
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import OutputInfo
from weir.dpcore.words import number

SHOWN = 8
"""Columns that are named; of more, how many there are."""

UNSAID = (
    "it does not say what a user adds to its sums; take online.follow_the_leader or "
    "regression.incremental"
)
NOISES = ("gaussian", "discrete_gaussian", "k_norm")


class Predictor(Section):
    """A model of columns that is learned and released at every tick, instead of aggregates.

    Class attributes, for people:
      title: in a few words. about: in a sentence or two. source: where it is from.
      noises: which noises it can use. reading: how its pictures are to be read.
      outputs: name of each release -> how it is shown.
      told: what the table of releases tells the noise of. wide: whether it takes rows of more
        features than ``MOST_DENSE``, packed.
      predicts_by: name of the release that predictions are made with. public: releases that are
        computed from public numbers and noise alone.
      own_schedule: see Algorithm. event_only: why a plan of users cannot take it, and what to take;
        "": ``compile`` takes into account what a user adds to a cell (``Terms.person``). Said next
        to ``compile``, or below: a class that compiles in another way does not inherit it.
    """

    algorithm: str = Field(
        description="Name of a learner; `weir algorithms` lists them.",
        examples=["online.follow_the_leader"],
    )
    features: FeatureColumns = Field(
        description="Numeric columns that predict; one coefficient each, in this order. Or the "
        "numbers of one list column: {column: pixels, size: 784}, of a sparse pair of them: "
        "{indices: word_ids, values: word_counts, size: 4000}.",
        examples=[["departure_delay", "distance"], "{column: pixels, size: 784}"],
    )
    target: Target = Field(
        description="Numeric column that is predicted; losses of labels read its sign once scaled. "
        "A list of columns fits a model for each, where the algorithm does that.",
        examples=["arrival_delay"],
    )
    intercept: bool = Field(
        default=True,
        description="Whether the model has a constant term, its last coefficient.",
        examples=[True],
    )
    ranges: dict[str, Pair] = Field(
        description="[low, high] of every feature and the target: values outside are moved to the "
        "nearer bound, then scaled to [-1, 1]. A list column has one pair for all its numbers. "
        "Public: choose them from what you know, never from the data.",
        examples=["{departure_delay: [-30, 120], distance: [0, 5000], arrival_delay: [-60, 180]}"],
    )
    untaken: ClassVar[Mapping[str, str]] = {}
    """Fields of other models -> what to do without them here, where it is not plain."""
    title: ClassVar[str]
    about: ClassVar[str]
    source: ClassVar[str]
    noises: ClassVar[tuple[str, ...]] = NOISES
    reading: ClassVar[Reading]
    outputs: ClassVar[Mapping[str, Shown]]
    told: ClassVar[frozenset[str]] = frozenset({"theta", "coefficients", "loss"})
    grows: ClassVar[bool] = False
    wide: ClassVar[bool] = False
    own_schedule: ClassVar[str] = ""
    event_only: ClassVar[str] = UNSAID
    predicts_by: ClassVar[str] = "coefficients"
    public: ClassVar[frozenset[str]] = frozenset({"model_of", "band"})

    @classmethod
    def takes(cls, field: str) -> bool:
        """Whether it reads a field of the model section; of a section in it, with a dot."""
        name, _, inner = field.partition(".")
        info = cls.model_fields.get(name)
        if info is None or not inner:
            return info is not None
        section = info.annotation
        if not (isinstance(section, type) and issubclass(section, Section)):
            return False
        return inner in section.model_fields

    @property
    def name(self) -> str:
        """Its name in the config."""
        return self.algorithm

    @property
    def only_events(self) -> str:
        for cls in type(self).__mro__:
            if "event_only" in vars(cls):
                return str(vars(cls)["event_only"])
            if "compile" in vars(cls):
                break
        return UNSAID

    @property
    def dimension(self) -> int:
        """d, number of coefficients."""
        return len(self.features) + self.intercept

    @property
    def columns(self) -> tuple[str, ...]:
        """Features, then the targets."""
        return (*self.features, *self.targets)

    @property
    def listed(self) -> ListColumn | None:
        """The list column that the features lie in; None: they are columns of their own."""
        return listed_of(self.features)

    @property
    def sources(self) -> tuple[str, ...]:
        """Columns that the features are read from."""
        return self.features if self.listed is None else self.listed.columns

    @property
    def targets(self) -> tuple[str, ...]:
        """Columns that are predicted."""
        return (self.target,) if isinstance(self.target, str) else self.target

    @property
    def public_ranges(self) -> dict[str, tuple[float, float]]:
        """Column -> (low, high)."""
        results = {name: (float(low), float(high)) for name, (low, high) in self.ranges.items()}
        if self.listed is not None:
            results |= dict.fromkeys(self.features, results.pop(self.listed.name))
        return results

    @property
    def loss_spec(self) -> str | Mapping[str, Any]:
        """The loss as the config writes it."""
        return "squared"

    @property
    def ranged(self) -> tuple[str, ...]:
        """Features, and what else has a range."""
        return self.columns

    @property
    def range_names(self) -> tuple[str, ...]:
        """What ranges are of: columns, and a list column once for all its features."""
        if self.listed is None:
            return self.ranged
        return (self.listed.name, *self.ranged[len(self.features) :])

    @property
    def declared(self) -> Mapping[str, tuple[str, ...] | tuple[float, ...]]:
        """Columns of which only declared values count -> those."""
        return {}

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns of declared values that are read as text."""
        return tuple(name for name, some in self.declared.items() if isinstance(some[0], str))

    @property
    def place(self) -> str:
        """Where the coefficients lie, for people."""
        return f"R^{self.dimension}"

    # ---- checks

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if self.dimension > MOST_COEFFICIENTS and self.listed is None:
            raise refusal(
                "features", len(self.features), f"must be at most {MOST_COEFFICIENTS - 1:,}."
            )
        if self.listed is not None:
            if self.listed.size > MOST_DENSE and not self.wide:
                raise refusal(
                    "features.size",
                    self.listed.size,
                    f"must be at most {MOST_DENSE:,}: {self.algorithm} is of dense rows. Hash or "
                    "choose features before they come here, without looking at the data.",
                )
            for name in self.listed.columns:
                if name in self.targets:
                    raise refusal(
                        "target", name, "is read for the features too; remove it from one."
                    )
            if set(self.targets) & set(self.features):
                raise refusal(
                    "target", self.target, "is named as one of the features is; rename the column."
                )
        if len(set(self.targets)) < len(self.targets):
            raise refusal("target", list(self.targets), "lists a column twice; list each once.")
        seen: dict[str, None] = {}
        for name in self.features:
            if name in self.targets:
                raise refusal(
                    "target",
                    name,
                    "is among the features too: it would predict itself; remove it from one.",
                )
            if name in seen:
                raise refusal("features", name, "is listed twice; list every column once.")
            seen[name] = None
        return self

    @model_validator(mode="after")
    def _check_ranges(self) -> Self:
        listed = self.listed
        packed = () if listed is None or listed.size <= MOST_DENSE else (listed.name,)
        for name in self.range_names:
            if name not in self.ranges:
                raise refusal(
                    f"ranges.{name}",
                    None,
                    "is missing; every feature and the target needs a public range, like "
                    f"`{name}: [0, 100]`.",
                )
        for name, (low, high) in self.ranges.items():
            wrong = ""
            if name not in self.range_names:
                wrong = f"is neither a feature nor the target; {nearest(name, self.range_names)}"
            elif name in packed and low != -high:
                bound = max(abs(low), abs(high))
                wrong = (
                    f"must have 0 in its middle: of more than {MOST_DENSE:,} features only those "
                    f"that are not 0 are kept. Write [{-bound:g}, {bound:g}]."
                )
            elif not (math.isfinite(low) and math.isfinite(high)):
                wrong = "must be two finite numbers: [low, high]."
            elif low >= high:
                wrong = "must be [low, high] with low below high."
            elif max(abs(low), abs(high)) > FARTHEST or high - low < NEAREST:
                wrong = (
                    f"must lie in [-{FARTHEST:g}, {FARTHEST:g}], its bounds {NEAREST:g} or more "
                    "apart; rescale the column."
                )
            if wrong:
                raise refusal(f"ranges.{name}", [low, high], wrong)
        return self

    # ---- what it does

    @abstractmethod
    def compile(self, terms: Terms) -> Compiled:
        """See Algorithm; what it made is given to ``compiled``."""

    def compiled(self, program: Any, alternatives: tuple[Alternative, ...]) -> Compiled:
        """See Algorithm; all that is said of the program below is given the same."""
        noise = noise_behind(alternatives)
        return Compiled(
            program,
            alternatives,
            tuple(self.facts(program, noise)),
            tuple(self.notes(program)),
            tuple(self.warnings(program)),
            {output: self.left_out(output, program) for output in self.outputs},
        )

    def settled(self, terms: Terms) -> Self:
        return self  # with defaults that predictions need and that follow from terms named

    def predict(self, given: Given, model: Floats) -> Predicted:
        """What a model that was released says of other events.

        Args:
          given: their features. model: the release ``predicts_by``, of one key and tick.
        """
        loss = parse_loss(self.loss_spec)
        name = loss.name if loss.labels else None
        return linear(given, self.features, self.targets, self.public_ranges, model, name)

    # ---- what it says

    def in_spans(self, every: int) -> Self:
        over = getattr(self, "over", None)
        if not isinstance(over, int):
            return self
        return self.model_copy(update={"over": spans_of("model.over", over, every)})

    def columns_read(self) -> ModelColumns | None:
        if self.listed is None:
            return ModelColumns(self.features, self.targets, self.public_ranges)
        ranges = {name: (float(low), float(high)) for name, (low, high) in self.ranges.items()}
        return ModelColumns(self.listed.columns, self.targets, ranges)

    def shown(self, output: str) -> Shown:
        return self.outputs.get(output, Shown(""))

    def left_out(self, output: str, program: Any) -> Bias:
        """What public bounds do to a release of that name."""
        if output in self.public:
            return Bias(takes=None)
        return Bias((bounds_words(output, self.clips(program), program),))

    def clips(self, program: Any) -> dict[str, float | None]:
        """Bounds on one event, by the field of ``model.clip``; None: no event exceeds it."""
        clip = getattr(self, "clip", None)
        fields = () if clip is None else type(clip).model_fields
        return {name: getattr(clip, name) for name in fields}

    def expected_error(self, info: OutputInfo, ticks: Ints) -> Error:
        return Error(info.stddev_worst)

    def facts(self, program: Any, noise: Mapping[str, float]) -> Iterator[tuple[str, str]]:
        """What is learned, of what, where, and with which noise: name and words.

        noise: name -> worst stddev of the private sums behind what is released.
        """
        yield "algorithm", f"{self.name}: {self.title}"
        yield "predicts", f"{', '.join(self.targets)}, with loss {loss_words(self.loss_spec)}"
        yield "from", columns_words(self.features, self.intercept, self.listed)
        yield "coefficients in", self.place
        yield from self.bounds_facts(program)
        for name, worst in noise.items():
            if name not in self.told and math.isfinite(worst):
                known = "the gradient sum" if name == "gradient" else name
                yield f"noise of {known}", f"{number(worst)} (std of a coordinate, worst tick)"
        yield from self.own_facts(program)

    def bounds_facts(self, program: Any) -> Iterator[tuple[str, str]]:
        """What one event may add."""
        return iter(())

    def own_facts(self, program: Any) -> Iterator[tuple[str, str]]:
        """What is of this algorithm alone."""
        return iter(())

    def notes(self, program: Any) -> Iterator[str]:
        """What the table of releases leaves open."""
        return iter(())

    def refused(self) -> Iterator[str]:
        ranged = self.range_names
        for name in ranged[:SHOWN] if len(ranged) > 2 * SHOWN else ranged:
            low, high = self.ranges[name]
            yield f"values of {name} are moved into [{low:g}, {high:g}]"
        if len(ranged) > 2 * SHOWN:
            more = len(ranged) - SHOWN
            yield f"and so are those of {more:,} more columns, into their ranges"
        if self.listed is not None and self.listed.size > MOST_DENSE:
            yield (
                f"of an event with more than {self.listed.filled:,} numbers in {self.listed.name} "
                "that are not 0 the largest count, the others are 0"
            )
        yield (
            "an event that lacks one of these numbers, or has one that is not finite, teaches the "
            "model nothing; such numbers are counted for the operator as non_finite"
        )

    def doubts(self, program: Any, terms: Terms) -> Iterator[str]:
        """See Algorithm; and which learner would serve better."""
        squared = self.loss_spec == "squared"
        yield from advice(self.name, squared, self.dimension, self.fades(terms), terms)

    def fades(self, terms: Terms) -> bool | None:
        """Whether its pull to a centre fades; None: there is none, or the config chose it."""
        return None

    def warnings(self, program: Any) -> Iterator[str]:
        """What a reader should know before running it."""
        if parse_loss(self.loss_spec).labels:
            low, high = self.ranges[self.targets[0]]
            yield (
                f"This loss reads the target as a label: {(low + high) / 2:g}, the middle of its "
                "range, and above is +1, below is -1."
            )
