"""Fields and words of algorithms of one pass."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Protocol, TypeVar

import numpy as np
from pydantic import Field

from weir.dpcore.algorithm import Compiled, Reading, Shown
from weir.dpcore.arrays import Floats
from weir.dpcore.config.section import Positive, Says, Section
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.leaves.sparse_rows import MOST_DENSE
from weir.dpcore.models.blocks.partition import check_places
from weir.dpcore.models.erm.section import refuse_sums
from weir.dpcore.models.fields import AnyLoss, Cap, OneTarget, cap_refusal, label_field
from weir.dpcore.models.kit.inputs import Inputs, SparseInputs
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.kit.rows import is_void
from weir.dpcore.models.model import Model
from weir.dpcore.models.optimize.course import MOST_RUNS, OnePassAlgorithm
from weir.dpcore.models.optimize.glm import Glm
from weir.dpcore.models.optimize.one_pass import OnePass
from weir.dpcore.models.optimize.rehearsed import rehearsed
from weir.dpcore.models.optimize.sfw import TreeRun, tree_runs
from weir.dpcore.models.optimize.tree import MOST_PHASES
from weir.dpcore.models.prediction import Given, Predicted, inputs_of, sparse_linear
from weir.dpcore.models.words import OWN_UNITS
from weir.dpcore.neighbours import Family
from weir.dpcore.pricing.calibration import MOST_STATE, Alternative
from weir.dpcore.pricing.noises import fine_enough
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.words import bytes_text, number

MOST_RECORDS = 1 << 31
MOST_A_TICK = 1 << 16
"""Rows of a key and tick, at most, where the config does not say."""
WIDE_STATE = 1 << 30
"""Bytes of state of a key, at most, where rows are sparse: vectors of d numbers are what there is.
"""

Records = Annotated[
    int,
    Field(ge=3, le=MOST_RECORDS),
    Says(f"must be a whole number from 3 to {MOST_RECORDS:,}."),
]
Phases = Annotated[
    int,
    Field(ge=1, le=MOST_PHASES),
    Says(f"must be a whole number from 1 to {MOST_PHASES}."),
]
WIDTHS = tuple(2.0**-k for k in range(-1, 12))
"""Widths of a smoothed corner that are tried."""


class Planned(Protocol):
    """A run, as far as the choice of a smoothing looks at it."""

    @property
    def glm(self) -> Glm: ...

    @property
    def predicted(self) -> float: ...


R = TypeVar("R", bound=Planned)


class OnePassClip(Section):
    """Bounds of what one event may contribute, in scaled units. Public: never from the data."""

    features: Positive = Field(
        default=1.0,
        description="An event whose scaled features have a larger norm is shortened to it: the "
        "norm that is dual to the set's (of an lp_ball the lq norm, 1/p + 1/q = 1; of an l1_ball "
        "or simplex the largest entry), l2 for optimize.phased_sgd. Noise grows with it.",
        examples=[1.0],
    )


class OnePassSection(Model):
    """The fields of a model that reads each record once, and what follows from them alone."""

    target: OneTarget = label_field()
    loss: AnyLoss = Field(
        default="squared",
        description="squared, absolute, {quantile: tau}, {huber: width}, logistic or hinge. The "
        "corner of absolute, quantile and plain hinge is smoothed as far as serves best, less in "
        "every run; {hinge: 0.5} keeps its width.",
        examples=["logistic"],
    )
    records: Records = Field(
        default=1024,
        description="Records of the first run; every next run has twice as many. The first model "
        "is released when it is complete.",
        examples=[1024],
    )
    clip: OnePassClip = Field(
        default=OnePassClip(),
        description="Bound of the norm of one event's features.",
        examples=["{features: 1.0}"],
    )
    cap: Cap | None = Field(
        default=None,
        description="Most events of a key and tick that are learned from; of more, a keyed hash "
        "chooses, and the others are counted as over capacity. Without it 65,536, fewer of very "
        "wide rows.",
        examples=[65536],
    )

    @property
    def loss_spec(self) -> str | Mapping[str, Any]:
        """The loss as the config writes it."""
        return self.loss

    @property
    def bounded_set(self) -> ConvexSet:
        """Where models lie."""
        return parse_set(self.set, self.dimension)

    @property
    def dual(self) -> float:
        """q, of the norm of features."""
        return 2.0

    @property
    def inputs(self) -> Inputs:
        """From columns to rows, sparse ones where a list column is wide."""
        return inputs_of(self, float(self.clip.features), dual=self.dual)

    @property
    def most_filled(self) -> int | None:
        listed = self.listed
        return None if listed is None or listed.size <= MOST_DENSE else listed.filled

    def glms(self, convex_set: ConvexSet, radius: float) -> Callable[[float], Glm]:
        """smoothing -> the loss with its constants, of a loss with corners; else of any number."""
        loss = parse_loss(self.loss)
        rough, most = self.smooths, self.most_filled

        def made(smoothing: float) -> Glm:
            return Glm(
                loss.envelope(smoothing) if rough else loss,
                len(self.features),
                self.intercept,
                self.dual,
                float(self.clip.features),
                radius,
                most,
            )

        return made

    @property
    def smooths(self) -> bool:
        """Whether the loss has a corner whose smoothing nobody gave."""
        return self.loss == "hinge" or parse_loss(self.loss).cornered

    def best_width(self, run: Callable[[float], R]) -> R:
        """The run of the least predicted error over all widths of a smoothed corner, g slope^2 / 2
        of which the smoothing itself adds; of a loss that is smooth the only one there is."""
        if not self.smooths:
            return run(1.0)
        results = [(run(width), width) for width in WIDTHS]
        return min(
            results, key=lambda item: item[0].predicted + item[1] * item[0].glm.slope ** 2 / 2
        )[0]

    def trees(
        self,
        convex_set: ConvexSet,
        radius: float,
        make: Callable[[Glm, int, int], TreeRun],
        phases: int | None,
        rehearse: bool,
    ) -> tuple[TreeRun, ...]:
        """All runs of a tree. make, phases: see ``tree_runs``. rehearse: whether R is chosen by it,
        else by ``tree_guess``."""
        glms = self.glms(convex_set, radius)
        judged = partial(rehearsed, convex_set=convex_set) if rehearse else None
        sizes = [self.records << k for k in range(MOST_RUNS)]
        return tree_runs(
            make,
            lambda run: self.best_width(lambda width: run(glms(width))),
            sizes,
            phases,
            judged,
        )

    def cap_for(self, inputs: Inputs) -> int:
        """Rows of a key and tick, at most: what is said, or as many as there is room for."""
        if self.cap is not None:
            return self.cap
        if not inputs.sparse:
            return MOST_A_TICK
        return max(1, min(MOST_A_TICK, WIDE_STATE // 4 // inputs.row_bytes))

    def predict(self, given: Given, model: Floats) -> Predicted:
        """Of events that are moved and shortened as those that it learned from."""
        inputs, n = self.inputs, len(next(iter(given.values())))
        ends = inputs.target_ends
        # Rows have a target: any that is none of theirs to see.
        rows = inputs.bound({**given, inputs.target: np.full(n, sum(ends) / 2)}, n).rows
        if isinstance(inputs, SparseInputs):
            loss = parse_loss(self.loss_spec)
            name, own = loss.name if loss.labels else None, rows.features.csr * inputs.bound_at
            return sparse_linear(own, np.isnan(rows.last), inputs.target, ends, model, name)
        moved: dict[str, Floats] = {}
        ranges = self.public_ranges
        for place, name in enumerate(self.features):
            low, high = ranges[name]
            own = (low + high) / 2 + rows[:, place] * ((high - low) / 2)
            moved[name] = np.where(is_void(rows), np.nan, own)
        return super().predict(moved, model)


SHOWN_RUNS = 4
"""Runs that a plan tells of."""
COMPARED = 12
"""Runs over which noises are compared."""

BARE = "Models have no margin of error: what noise does to a model depends on the events."


class OnePassModel(OnePassSection):
    """A model that reads each record once and is released when the records have doubled."""

    neighbours: ClassVar[Family] = Family(
        ("first", "powers"), "canary", "each record is read once, in a run that doubles"
    )

    reading: ClassVar[Reading] = Reading(
        "Every line is what was released; the events are not in this page. theta is the newest "
        "model, of features scaled to the public ranges; model_of says which records, by their "
        "place, its run read.",
        BARE,
        BARE,
    )
    outputs: ClassVar[Mapping[str, Shown]] = {
        "theta": Shown("coefficients in scaled units, of the newest model", role="scaled_model"),
        "coefficients": OWN_UNITS,
        "model_of": Shown("first and last record of the newest model's run", role="trace"),
    }
    told: ClassVar[frozenset[str]] = frozenset({"theta", "coefficients", "model_of"})
    wide: ClassVar[bool] = True
    untaken: ClassVar[Mapping[str, str]] = {
        "classes": "the target is a number whose sign is the label, as rows are clipped to the "
        "norm "
        "dual to the set's. Give a column of 0 and 1 with ranges [0, 1], or take "
        "optimize.frank_wolfe for two classes, erm.* for more."
    }
    event_only: ClassVar[str] = (
        "a record is read once, and what several records of a user do together is not derived; "
        "take online.follow_the_leader"
    )

    @abstractmethod
    def courses(self, terms: Terms) -> Mapping[tuple[str, str], Callable[[], OnePassAlgorithm]]:
        """(form, noise) -> the course of it, for every one that could serve.

        Raises:
          ConfigError: what no form can serve.
        """

    @property
    def smaller(self) -> str:
        """What makes the state smaller."""
        return "model.phases: 2"

    def noises_asked(self, terms: Terms, own: str | None = None) -> tuple[str, ...]:
        """The noises to try: what mechanism.noise names, or the model's own field, or all.

        Raises:
          ConfigError: one that is not for it, two that differ, or delta is too fine for it.
        """
        if terms.noise is None:
            return fine_enough(self.noises if own is None else (own,), terms.delta)
        if own is not None and own != terms.noise:
            raise ConfigError("model.noise", own, f"is not mechanism.noise: {terms.noise}.")
        if terms.noise not in self.noises:
            raise ConfigError(
                "mechanism.noise", terms.noise, f"is not for it: {', '.join(self.noises)} only."
            )
        return fine_enough((terms.noise,), terms.delta)

    def compile(self, terms: Terms) -> Compiled:
        """The form and noise of the least predicted error, and every one that could be.

        Raises:
          ConfigError: what it cannot serve.
        """
        refuse_sums(terms, self.name)
        check_places(terms, f"{self.name}, which reads records in the order of tick and id.")
        offers = []
        refused: list[ConfigError] = []
        for (form, noise), make in self.courses(terms).items():
            try:
                course = make()
            except ConfigError as error:
                refused.append(error)
                continue
            runs = range(min(COMPARED, course.served))
            score = math.exp(sum(math.log(course.predicted(run)) for run in runs) / len(runs))
            offers.append((score, form, noise, course))
        if not offers:
            raise refused[0]
        offers.sort(key=lambda item: item[0])
        best = offers[0][0]
        program = self._program(offers[0][3])
        program.waits.check("model.records", self.records, terms)
        state, room = program.state_bytes(), WIDE_STATE if program.inputs.sparse else MOST_STATE
        if state > room:
            raise ConfigError(
                "model.features",
                self.dimension,
                f"coefficients take {state / 2**20:,.0f} MiB of state a key, above "
                f"{room >> 20:,} MiB; take fewer, or {self.smaller}.",
            )
        alternatives = tuple(
            Alternative(
                form,
                noise,
                i == 0,
                score / best,
                self._program(course).state_bytes(),
                course.loss().epsilon(terms.delta),
                {},
            )
            for i, (score, form, noise, course) in enumerate(offers)
        )
        return self.compiled(program, alternatives)

    def _program(self, course: OnePassAlgorithm) -> OnePass:
        inputs = self.inputs
        return OnePass(inputs, course, self.cap_for(inputs), self.name)

    # ---- what it says

    def bounds_facts(self, program: OnePass) -> Iterator[tuple[str, str]]:
        """What one event may add."""
        yield "one event adds", program.course.adds

    def own_facts(self, program: OnePass) -> Iterator[tuple[str, str]]:
        """What runs do."""
        yield "noise", program.course.kind.replace("_", " ")
        for run in range(min(SHOWN_RUNS, program.course.served)):
            yield f"run {run + 1}", program.course.words(run)
        yield "state", f"{bytes_text(program.state_bytes())} a key, however many records"

    def notes(self, program: OnePass) -> Iterator[str]:
        yield (
            "Each record is read once, in the run that its place is in; the model of a run is "
            "released when the last record that it reads is there, and until the next one is. "
            "Before the first there is none (null). Excess risks are bounds, in scaled units, "
            "over the best model of the set: what is measured lies below."
        )
        yield from program.course.notes

    def doubts(self, program: OnePass, terms: Terms) -> Iterator[str]:
        yield from super().doubts(program, terms)
        yield from program.waits.doubts(terms)
        yield from program.course.doubts

    def refused(self) -> Iterator[str]:
        yield from super().refused()
        norm = "largest entry" if math.isinf(self.dual) else f"l{self.dual:g} norm"
        yield (
            f"features of a scaled {norm} above {self.clip.features:g} are shortened to it, and "
            "counted as clipped"
        )
        cap = self.cap_for(self.inputs)
        yield cap_refusal(cap)

    def warnings(self, program: OnePass) -> Iterator[str]:
        yield from super().warnings(program)
        yield (
            "Runs are of records, in the order of tick and id: model_of reveals how many events a "
            "key has so far. Events without an id are refused."
        )
        first = program.course.predicted(0)
        if first > 1:
            yield (
                f"The first model may be no better than none: its excess risk is bounded by "
                f"{number(first)} only. Give the first run more records (model.records)."
            )
