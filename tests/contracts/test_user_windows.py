"""Windows under a user: whole users are removed, and the scores of each fit are made again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.contracts.test_user_blocks import CAPS, PERIOD, Stream, runs_of
from tests.contracts.test_user_models import program_of
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.partition import ByUsers
from weir.dpcore.models.optimize.program import WindowProgram
from weir.dpcore.models.optimize.refit import Refit, Refitting
from weir.dpcore.models.optimize.rows import on_lattice
from weir.dpcore.models.optimize.selection import Selecting, Selection
from weir.dpcore.models.optimize.width import Moving

NOISES = ("gumbel", "laplace", "gaussian", "discrete_gaussian", "k_norm")


def users_program(noise: str, cap: int | None, **more: Any) -> WindowProgram:
    """noise: refit, of that form."""
    promise = {"delta": 0.0} if noise == "k_norm" else {}
    sections = {} if noise == "refit" else {"mechanism": {"noise": noise}}
    form = {"terms": 2} if noise == "refit" else {"iterations": 3}
    own = {"users": 3, "set": {"l1_ball": 2}, **form, **({"cap": cap} if cap else {})}
    program = program_of("optimize.frank_wolfe", CAPS, promise, sections=sections, **own, **more)
    assert isinstance(program, WindowProgram) and isinstance(program.cut, ByUsers)
    return program


def asked(program: WindowProgram, leaves: Any, alone: bool = False) -> dict[Any, Any]:
    """(key, complete blocks) -> what noise is added to, at a fixed model of each fit.

    alone: whether rows of a user have a weight of their own each, which nobody pays for.
    """
    found = {}
    for (key, complete, _), _, run, rng in runs_of(program, leaves):
        if isinstance(run, Refitting):
            run = replace(run, weights=None) if alone else run
            parts = [run.scores(), *(run.moments(np.array(some)) for some in ((0, 1), (1, 2)))]
            found[key, complete] = np.concatenate(parts)
            continue
        assert isinstance(run, Selecting | Moving) and run._weights is not None
        if alone:
            run._weights = None
        if isinstance(run, Selecting):
            z = rng.integers(-2, 3, run.start()[0].shape).astype(float)
            scores = run.gradient(z, np.zeros(0), 3) * run._made.candidates.radius
            found[key, complete] = np.concatenate([scores, -scores])
        else:
            x = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], run.start()[0].shape)
            found[key, complete] = run.sums(x, 1).astype(float)
    return found


def paid(program: WindowProgram, one: dict[Any, Any], two: dict[Any, Any]) -> float:
    """What tells the two streams apart, over all fits of all keys, in units of the budget."""
    way, total = program.way, 0.0
    for at, scores in one.items():
        change = scores - two[at]
        if isinstance(way, Refit):
            parts = np.split(change, [way.dimension, way.dimension + 5])
            picks = way.terms * (float(np.ptp(parts[0])) / way.scale) ** 2 / 8
            moved = max(float(np.linalg.norm(part)) for part in parts[1:])
            total += picks + (moved / way.moments.moved) ** 2 * way.moments.loss.value
            continue
        moved = np.ptp(change) if isinstance(way, Selection) else np.linalg.norm(change)
        ratio = float(moved) / way.sensitivity
        total += float(way.cost) * (ratio if way.kind == "pure" else ratio**2)
    return total / float(program.total)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "loss"),
    [
        *((noise, {"huber": 0.3}) for noise in NOISES),
        ("gumbel", "squared"),
        ("gaussian", "squared"),
        ("refit", "squared"),
    ],
)
def test_a_user_who_is_gone_moves_scores_by_no_more_than_is_paid_for(noise: str, loss: Any) -> None:
    """Users compete for places; windows that slide, of blocks over a period's end."""
    most = 0.0
    for block, cap, window in (("2d", 3, 1), ("3d", 2, 2)):
        program = users_program(noise, cap, block=block, window=window, loss=loss)
        pure = program.way.kind == "pure"
        for seed in range(2):
            stream = Stream(program, seed)  # type: ignore[arg-type]
            every = np.ones(len(stream.user), dtype=bool)
            whole = asked(program, stream.leaves(program, every))  # type: ignore[arg-type]
            for user in np.unique(stream.user)[:2]:
                for gone, limit in (
                    ((stream.user == user) & (stream.tick < PERIOD), 1),
                    (stream.user == user, 2 if pure else 4),
                ):
                    rest = asked(program, stream.leaves(program, ~gone))  # type: ignore[arg-type]
                    found = paid(program, whole, rest)
                    assert found <= limit * (1 + 1e-9)
                    most = max(most, found)
    assert most > 0.02  # the scan sees something


@pytest.mark.parametrize(
    ("noise", "loss"),
    [("gumbel", {"huber": 0.3}), ("gaussian", {"huber": 0.3}), ("refit", "squared")],
)
def test_rows_that_are_not_bounded_together_would_cost_more(noise: str, loss: Any) -> None:
    program = users_program(noise, 3, block="2d", loss=loss)
    stream = Stream(program, 1)  # type: ignore[arg-type]
    n = len(stream.user)
    columns = {"u": np.ones(n), "v": np.ones(n), "y": np.full(n, 4.0)}
    stream.rows = np.asarray(program.bound(columns, n).rows)
    one = stream.user == 0
    told = []
    for alone in (False, True):
        whole = asked(program, stream.leaves(program, one), alone)  # type: ignore[arg-type]
        rest = asked(program, stream.leaves(program, one & ~one), alone)  # type: ignore[arg-type]
        told.append(paid(program, whole, rest))
    assert told[1] > 2 * told[0] > 0


@pytest.mark.parametrize("k", [1, 2, 3, 7, 1000, 65_537, 1 << 21])
def test_slopes_that_share_a_weight_come_to_no_more_than_one(k: int) -> None:
    unit, most = 2.0**-20, (1 << 20) - 3
    one = on_lattice(np.array([2.0, -2.0, np.nan]), unit, most, np.full(3, 1.0 / k))
    assert abs(one[0]) * k <= most * unit and one[1] == -one[0] and one[2] == 0
    assert k > 1 << 20 or abs(one[0]) * k > 0.5 * most * unit


def test_rows_that_travel_sparse_are_refused_to_users() -> None:
    wide = {"features": {"column": "x", "size": 50_000}, "ranges": {"x": [-1, 1], "y": [0, 4]}}
    with pytest.raises(ConfigError, match="where rows travel sparse"):
        program_of("optimize.frank_wolfe", CAPS, users=3, set={"l1_ball": 2}, **wide)
