"""Fields of models of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from weir.dpcore.algorithm import ModelColumns
from weir.dpcore.config import durations
from weir.dpcore.config.schema import MOST_EVENTS
from weir.dpcore.config.section import DurationText, Positive, Says, Section, as_tuple
from weir.dpcore.config.yaml import with_numbers
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.partition import Blocks
from weir.dpcore.models.blocks.price import SPLITS
from weir.dpcore.models.fields import MOST_ROWS, HingeLoss, HuberLoss, loss_field
from weir.dpcore.models.kit.feature_map import (
    MOST_INPUTS,
    FeatureMap,
    MapProjection,
    RandomFourier,
)
from weir.dpcore.models.predictor import Predictor
from weir.dpcore.pricing.terms import Terms

MOST_CLASSES = 1 << 10


def _block(value: Any) -> Any:
    if isinstance(value, str):
        durations.duration(value)
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_ROWS:
        raise ValueError(
            f"must be a number of records from 1 to {MOST_ROWS:,}, or a duration like 7d."
        )
    return value


def _classes(value: Any) -> Any:
    value = as_tuple(value)
    if not isinstance(value, tuple) or not 2 <= len(value) <= MOST_CLASSES:
        raise ValueError(f"must list two classes or more, {MOST_CLASSES:,} at most.")
    if not all(isinstance(item, str) for item in value):
        value = tuple(with_numbers(value))
    texts = [isinstance(item, str) for item in value]
    if not all(texts) and (any(texts) or any(isinstance(item, bool) for item in value)):
        raise ValueError("must be all texts or all numbers; put texts in quotes.")
    if not all(texts) and not all(isinstance(item, int | float) for item in value):
        raise ValueError("must be all texts or all numbers; put texts in quotes.")
    if len(set(value)) < len(value):
        raise ValueError("lists a class twice; list every class once.")
    return value if all(texts) else tuple(float(item) for item in value)


Block = Annotated[
    int | str,
    BeforeValidator(
        _block, json_schema_input_type=Annotated[int, Field(ge=1, le=MOST_ROWS)] | DurationText
    ),
]
BlockLoss = Annotated[
    str | dict[str, Any],
    loss_field(
        "logistic, or {huber: 0.5}",
        Literal["logistic", "softmax", "hinge", "huber", "squared"] | HuberLoss | HingeLoss,
        "softmax",
    ),
]
ClassList = Annotated[
    tuple[str, ...] | tuple[float, ...],
    BeforeValidator(
        _classes,
        json_schema_input_type=Annotated[list[str], Field(min_length=2)]
        | Annotated[list[float], Field(min_length=2)],
    ),
]
Split = Annotated[Literal["best", "even", "paper"], Says(f"must be one of {', '.join(SPLITS)}.")]


Users = Annotated[
    float,
    Field(ge=1, le=MOST_EVENTS, allow_inf_nan=False),
    Says("must be a number of users, 1 or more, like 2000."),
]
Outputs = Annotated[
    int, Field(ge=2, le=MOST_INPUTS), Says(f"must be a whole number from 2 to {MOST_INPUTS:,}.")
]
Seed = Annotated[int, Field(ge=0, lt=1 << 62), Says("must be a whole number, 0 or more.")]


def block_field() -> Any:
    """The field ``block``."""
    return Field(
        description="Records of a block, in the order of tick and id (under replace_one, with "
        "schema.id), or a duration of whole ticks.",
        examples=[1000, "7d"],
    )


def block_cap_field() -> Any:
    """The field ``cap`` of models of blocks."""
    return Field(
        default=None,
        description="Most events that count, of more a keyed hash chooses: of a key and tick where "
        "blocks are of records (without it 65,536, fewer of very wide rows), of a block where they "
        "are of ticks (without it twice those that are expected, and a few); with privacy.unit: "
        "user most users of a block.",
        examples=[5000],
    )


def block_users_field() -> Any:
    """The field ``users`` of models of blocks."""
    return Field(
        default=None,
        description="Users that a key has in a block, about, with privacy.unit: user: what sums "
        "are divided by. Public. Without it expect.users times the ticks of a block.",
        examples=[2000],
    )


class BlockClip(Section):
    """Bounds of what one event may contribute, in scaled units. Public: never from the data."""

    features: Positive | None = Field(
        default=None,
        description="An event whose scaled features have a larger l2 norm is shortened to it. "
        "Without it 1.0, by which the noise of solvers output and sgd grows; of solver steps the "
        "ranges alone, and 1.0 of mapped features.",
        examples=[1.0],
    )


class FourierMap(Section):
    """Cosines and sines of random projections: a linear model of them is like a Gaussian kernel."""

    random_fourier: Outputs = Field(description="How many features come out.", examples=[200])
    scale: Positive = Field(
        default=1.0, description="Width of the kernel, in scaled units.", examples=[1.0]
    )
    seed: Seed = Field(default=0, description="Public: fixes the map.", examples=[0])


class ProjectionMap(Section):
    """A random projection to fewer features."""

    projection: Outputs = Field(description="How many features come out.", examples=[50])
    seed: Seed = Field(default=0, description="Public: fixes the map.", examples=[0])


def made_map(asked: FourierMap | ProjectionMap | None, inputs: int) -> FeatureMap | None:
    """The map of a config, for so many features."""
    if asked is None:
        return None
    if isinstance(asked, FourierMap):
        return RandomFourier(inputs, asked.random_fourier, asked.seed, float(asked.scale))
    return MapProjection(inputs, asked.projection, asked.seed)


STEPS, OUTPUT, SGD = "steps", "output", "sgd"
SOLVERS = (STEPS, OUTPUT, SGD)

Solver = Annotated[Literal["steps", "output", "sgd"], Says(f"must be one of {', '.join(SOLVERS)}.")]
Passes = Annotated[int, Field(ge=1, le=1024), Says("must be a whole number from 1 to 1024.")]


def check_solver(solver: str, passes: int | None, cut: Blocks, stepped: bool) -> None:
    """Refuses stochastic steps where they have no such sensitivity.

    Args:
      solver, passes: as in the config. cut: into blocks. stepped: whether the algorithm knows sgd.

    Raises:
      ConfigError: see above; or passes of another solver.
    """
    if solver != SGD:
        if passes is not None:
            raise ConfigError("model.passes", passes, "belongs to model.solver: sgd; remove it.")
        return
    if not stepped:
        raise ConfigError(
            "model.solver", solver, "is not for fits on samples; write solver: output."
        )
    if not cut.by_count:
        raise ConfigError(
            "model.solver",
            solver,
            "needs model.block to be a number of records: how many rows a batch of other blocks "
            "has is private, and steps that hold for any would be as short as over all rows; "
            "write solver: output.",
        )


class ClassifiedModel(Predictor):
    """A model whose target is a number, or one of declared classes."""

    classes: ClassList | None = None

    predicts_by: ClassVar[str] = "theta"

    @property
    def ranged(self) -> tuple[str, ...]:
        """Columns that have a range: the target has none where it has classes."""
        return self.features if self.classes is not None else self.columns

    @property
    def declared(self) -> Mapping[str, tuple[str, ...] | tuple[float, ...]]:
        """The target, where it has classes."""
        return {} if self.classes is None else {self.targets[0]: self.classes}

    def columns_read(self) -> ModelColumns | None:
        """See Algorithm; a class is no number that a report could score."""
        return super().columns_read() if self.classes is None else None

    def doubts(self, program: Any, terms: Terms) -> Iterator[str]:
        yield from super().doubts(program, terms)
        yield from program.waits.doubts(terms)
