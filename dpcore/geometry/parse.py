"""The ``set`` of a model in a config -> a convex set, and its JSON Schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from weir.dpcore.config.section import FARTHEST, NEAREST, Section, nearest
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import GroupL1Ball, L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Box, Product, Simplex
from weir.dpcore.geometry.combinatorial import Flow, Permutations
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.norm_balls import LpBall, TraceNormBall
from weir.dpcore.geometry.polytope import Polytope

_EXAMPLE = "write something like {l1_ball: 5}."


def parse_set(spec: Any, dimension: int, field: str = "model.set") -> ConvexSet:
    """Plain values, one name with its size -> the set, in ``dimension`` dimensions.

    {l1_ball: radius}, {l2_ball: radius}, {simplex: total}, {box: [low, high]} (two numbers, or
    two lists of one number for each coordinate), {polytope: {vertices: [[...], ...]}},
    {product: [{l1_ball: radius, size: n}, ...]}, {trace_norm_ball: {radius: r, shape: [m, n]}},
    {permutations: n}, {flow: {nodes: n, edges: [[a, b], ...], source: a, sink: b}},
    {lp_ball: {radius: r, p: 1.5}}, {group_l1_ball: {radius: r, groups: n}} (groups of n
    coordinates in order, the last of what is left, or a list of their sizes).

    Raises:
      ConfigError: what is wrong, at its dotted path below ``field``.
    """
    if not isinstance(spec, Mapping) or len(spec) != 1:
        raise ConfigError(field, spec, f"must be one set with its size; {_EXAMPLE}")
    ((name, value),) = spec.items()
    if name not in SETS:
        raise ConfigError(f"{field}.{name}", value, nearest(str(name), sorted(SETS)))
    result = SETS[name](value, dimension, f"{field}.{name}")
    if result.dimension != dimension:
        raise ConfigError(
            f"{field}.{name}",
            value,
            f"lies in dimension {result.dimension}, but the model has {dimension} coefficients; "
            "give both the same dimension.",
        )
    return result


def _size(value: Any, field: str) -> float:
    number = _number(value, field)
    if not NEAREST <= number <= FARTHEST:
        raise ConfigError(field, value, "must be a number above 0, from 1e-60 to 1e60.")
    return number


def _number(value: Any, field: str) -> float:
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not abs(value) <= FARTHEST:  # NaN too
        raise ConfigError(field, value, "must be a finite number, at most 1e60 in size.")
    return float(value)


def _whole(value: Any, field: str, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(field, value, f"must be a whole number, {least} or more.")
    return value


def _listed(value: Any, field: str, length: int | None = None) -> list[Any]:
    if not isinstance(value, (list, tuple)) or len(value) != (length or len(value)) or not value:
        what = f"a list of {length}" if length else "a list"
        raise ConfigError(field, value, f"must be {what}, like [a, b].")
    return list(value)


def _fields(value: Any, field: str, names: tuple[str, ...]) -> list[Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(field, value, f"must be a mapping with {', '.join(names)}.")
    for name in value:
        if name not in names:
            raise ConfigError(f"{field}.{name}", value[name], nearest(str(name), names))
    for name in names:
        if name not in value:
            raise ConfigError(f"{field}.{name}", None, "is missing.")
    return [value[name] for name in names]


def _lp_ball(value: Any, dimension: int, field: str) -> ConvexSet:
    radius, p = _fields(value, field, ("radius", "p"))
    size = _size(radius, f"{field}.radius")
    if p == math.inf:
        return Box.uniform(-size, size, dimension)
    exponent = _number(p, f"{field}.p")
    if exponent < 1:
        raise ConfigError(f"{field}.p", p, "must be 1 or more; .inf is served too.")
    return L1Ball(size, dimension) if exponent == 1 else LpBall(size, exponent, dimension)


def _group_l1_ball(value: Any, dimension: int, field: str) -> ConvexSet:
    radius, groups = _fields(value, field, ("radius", "groups"))
    size, at = _size(radius, f"{field}.radius"), f"{field}.groups"
    if isinstance(groups, (list, tuple)):
        return GroupL1Ball(size, tuple(_whole(group, at) for group in _listed(groups, at)))
    return GroupL1Ball.even(size, _whole(groups, at), dimension)


def _box(value: Any, dimension: int, field: str) -> ConvexSet:
    ends = []
    for i, end in enumerate(_listed(value, field, 2)):
        many = isinstance(end, (list, tuple))
        numbers = _listed(end, f"{field}.{i}", dimension) if many else [end] * dimension
        ends.append(tuple(_number(number, f"{field}.{i}") for number in numbers))
    for low, high in zip(*ends, strict=True):
        if low > high:
            raise ConfigError(field, [low, high], "must be two numbers, low <= high.")
    return Box(*ends)


def _polytope(value: Any, dimension: int, field: str) -> ConvexSet:
    (vertices,) = _fields(value, field, ("vertices",))
    parsed = []
    for i, vertex in enumerate(_listed(vertices, f"{field}.vertices")):
        at = f"{field}.vertices.{i}"
        if not isinstance(vertex, (list, tuple)) or len(vertex) != dimension:
            raise ConfigError(
                at, vertex, f"must be a list of {dimension} numbers, one for each coefficient."
            )
        parsed.append(tuple(_number(number, at) for number in vertex))
    return Polytope(tuple(parsed))


def _product(value: Any, dimension: int, field: str) -> ConvexSet:
    parts = []
    for i, part in enumerate(_listed(value, field)):
        at = f"{field}.{i}"
        if not isinstance(part, Mapping) or "size" not in part:
            raise ConfigError(
                at,
                part,
                "must be a set with how many coefficients it holds, like {l1_ball: 5, size: 3}.",
            )
        size = _whole(part["size"], f"{at}.size")
        spec = {name: argument for name, argument in part.items() if name != "size"}
        parts.append(parse_set(spec, size, at))
    return Product(tuple(parts))


def _trace_norm_ball(value: Any, dimension: int, field: str) -> ConvexSet:
    radius, shape = _fields(value, field, ("radius", "shape"))
    m, n = (_whole(side, f"{field}.shape") for side in _listed(shape, f"{field}.shape", 2))
    return TraceNormBall(_size(radius, f"{field}.radius"), (m, n))


def _flow(value: Any, dimension: int, field: str) -> ConvexSet:
    nodes, edges, source, sink = _fields(value, field, ("nodes", "edges", "source", "sink"))
    parsed = []
    for i, edge in enumerate(_listed(edges, f"{field}.edges")):
        at = f"{field}.edges.{i}"
        start, end = (_whole(node, at, 0) for node in _listed(edge, at, 2))
        parsed.append((start, end))
    ends = _whole(source, f"{field}.source", 0), _whole(sink, f"{field}.sink", 0)
    count = _whole(nodes, f"{field}.nodes")
    try:
        return Flow(count, tuple(parsed), *ends)
    except ConfigError as wrong:
        below = wrong.field.removeprefix("flow.")
        raise ConfigError(f"{field}.{below}", wrong.value, wrong.remedy) from None


Parser = Callable[[Any, int, str], ConvexSet]

SETS: dict[str, Parser] = {
    "l1_ball": lambda value, dimension, field: L1Ball(_size(value, field), dimension),
    "l2_ball": lambda value, dimension, field: L2Ball(_size(value, field), dimension),
    "simplex": lambda value, dimension, field: Simplex(_size(value, field), dimension),
    "box": _box,
    "polytope": _polytope,
    "product": _product,
    "trace_norm_ball": _trace_norm_ball,
    "permutations": lambda value, _, field: Permutations(_whole(value, field)),
    "flow": _flow,
    "lp_ball": _lp_ball,
    "group_l1_ball": _group_l1_ball,
}
"""Name in the config -> what makes the set of its value, the dimension, and the field's path."""

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


class VerticesSpec(Section):
    """Corners of a polytope."""

    vertices: Annotated[list[Annotated[list[Number], Field(min_length=1)]], Field(min_length=1)] = (
        Field(description="A list of numbers for each corner.", examples=[[[0, 1], [1, 0]]])
    )


class PolytopeSpec(Section):
    """Mixtures of corners."""

    polytope: VerticesSpec = Field(
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


class GroupsSpec(Section):
    """Groups of coefficients."""

    radius: Size = Field(description="Radius.", examples=[1.0])
    groups: Whole | Annotated[list[Whole], Field(min_length=1)] = Field(
        description="Coefficients of a group, in order, or a list of the sizes of all groups.",
        examples=[3],
    )


class GroupL1BallSpec(Section):
    """Groups of coefficients whose l2 norms add up to a radius at most."""

    group_l1_ball: GroupsSpec = Field(
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
