"""``optimize.frank_wolfe`` in a config."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.algorithm import Compiled, Reading, Shown
from weir.dpcore.arrays import Floats
from weir.dpcore.config.section import Says
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.fields import (
    Block,
    Users,
    block_cap_field,
    block_field,
    block_users_field,
)
from weir.dpcore.models.blocks.objective import predict
from weir.dpcore.models.blocks.partition import ByUsers, cut_for
from weir.dpcore.models.blocks.schedule import presence_of
from weir.dpcore.models.blocks.words import shared_note
from weir.dpcore.models.erm.section import refuse_sums
from weir.dpcore.models.fields import MOST_ROWS, Cap, algorithm_field
from weir.dpcore.models.optimize.linear import MOST_STEPS
from weir.dpcore.models.optimize.program import (
    SELECTIONS,
    WindowProgram,
    Windows,
    budgets,
    choose,
    refit_noises,
    strategy_for,
    tried_noises,
)
from weir.dpcore.models.optimize.refit import MOST_TERMS, QUIET, Refit, refit_for
from weir.dpcore.models.optimize.section import OptimizeModel
from weir.dpcore.models.optimize.width import FitStrategy
from weir.dpcore.models.prediction import Given, Predicted
from weir.dpcore.models.words import OWN_UNITS
from weir.dpcore.pricing.calibration import MOST_STATE
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.words import bytes_text, number

WIDE_STATE = 1 << 30
"""Bytes of state of a key, at most, where rows are sparse: few blocks of them are kept."""

BARE = (
    "Models have no margin of error: how far a private model is from the best one depends on the "
    "events."
)

Iterations = Annotated[
    int,
    Field(ge=1, le=MOST_STEPS),
    Says(f"must be a whole number from 1 to {MOST_STEPS:,}."),
]
TermCount = Annotated[
    int,
    Field(ge=1, le=MOST_TERMS),
    Says(f"must be a whole number from 1 to {MOST_TERMS}."),
]
FitForm = Annotated[Literal["frank_wolfe", "refit"], Says("must be one of frank_wolfe, refit.")]
Span = Annotated[int, Field(ge=1, le=4096), Says("must be a number of blocks from 1 to 4,096.")]


def form_for(terms: Terms, build: Callable[[str, PrivacyLoss], Refit]) -> tuple[str, str]:
    """The form where none is named, and why, for people; "": a refit does not serve.

    From public numbers: the excess that noise is predicted to cause in a refit, over the squared
    radius of the set.
    """
    try:
        (noise,) = refit_noises(terms)
        (budget,) = budgets(noise, terms.epsilon, terms.delta)
        refit = build(noise, budget)
    except ConfigError:
        return "frank_wolfe", ""
    squared = refit.linear.set.farthest_in(1.0) ** 2
    excess = f"{number(refit.noisy)} is {{}} {QUIET:g} of the squared radius {number(squared)}"
    if refit.quiet:
        return "refit", f"refit: its predicted noise {excess.format('at most')}"
    return "frank_wolfe", f"frank_wolfe: predicted noise of a refit {excess.format('more than')}"


class FrankWolfeModel(OptimizeModel):
    """A model of each window of records, by private Frank-Wolfe steps: the private LASSO."""

    algorithm: Literal["optimize.frank_wolfe"] = algorithm_field("optimize.frank_wolfe")
    block: Block = block_field()
    window: Span = Field(
        default=1,
        description="Blocks of the window that a model is fitted to. 1: tumbling windows; more: "
        "windows that slide by a block, each with its share of the budget of a record. Nothing is "
        "released before the first is full.",
        examples=[4],
    )
    iterations: Iterations | None = Field(
        default=None,
        description="Steps of a fit. Without it: as many as a public rule finds best for the size "
        "of the window and the noise.",
        examples=[30],
    )
    form: FitForm | None = Field(
        default=None,
        description="frank_wolfe (steps towards vertices, or along noisy gradients) or refit (of "
        "an l1_ball and the squared loss: columns are selected in private, then least squares on "
        "their noisy second moments; needs delta). Without it: refit if terms is set, or if it "
        "serves and the excess predicted of its noise is small next to the set; else frank_wolfe, "
        "and where iterations or mechanism.noise is set or rows are sparse.",
        examples=["refit"],
    )
    terms: TermCount | None = Field(
        default=None,
        description="Of form: refit: coefficients that are not 0, at most 256. Without it: what "
        "has the least predicted excess whatever the data are. Fewer have less noise.",
        examples=[8],
    )
    cap: Cap | None = block_cap_field()
    users: Users | None = block_users_field()

    title: ClassVar[str] = "a sparse or otherwise bound model of each window: the private LASSO"
    about: ClassVar[str] = (
        "Frank-Wolfe steps over a set, each towards a vertex that is chosen in private (or where a "
        "noisy gradient points): error grows with the logarithm of the number of features."
    )
    source: ClassVar[str] = (
        "Talwar, Thakurta & Zhang 2015, Gumbel noise, scales from the exact sensitivity"
    )
    noises: ClassVar[tuple[str, ...]] = (*SELECTIONS, "gaussian", "discrete_gaussian", "k_norm")
    reading: ClassVar[Reading] = Reading(
        "Every line is what was released; the events are not in this page. theta is the newest "
        "model, of features scaled to the public ranges; model_of says which blocks are behind it.",
        BARE,
        BARE,
    )
    outputs: ClassVar[Mapping[str, Shown]] = {
        "theta": Shown("coefficients in scaled units, of the newest window", role="scaled_model"),
        "coefficients": OWN_UNITS,
        "model_of": Shown("first and last block behind the newest model", role="trace"),
    }
    told: ClassVar[frozenset[str]] = frozenset({"theta", "coefficients", "model_of", "gap"})
    grows: ClassVar[bool] = True
    wide: ClassVar[bool] = True
    event_only: ClassVar[str] = ""

    # ---- what it does

    @property
    def named_form(self) -> str | None:
        """The form that the config names, or that its fields are of; None: none.

        Raises:
          ConfigError: fields of the other form.
        """
        form = "refit" if self.form is None and self.terms is not None else self.form
        if self.terms is not None and form != "refit":
            raise ConfigError("model.terms", self.terms, "is for form: refit; leave it out.")
        if self.iterations is not None and form == "refit":
            raise ConfigError(
                "model.iterations", self.iterations, "is for form: frank_wolfe; leave it out."
            )
        return form if self.iterations is None else "frank_wolfe"

    def compile(self, terms: Terms) -> Compiled:
        """The noise with the least bound on its error, and every one that could serve.

        Raises:
          ConfigError: what it cannot serve.
        """
        refuse_sums(terms, self.name)
        linear, inputs = self.linear, self.inputs
        if terms.person is not None and inputs.sparse:
            raise ConfigError(
                "privacy.unit",
                terms.unit,
                f"must be event where rows travel sparse, as those of {len(self.features):,} "
                "features do: weights of a user's rows are for dense ones.",
            )
        cut, schedule = cut_for(self.block, self.cap, self.users, terms), Windows(self.window)
        changes = 2 if terms.relation == "replace_anywhere" else terms.factor
        presence = presence_of(terms.person, cut.ticks if isinstance(cut, ByUsers) else 1)
        room = WIDE_STATE if inputs.sparse else MOST_STATE
        fitting = room // 4 // (inputs.row_bytes + 16)
        cap = (self.cap or min(1 << 16, fitting)) if cut.by_count else min(cut.most, MOST_ROWS)
        size = self.window

        def refit(noise: str, budget: PrivacyLoss) -> Refit:
            share = 1 / presence.spent(schedule, [Fraction(1)], budget.kind)
            shape = (linear, size, cut.divisor * size, cut.most * size, changes)
            return refit_for(*shape, budget, share, self.terms, cut.users * size)

        def steps(noise: str, budget: PrivacyLoss) -> FitStrategy:
            share = 1 / presence.spent(schedule, [Fraction(1)], budget.kind)
            return strategy_for(
                linear,
                size,
                cut.divisor * size,
                cut.most * size,
                changes,
                share,
                self.iterations,
                noise,
                budget,
                cut.users * size,
            )

        def program(way: FitStrategy) -> WindowProgram:
            return WindowProgram(inputs, schedule, cut, way, cap, self.name, presence)

        form, why = self.named_form, ""
        if form is None and terms.noise is None and not inputs.sparse:
            form, why = form_for(terms, refit)
        build, noises = (
            (refit, refit_noises(terms))
            if form == "refit"
            else (steps, tried_noises(linear, terms))
        )
        built, alternatives = choose(terms, build, program, noises)
        built.waits.check("model.block", self.block, terms)
        state = built.state_bytes()
        if state > room:
            raise ConfigError(
                "model.block",
                self.block,
                f"would let a key's state grow to {state / 2**20:,.0f} MiB ({built.row_bytes:,} "
                f"bytes a row), above {room >> 20:,} MiB; take smaller blocks, or fewer"
                + (", or a smaller model.features.most." if inputs.sparse else "."),
            )
        whole = self.compiled(built, alternatives)
        return replace(whole, facts=(*whole.facts, ("form", why))) if why else whole

    def predict(self, given: Given, model: Floats) -> Predicted:
        return predict(self.inputs, self.linear, given, model)

    # ---- what it says

    def bounds_facts(self, program: WindowProgram) -> Iterator[tuple[str, str]]:
        """What one event, or one user, may add."""
        for title, text in super().bounds_facts(program):
            if program.cut.users:
                yield "one user adds", f"to a block, all events together, {text}: their mean"
            else:
                yield title, text

    def own_facts(self, program: WindowProgram) -> Iterator[tuple[str, str]]:
        """What is fitted, by which steps, and what is kept."""
        cut, way = program.cut, program.way
        whose = "users" if cut.users else "events"
        what = "records" if cut.by_count else f"ticks ({number(cut.divisor)} {whose} expected)"
        count = getattr(cut, "records", getattr(cut, "ticks", 0))
        slides = "tumbling" if way.size == 1 else f"the last {way.size:,}, sliding by one"
        yield "windows", f"of blocks of {count:,} {what}: {slides}"
        yield "a step", way.step_words
        yield (
            "a fit",
            f"{way.fit_words}; costs {number(way.loss.value)} ({way.loss.kind}) of "
            f"{number(float(program.total))} that a {'user' if cut.users else 'record'} pays",
        )
        yield way.error_words
        yield "kept", f"rows, up to {bytes_text(program.state_bytes())} a key"

    def notes(self, program: WindowProgram) -> Iterator[str]:
        yield (
            "A model is fitted once, when its last block is complete, and released until the next; "
            "before the first there is none (null)."
        )
        if program.cut.users:
            yield shared_note(program.presence)
        yield from program.way.notes

    def doubts(self, program: WindowProgram, terms: Terms) -> Iterator[str]:
        yield from super().doubts(program, terms)
        yield from program.way.doubts

    def warnings(self, program: WindowProgram) -> Iterator[str]:
        mebibytes = program.state_bytes() / 2**20
        yield (
            f"Rows are kept while a fit may read them: {program.row_bytes} bytes each, up to "
            f"{mebibytes:,.1f} MiB a key."
        )
        if program.cut.by_count:
            yield (
                "Blocks are of records, in the order of tick and id: model_of reveals how many "
                "events a key has so far. Events without an id are refused."
            )
