"""The ``set`` of a model in a config -> a convex set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball, L2Ball
from weir.dpcore.geometry.box import Box
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.flows import Flow
from weir.dpcore.geometry.group_l1 import GroupL1Ball
from weir.dpcore.geometry.lp_ball import LpBall
from weir.dpcore.geometry.permutations import Permutations
from weir.dpcore.geometry.polytope import Polytope
from weir.dpcore.geometry.product import Product
from weir.dpcore.geometry.simplex import Simplex
from weir.dpcore.geometry.spectral import TraceNormBall

FARTHEST, NEAREST = 1e60, 1e-60
"""Sizes of a set, so that fourth powers of them are numbers."""
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
    found = SETS[name](value, dimension, f"{field}.{name}")
    if found.dimension != dimension:
        raise ConfigError(
            f"{field}.{name}",
            value,
            f"lies in dimension {found.dimension}, but the model has {dimension} coefficients; "
            "give both the same dimension.",
        )
    return found


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


def _l1_ball(value: Any, dimension: int, field: str) -> ConvexSet:
    return L1Ball(_size(value, field), dimension)


def _l2_ball(value: Any, dimension: int, field: str) -> ConvexSet:
    return L2Ball(_size(value, field), dimension)


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


def _simplex(value: Any, dimension: int, field: str) -> ConvexSet:
    return Simplex(_size(value, field), dimension)


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
        spec = {name: given for name, given in part.items() if name != "size"}
        parts.append(parse_set(spec, size, at))
    return Product(tuple(parts))


def _trace_norm_ball(value: Any, dimension: int, field: str) -> ConvexSet:
    radius, shape = _fields(value, field, ("radius", "shape"))
    m, n = (_whole(side, f"{field}.shape") for side in _listed(shape, f"{field}.shape", 2))
    return TraceNormBall(_size(radius, f"{field}.radius"), (m, n))


def _permutations(value: Any, dimension: int, field: str) -> ConvexSet:
    return Permutations(_whole(value, field))


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
    "l1_ball": _l1_ball,
    "l2_ball": _l2_ball,
    "simplex": _simplex,
    "box": _box,
    "polytope": _polytope,
    "product": _product,
    "trace_norm_ball": _trace_norm_ball,
    "permutations": _permutations,
    "flow": _flow,
    "lp_ball": _lp_ball,
    "group_l1_ball": _group_l1_ball,
}
"""Name in the config -> what makes the set of its value, the dimension, and the field's path."""
