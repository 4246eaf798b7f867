"""What models of blocks of records have in common in a config, and what they say."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from pydantic import Field

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.algorithm import Compiled, ModelColumns, Reading, Shown
from weir.dpcore.arrays import Floats
from weir.dpcore.config.section import Positive
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks import words
from weir.dpcore.models.blocks.fields import (
    OUTPUT,
    SGD,
    STEPS,
    Block,
    BlockClip,
    BlockLoss,
    ClassifiedModel,
    ClassList,
    FourierMap,
    Passes,
    ProjectionMap,
    Solver,
    Split,
    Users,
    block_cap_field,
    block_field,
    block_users_field,
    check_solver,
    made_map,
)
from weir.dpcore.models.blocks.level import FitLevel, Level, level_for, strength_for
from weir.dpcore.models.blocks.objective import Objective, predict, row_loss
from weir.dpcore.models.blocks.partition import Blocks, ByUsers, cut_for
from weir.dpcore.models.blocks.price import Build, choose
from weir.dpcore.models.blocks.program import BlockProgram
from weir.dpcore.models.blocks.schedule import FitSchedule, followers, presence_of
from weir.dpcore.models.blocks.steps import MOST_WIDTH, huber_width, steps_level
from weir.dpcore.models.blocks.stochastic import PASSES, stochastic_level
from weir.dpcore.models.erm.section import refuse_sums
from weir.dpcore.models.fields import MOST_COEFFICIENTS, MOST_ROWS, Cap, OneTarget
from weir.dpcore.models.kit.inputs import Inputs
from weir.dpcore.models.kit.loss import Huber
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.prediction import Given, Predicted, inputs_of
from weir.dpcore.models.predictor import NOISES
from weir.dpcore.models.words import OWN_UNITS
from weir.dpcore.neighbours import Family
from weir.dpcore.pricing.calibration import MOST_STATE, share
from weir.dpcore.pricing.noises import noises_for
from weir.dpcore.pricing.terms import Terms

BARE = (
    "Models have no margin of error: how noise moves a fit that follows a noisy model depends on "
    "the events."
)

LAMBDA = 0.1
"""Where none is given."""
GAUSSIAN = ("gaussian", "discrete_gaussian")
"""Noises that many queries of noisy steps share."""


class BlockModel(ClassifiedModel):
    """A model of blocks of records, fitted once each and released with noise."""

    neighbours: ClassVar[Family] = Family(
        ("first", "blocks", "window"),
        "canary",
        "a row is in every fit of its block, whose minimiser it pulls by its gradient",
    )

    target: OneTarget = Field(
        description="Column that is predicted: one of the classes, or a number where there are "
        "none.",
        examples=["label"],
    )
    classes: ClassList | None = Field(
        default=None,
        description="All values of the target that count, texts or numbers. Public. Any other is a "
        "missing label: its event teaches the model nothing. Without it a number is predicted.",
        examples=[["no", "yes"]],
    )
    loss: BlockLoss | None = Field(
        default=None,
        description="logistic or hinge (two classes, the second is +1), softmax; of numbers "
        "{huber: width} or squared, its slope clipped beyond the target's range. Without it: "
        "logistic, softmax for more classes, huber for numbers.",
        examples=["logistic"],
    )
    block: Block = block_field()
    regularise: Positive | None = Field(
        default=None,
        description="lambda of solvers output and sgd: weight of |w - w_g|^2 next to the mean "
        "loss, w_g the released model that a fit follows, or 0. Noise is in proportion to "
        "1 / lambda. Without it 0.1, or of single fits by a rule of public numbers.",
        examples=[0.1],
    )
    clip: BlockClip = Field(
        default=BlockClip(),
        description="Bound of the length of one event's features.",
        examples=["{features: 1.0}"],
    )
    cap: Cap | None = block_cap_field()
    users: Users | None = block_users_field()
    map: FourierMap | ProjectionMap | None = Field(
        default=None,
        description="A public random map of the scaled features, made before any data: "
        "{random_fourier: 200, scale: 1.0} or {projection: 50}. The model is of what comes out, "
        "and clip.features bounds its length.",
        examples=["{random_fourier: 200}"],
    )
    split: Split | None = Field(
        default=None,
        description="How fits of several sizes share the budget: best (least noise in what is "
        "released; of solver steps every size alike), even or paper. Without it: the least noise; "
        "of steps best. The plan shows all.",
        examples=["best"],
    )

    solver: Solver | None = Field(
        default=None,
        description="What finds a fit's point: steps (noisy steps, preconditioned by noisy second "
        "moments, or of plain descent: see moments), output (noise on the certified "
        "minimiser) or sgd (passes of stochastic steps over blocks of records, at the noise of "
        "output: for many rows or a small lambda). Without it: steps where neither regularise nor "
        "passes is given, else output.",
        examples=["steps"],
    )
    moments: bool | None = Field(
        default=None,
        description="Whether noisy second moments precondition solver steps. Without it: of up to "
        "1,023 features, unless Gaussian noise would hide them: for few records, many features or "
        "a small epsilon the budget goes to gradients alone, and steps are of plain descent.",
        examples=[True],
    )
    passes: Passes | None = Field(
        default=None,
        description="Over the rows of a fit, of solver sgd; the noise is the same for any number. "
        "Without it: 8.",
        examples=[8],
    )

    noises: ClassVar[tuple[str, ...]] = NOISES
    reading: ClassVar[Reading] = Reading(
        "Every line is what was released; the events are not in this page. theta is the newest "
        "model, of features scaled to the public ranges; model_of says which blocks are behind it.",
        BARE,
        BARE,
    )
    outputs: ClassVar[Mapping[str, Shown]] = {
        "theta": Shown("coefficients in scaled units, of the newest model", role="scaled_model"),
        "coefficients": OWN_UNITS,
        "model_of": Shown("first and last block behind the newest model", role="trace"),
    }
    told: ClassVar[frozenset[str]] = frozenset({"theta", "coefficients", "model_of"})
    grows: ClassVar[bool] = True
    own_schedule: ClassVar[str] = (
        "a model comes with every block, whose length model.block sets, and in between nothing is "
        "paid"
    )
    event_only: ClassVar[str] = ""
    stepped: ClassVar[bool] = True
    """Whether a fit may be of stochastic steps."""
    by_rule: ClassVar[bool] = False
    """Whether lambda follows from public numbers where none is given: of fits that stand alone. A
    later link of a chain with a small one would forget its centre."""

    # ---- what it is

    @abstractmethod
    def schedule(self) -> FitSchedule:
        """Which blocks are fitted when."""

    @property
    def loss_spec(self) -> str | Mapping[str, Any]:
        """The loss as the config writes it, or the default."""
        if self.loss is not None:
            return self.loss
        if self.classes is None:
            return "huber"
        return "logistic" if len(self.classes) == 2 else "softmax"

    @property
    def place(self) -> str:
        """Where the coefficients lie, for people."""
        built = self.objective
        of = f": {built.loss.outputs} classes of {built.width:,}" if built.loss.outputs > 1 else ""
        return f"R^{built.dimension:,}{of}"

    @property
    def inputs(self) -> Inputs:
        """From columns to rows."""
        mapped = made_map(self.map, len(self.features))
        return inputs_of(self, self.norm, self.classes or (), mapped=mapped)

    @property
    def norm(self) -> float:
        """Most that the length of scaled features is; infinite: their ranges alone bound it."""
        if self.clip.features is not None:
            return float(self.clip.features)
        return math.inf if self.solver == STEPS and self.map is None else 1.0

    @property
    def objective(self) -> Objective:
        """F.

        Raises:
          ConfigError: a loss whose gradient has no bound, or that does not suit the target.
        """
        spec = self.loss_spec
        loss = None if spec == "softmax" else parse_loss(spec)
        classes = 0 if self.classes is None else len(self.classes)
        outputs, norm = self.inputs.outputs, self.norm
        if self.solver == STEPS and self.map is None:
            norm = min(norm, math.sqrt(outputs) * (1 + 2.0**-50))
        strength = 0.0 if self.solver == STEPS else self.regularise or LAMBDA
        shape = row_loss(loss, classes), outputs, self.intercept, norm
        return Objective(*shape, float(strength))

    def cut(self, terms: Terms) -> Blocks:
        """The cut into blocks; see ``cut_for``."""
        return cut_for(self.block, self.cap, self.users, terms)

    def level(
        self,
        objective: Objective,
        size: int,
        cut: Blocks,
        changes: int,
        budget: PrivacyLoss,
        share: Fraction,
    ) -> Level:
        """Fits of so many blocks; see ``level_for``."""
        divisor, most = cut.divisor * size, cut.most * size
        users = cut.users * size
        return level_for(objective, size, divisor, most, changes, budget, share, users)

    def fits_of(
        self,
        objective: Objective,
        cut: Blocks,
        changes: int,
        budget: PrivacyLoss,
        size: int,
        share: Fraction,
        linked: bool,
    ) -> FitLevel:
        """Fits of so many blocks by the solver. linked: whether some follow a released model."""
        most, shape = cut.most * size, (changes, budget, share)
        if self.solver == STEPS:
            divisor = cut.divisor * size
            return steps_level(objective, size, divisor, most, *shape, self.moments, linked)
        if self.solver == SGD:
            passes = PASSES if self.passes is None else self.passes
            return stochastic_level(objective, size, most, *shape, passes)
        return self.level(objective, size, cut, *shape)

    def steppable(self, terms: Terms) -> None:
        """Raises ConfigError: noisy steps cannot serve."""
        name, write = "model.solver", "write solver: output."
        if not self.stepped:
            raise ConfigError(name, STEPS, f"is not for fits on samples; {write}")
        if self.inputs.sparse:
            words = f"is of dense rows; take model.map: {{projection: 50}}, or {write}"
            raise ConfigError(name, STEPS, words)
        if self.regularise is not None:
            words = "belongs to model.solver: output and sgd; remove it."
            raise ConfigError("model.regularise", self.regularise, words)
        if self.moments and self.inputs.outputs + self.intercept > MOST_WIDTH:
            words = f"is for at most {MOST_WIDTH - 1:,} features; leave it out."
            raise ConfigError("model.moments", self.moments, words)

    def settled(self, terms: Terms) -> Self:
        """See Predictor: with its solver named."""
        if self.solver is not None:
            return self
        solver = OUTPUT
        if self.regularise is None and self.passes is None:
            with suppress(ConfigError):
                self.steppable(terms)
                solver = STEPS
        return self.model_copy(update={"solver": solver})

    def compile(self, terms: Terms) -> Compiled:
        """The schedule with the split and noise that serve best, and every one that could.

        Raises:
          ConfigError: what it cannot serve.
        """
        if self.solver is None:
            return self.settled(terms).compile(terms)
        refuse_sums(terms, self.name)
        schedule, objective, cut = self.schedule(), self.objective, self.cut(terms)
        changes = 2 if terms.relation == "replace_anywhere" else terms.factor
        linked = followers(schedule)
        presence = presence_of(terms.person, cut.ticks if isinstance(cut, ByUsers) else 1)
        fitting = MOST_STATE // 4 // (4 * self.inputs.width + 16)
        cap = (self.cap or min(1 << 16, fitting)) if cut.by_count else min(cut.most, MOST_ROWS)

        def of(solver: str) -> Build:
            own = self.model_copy(update={"solver": solver})

            def build(budget: PrivacyLoss, parts: tuple[Fraction, ...]) -> BlockProgram:
                sizes, aim = tuple(zip(schedule.sizes, parts, strict=True)), own.objective
                if solver == STEPS and self.loss is None and self.classes is None:
                    rows = min(size * math.sqrt(part) for size, part in sizes) * cut.divisor
                    aim = replace(aim, loss=Huber(huber_width(aim.dimension, rows, budget)))
                ruled = solver != STEPS and self.regularise is None and self.by_rule
                if ruled:
                    spent = share(budget, float(parts[0]))
                    aim = replace(aim, strength=strength_for(aim, cut.divisor / changes, spent))
                while True:
                    try:
                        levels = tuple(
                            own.fits_of(aim, cut, changes, budget, *x, level in linked)
                            for level, x in enumerate(sizes)
                        )
                        shape = (own.inputs, aim, schedule, cut, levels, cap)
                        return BlockProgram(*shape, self.name, presence)
                    except ConfigError as error:
                        if not ruled:
                            raise
                        if aim.strength >= LAMBDA:
                            raise words.of_rule(error, terms.epsilon) from None
                        aim = replace(aim, strength=4 * aim.strength)  # too small for doubles

            return build

        if objective.dimension > MOST_COEFFICIENTS:
            raise ConfigError(
                "model.features",
                objective.dimension,
                f"coefficients are more than {MOST_COEFFICIENTS:,}; take fewer, or model.map: "
                "{projection: 50}.",
            )
        check_solver(self.solver, self.passes, cut, self.stepped)
        if self.moments is not None and self.solver != STEPS:
            other = "belongs to model.solver: steps; remove it."
            raise ConfigError("model.moments", self.moments, other)
        noises = self.noises
        if self.solver == STEPS:
            self.steppable(terms)
            noises = GAUSSIAN if set(GAUSSIAN) & set(noises_for(terms)) else ("k_norm",)
        others = (OUTPUT, SGD) if cut.by_count and self.stepped else (OUTPUT,)
        unchosen = {name: of(name) for name in others if name != self.solver}
        shape = (terms, schedule, presence, self.split, noises)
        program, alternatives = choose(*shape, of(self.solver), unchosen, self.solver == STEPS)
        program.waits.check("model.block", self.block, terms)
        state = program.state_bytes()
        if state > MOST_STATE:
            raise ConfigError(
                "model.block",
                self.block,
                f"would let a key's state grow to {state / 2**20:,.0f} MiB ({program.row_bytes} "
                f"bytes a row), above {MOST_STATE >> 20} MiB; take smaller blocks, or fewer.",
            )
        return self.compiled(program, alternatives)

    def predict(self, given: Given, model: Floats) -> Predicted:
        return predict(self.inputs, self.objective, given, model)

    # ---- what it says

    def columns_read(self) -> ModelColumns | None:
        """See Algorithm; a class is no number that a report could score."""
        return super().columns_read() if self.classes is None and self.map is None else None

    def facts(self, program: BlockProgram, noise: Mapping[str, float]) -> Iterator[tuple[str, str]]:
        yield from super().facts(program, noise)
        if "theta" in noise:
            yield words.noise_fact(noise["theta"])

    def bounds_facts(self, program: BlockProgram) -> Iterator[tuple[str, str]]:
        """What one event, or one user, may add."""
        yield words.bound_fact(program)

    def own_facts(self, program: BlockProgram) -> Iterator[tuple[str, str]]:
        """What is fitted, and what is kept."""
        yield from words.facts(program)

    def notes(self, program: BlockProgram) -> Iterator[str]:
        yield from words.notes(program)
        if math.isfinite(self.norm):
            yield words.shortened(self.norm)
        if self.loss == "squared":
            yield words.SQUARED

    def refused(self) -> Iterator[str]:
        yield from super().refused()
        yield from words.refused(self.classes is not None)

    def doubts(self, program: BlockProgram, terms: Terms) -> Iterator[str]:
        yield from super().doubts(program, terms)
        yield from words.doubts(program)

    def warnings(self, program: BlockProgram) -> Iterator[str]:
        yield from words.warnings(program)
