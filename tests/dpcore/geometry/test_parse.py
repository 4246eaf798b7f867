"""Sets as a config spells them, and what is said of those that are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import GroupL1Ball, L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Box, Product, Simplex
from weir.dpcore.geometry.combinatorial import Flow, Permutations
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.norm_balls import LpBall, TraceNormBall
from weir.dpcore.geometry.parse import SETS, parse_set
from weir.dpcore.geometry.polytope import Polytope

EDGES = [[0, 1], [1, 2]]
GOOD: list[tuple[dict[str, Any], int, ConvexSet]] = [
    ({"l1_ball": 5}, 3, L1Ball(5.0, 3)),
    ({"l2_ball": 10.5}, 2, L2Ball(10.5, 2)),
    ({"simplex": 1}, 4, Simplex(1.0, 4)),
    ({"box": [-1, 1]}, 2, Box((-1.0, -1.0), (1.0, 1.0))),
    ({"box": [[-1, 0], 1]}, 2, Box((-1.0, 0.0), (1.0, 1.0))),
    ({"polytope": {"vertices": [[0, 0], [1, 0]]}}, 2, Polytope(((0.0, 0.0), (1.0, 0.0)))),
    (
        {"product": [{"l1_ball": 5, "size": 3}, {"box": [0, 1], "size": 1}]},
        4,
        Product((L1Ball(5.0, 3), Box((0.0,), (1.0,)))),
    ),
    ({"trace_norm_ball": {"radius": 5, "shape": [2, 3]}}, 6, TraceNormBall(5.0, (2, 3))),
    ({"permutations": 3}, 9, Permutations(3)),
    ({"lp_ball": {"radius": 2, "p": 1.5}}, 3, LpBall(2.0, 1.5, 3)),
    ({"group_l1_ball": {"radius": 2, "groups": 2}}, 5, GroupL1Ball(2.0, (2, 2, 1))),
    ({"group_l1_ball": {"radius": 2, "groups": [1, 4]}}, 5, GroupL1Ball(2.0, (1, 4))),
    (
        {"flow": {"nodes": 3, "edges": EDGES, "source": 0, "sink": 2}},
        2,
        Flow(3, ((0, 1), (1, 2)), 0, 2),
    ),
]


@pytest.mark.parametrize(("spec", "dimension", "wanted"), GOOD, ids=lambda x: str(x)[:30])
def test_parse(spec: dict[str, Any], dimension: int, wanted: ConvexSet) -> None:
    assert parse_set(spec, dimension) == wanted


def test_every_name_is_the_sets_own() -> None:
    assert {found.name for _, _, found in GOOD} == set(SETS)


@pytest.mark.parametrize(
    ("spec", "field", "says"),
    [
        (5, "model.set", "one set with its size"),
        ({}, "model.set", "l1_ball: 5"),
        ({"l1_ball": 5, "simplex": 1}, "model.set", "one set"),
        ({"l1_bal": 5}, "model.set.l1_bal", "did you mean l1_ball?"),
        ({"l1_ball": "5"}, "model.set.l1_ball", "number"),
        ({"l1_ball": True}, "model.set.l1_ball", "number"),
        ({"l1_ball": 0}, "model.set.l1_ball", "above 0"),
        ({"l1_ball": -1}, "model.set.l1_ball", "above 0"),
        ({"l2_ball": float("nan")}, "model.set.l2_ball", "finite"),
        ({"l2_ball": float("inf")}, "model.set.l2_ball", "finite"),
        ({"l2_ball": 10**400}, "model.set.l2_ball", "1e60"),
        ({"simplex": 1e-200}, "model.set.simplex", "1e-60"),
        ({"box": [1, -1]}, "model.set.box", "low <= high"),
        ({"box": 3}, "model.set.box", "list of 2"),
        ({"box": [1, 2, 3]}, "model.set.box", "list of 2"),
        ({"box": [[0, 0, 0], 1]}, "model.set.box.0", "list of 2"),
        ({"box": [0, "x"]}, "model.set.box.1", "number"),
        ({"polytope": [[0, 1]]}, "model.set.polytope", "mapping with vertices"),
        ({"polytope": {}}, "model.set.polytope.vertices", "missing"),
        ({"polytope": {"vertexes": []}}, "model.set.polytope.vertexes", "did you mean vertices"),
        ({"polytope": {"vertices": []}}, "model.set.polytope.vertices", "list"),
        ({"polytope": {"vertices": [[0, 1], [1]]}}, "model.set.polytope.vertices.1", "2 numbers"),
        ({"product": []}, "model.set.product", "list"),
        ({"product": [{"l1_ball": 5}]}, "model.set.product.0", "size: 3"),
        ({"product": [{"l1_ball": 5, "size": 0}]}, "model.set.product.0.size", "1 or more"),
        ({"product": [{"l1_ball": 5, "size": 3}]}, "model.set.product", "dimension 3"),
        ({"product": [{"l1_ball": 0, "size": 2}]}, "model.set.product.0.l1_ball", "above 0"),
        ({"trace_norm_ball": 5}, "model.set.trace_norm_ball", "radius, shape"),
        (
            {"trace_norm_ball": {"radius": 5, "shape": [2, 3]}},
            "model.set.trace_norm_ball",
            "dimension 6, but the model has 2",
        ),
        ({"permutations": 1.5}, "model.set.permutations", "whole number"),
        ({"lp_ball": 2}, "model.set.lp_ball", "radius, p"),
        ({"lp_ball": {"radius": 2, "p": 0.5}}, "model.set.lp_ball.p", "1 or more"),
        ({"lp_ball": {"radius": 2, "p": float("nan")}}, "model.set.lp_ball.p", "finite"),
        ({"lp_ball": {"radius": 0, "p": 2}}, "model.set.lp_ball.radius", "above 0"),
        ({"lp_ball": {"radius": 2}}, "model.set.lp_ball.p", "missing"),
        (
            {"group_l1_ball": {"radius": 2, "groups": [1, 2]}},
            "model.set.group_l1_ball",
            "dimension 3, but the model has 2",
        ),
        (
            {"group_l1_ball": {"radius": 2, "groups": [2, 0]}},
            "model.set.group_l1_ball.groups",
            "1 or more",
        ),
        (
            {"group_l1_ball": {"radius": 2, "groups": 0.5}},
            "model.set.group_l1_ball.groups",
            "whole number",
        ),
        ({"group_l1_ball": {"radius": 2, "groups": []}}, "model.set.group_l1_ball.groups", "list"),
        ({"permutations": 2}, "model.set.permutations", "dimension 4"),
    ],
    ids=str,
)
def test_bad_sets(spec: Any, field: str, says: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        parse_set(spec, 2)
    assert wrong.value.field == field
    assert says in wrong.value.remedy


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"nodes": 0}, "nodes", "1 or more"),
        ({"edges": [[0, 1], [1, 0]]}, "edges", "cycle"),
        ({"edges": [[0, 0], [1, 2]]}, "edges", "cycle"),
        ({"edges": [[0, 1], [1, 3]]}, "edges", "from 0 to 2"),
        ({"edges": [[0, 1], [1]]}, "edges.1", "list of 2"),
        ({"edges": [[0, 1], [1, -2]]}, "edges.1", "0 or more"),
        ({"edges": [[0, 1], [0, 1]]}, "edges", "no path"),
        ({"sink": 0}, "sink", "must not be the source"),
        ({"sink": 7}, "sink", "from 0 to 2"),
        ({"capacity": 7}, "capacity", "allowed here"),
    ],
    ids=str,
)
def test_bad_flows(change: dict[str, Any], field: str, says: str) -> None:
    spec = {"nodes": 3, "edges": EDGES, "source": 0, "sink": 2, **change}
    with pytest.raises(ConfigError) as wrong:
        parse_set({"flow": spec}, 2, "model.set")
    assert wrong.value.field == f"model.set.flow.{field}"
    assert says in wrong.value.remedy
