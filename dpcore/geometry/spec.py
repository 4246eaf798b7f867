"""The convex sets of a config as its JSON Schema declares them; ``parse_set`` makes them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from weir.dpcore.config.section import Section
from weir.dpcore.geometry.parse import FARTHEST, NEAREST

Size = Annotated[float, Field(ge=NEAREST, le=FARTHEST)]
Number = Annotated[float, Field(ge=-FARTHEST, le=FARTHEST)]
Whole = Annotated[int, Field(ge=1)]
Node = Annotated[int, Field(ge=0)]
Part = Annotated[
    dict[str, Any], Field(min_length=2, max_length=2, json_schema_extra={"required": ["size"]})
]
"""A set, and how many coefficients it holds."""
End = Number | Annotated[list[Number], Field(min_length=1)]
Edge = Annotated[list[Node], Field(min_length=2, max_length=2)]


class L1BallSpec(Section):
    """Coefficients whose sizes add up to a radius at most."""

    l1_ball: Size = Field(description="Radius.", examples=[5])


class L2BallSpec(Section):
    """Coefficients of an l2 norm of a radius at most."""

    l2_ball: Size = Field(description="Radius.", examples=[2])


class SimplexSpec(Section):
    """Coefficients of 0 or more that add up to a total."""

    simplex: Size = Field(description="Total.", examples=[1])


class BoxSpec(Section):
    """Coefficients between two ends."""

    box: Annotated[list[End], Field(min_length=2, max_length=2)] = Field(
        description="[low, high]: two numbers, or two lists of one for each coefficient.",
        examples=[[-1, 1]],
    )


class Vertices(Section):
    """Corners of a polytope."""

    vertices: Annotated[list[Annotated[list[Number], Field(min_length=1)]], Field(min_length=1)] = (
        Field(description="A list of numbers for each corner.", examples=[[[0, 1], [1, 0]]])
    )


class PolytopeSpec(Section):
    """Mixtures of corners."""

    polytope: Vertices = Field(
        description="Its corners.", examples=["{vertices: [[0, 1], [1, 0]]}"]
    )


class ProductSpec(Section):
    """Sets for coefficients in order."""

    product: Annotated[list[Part], Field(min_length=1)] = Field(
        description="A set with its size for each stretch of coefficients.",
        examples=["[{l1_ball: 5, size: 3}, {box: [-1, 1], size: 1}]"],
    )


class Matrices(Section):
    """Matrices of bounded trace norm."""

    radius: Size = Field(description="Largest trace norm.", examples=[1.0])
    shape: Annotated[list[Whole], Field(min_length=2, max_length=2)] = Field(
        description="Rows and columns.", examples=[[3, 4]]
    )


class TraceNormBallSpec(Section):
    """Coefficients that are a matrix of bounded trace norm."""

    trace_norm_ball: Matrices = Field(
        description="Radius and shape.", examples=["{radius: 1, shape: [3, 4]}"]
    )


class PermutationsSpec(Section):
    """Coefficients that are a doubly stochastic matrix."""

    permutations: Whole = Field(description="How many things are permuted.", examples=[3])


class Network(Section):
    """A network with unit flows."""

    nodes: Whole = Field(description="How many nodes, from 0 on.", examples=[4])
    edges: Annotated[list[Edge], Field(min_length=1)] = Field(
        description="[from, to] of each edge.", examples=[[[0, 1], [1, 2]]]
    )
    source: Node = Field(description="Where the flow comes from.", examples=[0])
    sink: Node = Field(description="Where it goes to.", examples=[2])


class FlowSpec(Section):
    """Coefficients that are a unit flow over the edges of a network."""

    flow: Network = Field(
        description="The network.", examples=["{nodes: 2, edges: [[0, 1]], source: 0, sink: 1}"]
    )


class Radius(Section):
    """Size and shape of a ball."""

    radius: Size = Field(description="Radius.", examples=[1.0])
    p: Annotated[float, Field(ge=1)] = Field(
        description="The norm's exponent, 1 or more; .inf is the box.", examples=[1.5]
    )


class LpBallSpec(Section):
    """Coefficients of a bounded lp norm."""

    lp_ball: Radius = Field(description="Radius and exponent.", examples=["{radius: 1, p: 1.5}"])


class Groups(Section):
    """Groups of coefficients."""

    radius: Size = Field(description="Radius.", examples=[1.0])
    groups: Whole | Annotated[list[Whole], Field(min_length=1)] = Field(
        description="Coefficients of a group, in order, or a list of the sizes of all groups.",
        examples=[3],
    )


class GroupL1BallSpec(Section):
    """Groups of coefficients whose l2 norms add up to a radius at most."""

    group_l1_ball: Groups = Field(
        description="Radius and groups.", examples=["{radius: 1, groups: 3}"]
    )


class SparseSpec(Section):
    """Vectors with few entries that are not 0."""

    k_sparse: Whole = Field(description="How many entries may differ from 0.", examples=[10])


SetSpec = (
    L1BallSpec
    | L2BallSpec
    | SimplexSpec
    | BoxSpec
    | PolytopeSpec
    | ProductSpec
    | TraceNormBallSpec
    | PermutationsSpec
    | FlowSpec
    | LpBallSpec
    | GroupL1BallSpec
)
InputsSpec = SetSpec | SparseSpec
