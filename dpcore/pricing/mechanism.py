"""Which mechanism a config asks for. All of it is optional: the plan prices every one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from weir.dpcore.config.section import Says, Section
from weir.dpcore.pricing.best import SPLIT
from weir.dpcore.registry import CONTINUAL_SUMS

Buffers = Annotated[int, Field(ge=1, le=8), Says("must be a whole number from 1 to 8.")]
Gamma = Annotated[float, Field(gt=0, allow_inf_nan=False), Says("must be a finite number above 0.")]


def _sums(schema: dict[str, Any]) -> None:
    """Names of the mechanisms, for the JSON Schema."""
    schema["anyOf"][0]["enum"] = [*CONTINUAL_SUMS, SPLIT]


class MechanismConfig(Section):
    """Which mechanism to use. All optional: the plan prices every one and takes the best."""

    continual_sum: str | None = Field(
        default=None,
        description="Name of a mechanism for running sums; `weir algorithms` lists them.",
        examples=["blt"],
        json_schema_extra=_sums,
    )
    noise: Literal["gaussian", "discrete_gaussian", "k_norm", "gumbel", "laplace"] | None = Field(
        default=None,
        description="gaussian (default), discrete_gaussian (integers, zCDP), k_norm (delta = 0); "
        "of models that choose vertices gumbel or laplace.",
        examples=["gaussian"],
    )
    buffers: Buffers | None = Field(
        default=None,
        description="Buffers of the BLT mechanism: more is more accurate and more state.",
        examples=[4],
    )
    gamma: Gamma | None = Field(
        default=None,
        description="Merging tree: loss of a level beyond the window over that of the level below.",
        examples=[0.5],
    )
