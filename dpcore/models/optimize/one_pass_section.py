"""What one-pass models have in common in a config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Protocol, TypeVar, cast

from pydantic import Field

from weir.dpcore.arrays import Floats
from weir.dpcore.config.section import Positive, Says, Section
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.leaves.sparse_rows import MOST_DENSE
from weir.dpcore.models.blocks.wide_inputs import WideInputs
from weir.dpcore.models.fields import AnyLoss, Cap, OneTarget
from weir.dpcore.models.losses import PredictionLoss, parse_loss
from weir.dpcore.models.model import Model
from weir.dpcore.models.optimize.glm import Glm, cornered, smoothed
from weir.dpcore.models.optimize.rehearsed import rehearsed
from weir.dpcore.models.optimize.runs import MOST_RUNS
from weir.dpcore.models.optimize.sfw import TreeRun, tree_runs
from weir.dpcore.models.optimize.tree import MOST_PHASES
from weir.dpcore.models.prediction import Given, Predicted, sparse_linear
from weir.dpcore.models.scaling import Scaling

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

    target: OneTarget = Field(
        description="Numeric column that is predicted; losses of labels read its sign once scaled.",
        examples=["arrival_delay"],
    )
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
    def scaling(self) -> Scaling:
        """The public ranges."""
        return Scaling.of(self.features, self.targets[0], self.public_ranges)

    @property
    def dual(self) -> float:
        """q, of the norm of features."""
        return 2.0

    @property
    def inputs(self) -> WideInputs | None:
        """Sparse rows of a list column that is wide; None: rows are tables."""
        listed = self.listed
        if listed is None or listed.size <= MOST_DENSE:
            return None
        low, high = (float(end) for end in self.ranges[self.targets[0]])
        bound_at, norm = float(self.ranges[listed.name][1]), float(self.clip.features)
        names = listed.name, listed.size, bound_at, listed.filled, self.targets[0]
        return WideInputs(*names, (low, high), (), norm, self.dual)

    @property
    def most_filled(self) -> int | None:
        """See ``Glm.most``."""
        return None if self.inputs is None else self.inputs.most

    def glms(self, convex_set: ConvexSet, radius: float) -> Callable[[float], Glm]:
        """smoothing -> the loss with its constants, of a loss with corners; else of any number."""
        loss: PredictionLoss = parse_loss(self.loss)
        rough, most = self.smooths, self.most_filled

        def made(smoothing: float) -> Glm:
            return Glm(
                smoothed(loss, smoothing) if rough else loss,
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
        return self.loss == "hinge" or cornered(parse_loss(self.loss))

    def best_width(self, run: Callable[[float], R]) -> R:
        """The run of the least predicted error over all widths of a smoothed corner, g slope^2 / 2
        of which the smoothing itself adds; of a loss that is smooth the only one there is."""
        if not self.smooths:
            return run(1.0)
        found = [(run(width), width) for width in WIDTHS]
        return min(found, key=lambda one: one[0].predicted + one[1] * one[0].glm.slope ** 2 / 2)[0]

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

    def cap_for(self, inputs: WideInputs | None) -> int:
        """Rows of a key and tick, at most: what is said, or as many as there is room for."""
        if self.cap is not None:
            return self.cap
        if inputs is None:
            return MOST_A_TICK
        return max(1, min(MOST_A_TICK, WIDE_STATE // 4 // inputs.row_bytes))

    def predict(self, given: Given, model: Floats) -> Predicted:
        """See Predictor."""
        inputs = self.inputs
        if inputs is None:
            return super().predict(given, model)
        loss = parse_loss(self.loss_spec)
        name, rows = loss.name if loss.labels else None, cast(Any, given[inputs.column])
        ends = inputs.target_ends
        return sparse_linear(rows, inputs.bound_at, inputs.target, ends, model, name)
