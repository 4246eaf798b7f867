"""Models under a user: every registered one is priced for whole users, or refused by name."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.contracts.corners import candidates, weights
from tests.contracts.people import CAPS, config_of
from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.hashes import hashes_of_users
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.erm.incremental import design_of
from weir.dpcore.models.kit.kept import Prefix
from weir.dpcore.models.online.leader_model import LeaderModel
from weir.dpcore.models.online.program import Learner
from weir.dpcore.models.users import refuse_blind, rows_of_user
from weir.dpcore.program import RowProgram, takes_rows
from weir.dpcore.registry import MODELS
from weir.dpcore.spaced import compiled

LEARNERS = ("online.follow_the_leader", "online.conditional_gradient", "online.pftal")
MOMENTS = ("online.pqftl", "regression.incremental", "regression.projected")
KEPT = ("regression.erm",)
ITERATES = ("online.pocg",)
REFUSED = {
    "regression.two_trees": "regression.incremental",
    "regression.naive": "regression.erm",
    "erm.sampled": "erm.multi_resolution",
    "optimize.sfw_tree": "online.follow_the_leader",
    "optimize.sfw_polyhedral": "online.follow_the_leader",
    "optimize.phased_sgd": "online.follow_the_leader",
}
BLOCKS = tuple(name for name in MODELS.own if name.startswith("erm.") and name not in REFUSED)
WINDOWS = ("optimize.frank_wolfe",)
RANGES = {"u": (0.0, 1.0), "v": (-1.0, 1.0), "y": (0.0, 4.0)}
EVENTS = CAPS["events"]


def program_of(
    name: str, caps: Any = None, promise: Any = None, sections: Any = None, **more: Any
) -> Any:
    model = {
        "algorithm": name,
        "features": ["u", "v"],
        "target": "y",
        "ranges": {column: list(ends) for column, ends in RANGES.items()},
        **(
            {"block": "2d", "users": 20}
            if name.startswith("erm.")
            else {}
            if name in ("optimize.sfw_tree", "optimize.sfw_polyhedral", "optimize.phased_sgd")
            else {"set": {"l1_ball" if name == "online.conditional_gradient" else "l2_ball": 2}}
        ),
        **({"block": "2d", "users": 20} if name in WINDOWS else {}),
        **({"projection": {"dimension": 1}} if name == "regression.projected" else {}),
        **more,
    }
    model = {field: value for field, value in model.items() if value is not None}
    config = config_of({"model": model, **(sections or {})}, caps, **(promise or {}))
    return served(config)


def served(config: Any) -> Any:
    return compiled(config.algorithm, config.terms(), None).program


def test_every_model_is_priced_for_users_or_refused() -> None:
    assert {*LEARNERS, *MOMENTS, *KEPT, *BLOCKS, *WINDOWS, *ITERATES, *REFUSED} == set(MODELS.own)


@pytest.mark.parametrize("name", REFUSED)
def test_who_cannot_serve_says_so_and_who_can(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        program_of(name)
    said = str(refused.value)
    assert said.startswith("model.algorithm") and name in said
    assert "protects events only" in said and REFUSED[name] in said


def test_a_model_that_compiles_in_another_way_inherits_no_promise_to_users() -> None:
    """A learner of another package, which knows events only and does not say so."""

    class Own(LeaderModel):
        def compile(self, terms: Any) -> Any:
            raise AssertionError("never asked")

    class Said(Own):
        event_only: ClassVar[str] = ""

    fields = {"features": ["u"], "target": "y", "ranges": {"u": (0, 1), "y": (0, 1)}}
    own = Own(algorithm="online.follow_the_leader", **fields)  # type: ignore[arg-type]
    terms = config_of({"aggregates": {"n": {"count": "events"}}}).terms()
    with pytest.raises(ConfigError, match="does not say what a user adds"):
        compiled(own, terms, None)
    said = Said(algorithm="online.follow_the_leader", **fields)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="never asked"):
        compiled(said, terms, None)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", [*LEARNERS, *MOMENTS, *KEPT, *BLOCKS, *ITERATES])
def test_the_budget_is_kept_and_used(name: str, relation: str) -> None:
    program = program_of(name, promise={"relation": relation})
    spent = program.loss(8).epsilon(1e-6)
    assert 0.9 <= spent <= 1 + 1e-9


# ---- learners


def leaf_of(rng: Any, program: Learner, users: int, tick: int, columns: Any) -> RowLeaf:
    """Rows of so many users at two keys, each with a cell of one to three events at either."""
    owner, keys = [], []
    for user in range(users):
        for key in range(2):
            n = int(rng.integers(0, EVENTS + 1))
            owner += [user] * n
            keys += [key] * n
    picked = rng.integers(0, len(columns["u"]), len(owner))
    batch = {name: values[picked] for name, values in columns.items()}
    rows = program.bound(batch, len(owner)).rows
    high = np.array(owner, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    low, ticks = np.array(owner, dtype=np.uint64), np.full(len(owner), tick)
    hashes = hashes_of_users(high, low, ticks)
    order = rng.permutation(len(owner))
    times = np.arange(len(owner), dtype=np.int64)
    return RowLeaf.from_events(
        np.array(keys, dtype=np.int64)[order], rows[order], times[order], hashes[order], 2
    )


def without(leaf: RowLeaf, user: Any) -> RowLeaf:
    stay = (leaf.id_hash != user).any(axis=1)
    return RowLeaf.from_events(
        leaf.keys[stay], leaf.rows[stay], leaf.event_time[stay], leaf.id_hash[stay], leaf.n_keys
    )


def sums_of(program: Learner, x: Any, leaf: RowLeaf) -> Any:
    """What a leaf adds to the sum, and the count next to it, where there is one."""
    sums = [program.gradients.sums(x, leaf)]
    return np.hstack(sums if program.second is None else [*sums, program.second.sums(leaf)])


def worst_of(program: Learner, capped: Any, trials: int = 60) -> float:
    """The most that a user, there or not, moves one key's leaf, in units of what is paid for."""
    rng, worst = np.random.default_rng(5), 0.0
    columns = candidates(RANGES)
    part = program.mechanism
    scales = np.asarray(part.scales)
    for trial in range(trials):
        users = int(rng.integers(1, 9))
        leaf = leaf_of(rng, program, users, trial, columns)
        x = program.rule.set.linear_oracle(rng.standard_normal((2, program.gradients.parameters)))
        here = sums_of(program, x, capped(program, leaf).leaf)
        for user in np.unique(leaf.id_hash, axis=0):
            there = sums_of(program, x, capped(program, without(leaf, user)).leaf)
            moved = np.linalg.norm((here - there) / scales, axis=1) / part.sensitivity
            worst = max(worst, float(moved.max()))
    return worst


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("cap", [6, 4096])
def test_a_user_moves_a_learner_by_no_more_than_is_paid_for(name: str, cap: int) -> None:
    program = program_of(name, cap=cap, intercept=False, clip={"gradient": 0.5, "loss": 1.0})
    assert program.most_users == cap // EVENTS
    worst = worst_of(program, RowProgram.capped)
    assert worst <= 1 + 1e-9
    assert worst > (0.6 if cap == 6 else 0.45)  # nobody comes in where there is room for all


@pytest.mark.slow
def test_rows_that_compete_one_by_one_would_cost_more() -> None:
    """A cap that cuts through users lets in rows of several when one leaves."""
    program = program_of("online.follow_the_leader", cap=6, clip={"gradient": 0.5, "loss": 0.0})
    assert worst_of(program, lambda _, leaf: leaf.capped(3), 300) > 1.0


def test_events_that_are_bounded_one_by_one_would_cost_more() -> None:
    program = program_of("online.follow_the_leader", clip={"gradient": 0.5, "loss": 0.0})
    alone = replace(program, gradients=replace(program.gradients, users=False))
    assert worst_of(alone, RowProgram.capped) > 1.0


def test_a_users_gradients_are_added_before_they_are_clipped() -> None:
    """Two events that pull apart cancel, whatever their lengths; in any order of rows."""
    program = program_of("online.follow_the_leader", clip={"gradient": 1.0, "loss": 0.0})
    columns = {"u": np.array([0.5, 0.5, 1.0]), "v": np.zeros(3), "y": np.array([1.5, 2.5, 4.0])}
    rows = program.bound(columns, 3).rows
    same = np.array([[7, 7], [7, 7], [9, 9]], dtype=np.uint64)
    keys, times = np.zeros(3, dtype=np.int64), np.arange(3)
    leaf = RowLeaf.from_events(keys, rows, times, same, 1)
    x = np.zeros((1, 3))
    found = program.gradients.sums(x, leaf)
    alone = program.gradients.of_rows(np.zeros((3, 3)), np.asarray(leaf.rows))
    np.testing.assert_array_equal(found[0], alone.sum(axis=0) - alone[:2].sum(axis=0))
    turned = RowLeaf.from_events(keys, rows[::-1], times[::-1], same[::-1], 1)
    assert program.gradients.sums(x, turned).tobytes() == found.tobytes()


def test_a_sum_that_is_no_bound_for_adaptive_streams_carries_no_gradients() -> None:
    """Gradients follow releases: what is not charged for any signs is refused."""
    mechanism = program_of("online.follow_the_leader").mechanism
    assert mechanism.pattern is not None and mechanism.adaptive
    refuse_blind(mechanism)

    class Signed(type(mechanism)):  # type: ignore[misc]
        signed: ClassVar[bool] = True

    values = {field.name: getattr(mechanism, field.name) for field in fields(mechanism)}
    with pytest.raises(ConfigError, match="point against each other"):
        refuse_blind(Signed(**values))
    refuse_blind(Signed(**{**values, "pattern": None}))


def test_a_cap_without_room_for_a_user_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"contributions\.events: 3"):
        program_of("online.follow_the_leader", cap=2)


# ---- moments


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", MOMENTS)
def test_a_cell_of_moments_is_as_large_as_is_paid_for(name: str, relation: str) -> None:
    """Events add up: so many of the longest one."""
    times = 1 if relation == "add_remove" else 2
    program = program_of(name, promise={"relation": relation})
    for added in weights(program, candidates(RANGES)):
        worst = float(np.sqrt(np.einsum("ij,ij->i", added, added).max()))
        assert worst * EVENTS * times <= 1 + 1e-9
        assert worst * EVENTS * times > 0.9


# ---- rows that are kept


def streams(rng: Any, pattern: Pattern, n_keys: int) -> list[list[tuple[int, int]]]:
    """Cells (tick, key) of some users, within the caps of a period."""
    found = []
    for _ in range(int(rng.integers(2, 6))):
        ticks = rng.choice(8, pattern.ticks, replace=False)
        cells = [
            (int(tick), int(key))
            for tick in ticks
            for key in rng.choice(n_keys, min(n_keys, pattern.keys), replace=False)
        ]
        kept: list[tuple[int, int]] = []
        for cell in cells:
            own = sum(key == cell[1] for _, key in kept)
            if own < pattern.key_ticks and len(kept) < pattern.cells:
                kept.append(cell)
        found.append(kept)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gdp", "pure"])
def test_a_user_moves_no_batch_of_kept_rows_by_more_than_is_paid_for(kind: Any) -> None:
    """Rows compete within cap and limit; every prefix of the stream, all keys together."""
    caps = {"ticks": 3, "keys": 2, "events": 3, "ticks_per_key": 2, "total": 5}
    noise = {"gdp": "gaussian", "pure": "k_norm"}[kind]
    program = program_with(noise, caps)
    assert takes_rows(program)
    problem, rng, n_keys, worst = program.problem, np.random.default_rng(2), 3, 0.0
    pattern = program.pattern
    assert problem.changes == rows_of_user(pattern, caps["events"], kind)
    columns = candidates(RANGES)
    for _ in range(40):
        events = [
            (tick, key, user)
            for user, cells in enumerate(streams(rng, pattern, n_keys))
            for tick, key in cells
            for _ in range(int(rng.integers(1, caps["events"] + 1)))
        ]
        tick, key, user = (np.array(one, dtype=np.int64) for one in zip(*events, strict=True))
        picked = rng.integers(0, len(columns["u"]), len(events))
        rows = program.bound({n: v[picked] for n, v in columns.items()}, len(events)).rows
        hashes = rng.integers(0, 2**62, (len(events), 2)).astype(np.uint64)
        x = problem.set.linear_oracle(rng.standard_normal((n_keys, problem.dimension)))

        def sums(stay: Any, t: int, x: Any = x, of: Any = (tick, key, rows, hashes)) -> Any:
            at, keys, table, ids = of
            leaves = []
            for s in range(t + 1):
                some = stay & (at == s)
                times = np.zeros(int(some.sum()), dtype=np.int64)
                leaf = RowLeaf.from_events(keys[some], table[some], times, ids[some], n_keys)
                leaves.append(program.capped(leaf))
            prefix = Prefix.empty(n_keys, program.width)
            prefix = prefix.with_rows([leaf.leaf for leaf in leaves], problem.limit)
            return design_of(prefix, problem.gradients).sums(x, problem.gradients)

        for one in np.unique(user):
            for t in (2, 7):
                every = np.ones(len(events), dtype=bool)
                lengths = np.linalg.norm(sums(every, t) - sums(user != one, t), axis=1)
                total = lengths.sum() if kind == "pure" else np.linalg.norm(lengths)
                worst = max(worst, float(total) / problem.sensitivity)
    assert worst <= 1 + 1e-9
    assert worst > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("expected", [None, 3])
def test_a_user_moves_no_iterates_by_more_than_is_paid_for(expected: Any) -> None:
    """Cells of a period at several ticks and keys, all rows of them; every later iterate."""
    caps = {"ticks": 3, "keys": 2, "events": 3, "ticks_per_key": 2, "total": 5}
    sections = None if expected is None else {"expect": {"events": expected}}
    program = program_of("online.pocg", caps, sections=sections, cap=4, clip={"gradient": 0.5})
    descent, pattern, rng, n_keys, worst = program.descent, program.pattern, _rng(), 3, 0.0
    assert descent.rows == rows_of_user(pattern, caps["events"], "gdp")
    assert (descent.fading is None) == (expected is None)
    columns = candidates(RANGES)
    for _ in range(25):
        events = [
            (tick, key, user)
            for user, cells in enumerate(streams(rng, pattern, n_keys))
            for tick, key in cells
            for _ in range(caps["events"])
        ]
        tick, key, user = (np.array(one, dtype=np.int64) for one in zip(*events, strict=True))
        high, low = np.where(columns["y"] == 4.0)[0], np.where(columns["y"] == 0.0)[0]
        picked = np.where(user == 0, rng.choice(high), rng.choice(low))
        rows = program.bound({n: v[picked] for n, v in columns.items()}, len(events)).rows
        hashes = rng.integers(0, 2**62, (len(events), 2)).astype(np.uint64)

        def iterates(stay: Any, of: Any = (tick, key, rows, hashes)) -> Any:
            at, keys, table, ids = of
            x, found = program.init(n_keys).x, []
            for t in range(8):
                some = stay & (at == t)
                times = np.zeros(int(some.sum()), dtype=np.int64)
                leaf = RowLeaf.from_events(keys[some], table[some], times, ids[some], n_keys)
                x = descent.advance(x, program.capped(leaf).leaf, t)
                found.append(x)
            return np.stack(found)

        change = iterates(user >= 0) - iterates(user != 0)
        moved = np.sqrt((change**2).sum(axis=(1, 2))) / descent.sensitivity(np.arange(8))
        worst = max(worst, float(moved.max()))
    assert 0.2 < worst <= 1


def _rng() -> Any:
    return np.random.default_rng(7)


def program_with(noise: str, caps: Any) -> Any:
    model = {
        "algorithm": "regression.erm",
        "features": ["u", "v"],
        "target": "y",
        "ranges": {column: list(ends) for column, ends in RANGES.items()},
        "cap": 4,
        "rows": 12,
        "every": 2,
    }
    promise = {"delta": 0.0} if noise == "k_norm" else {}
    config = config_of({"model": model, "mechanism": {"noise": noise}}, caps, **promise)
    return served(config)


def test_rows_of_a_user_are_counted_over_keys() -> None:
    """The root of the largest sum of squares, against every way to share cells out."""

    def brute(cells: int, most: int) -> int:
        best = 0

        def rec(left: int, last: int, square: int) -> None:
            nonlocal best
            best = max(best, square)
            for n in range(1, min(left, last) + 1):
                rec(left - n, n, square + n * n)

        rec(cells, most, 0)
        return best

    for cells in range(1, 9):
        for most in range(1, cells + 1):
            pattern = Pattern(10, 10, most, 1, cells, most, None, cells)
            found = rows_of_user(pattern, 3, "gdp")
            assert found**2 >= 9 * brute(cells, most) > (found - 1) ** 2
            assert rows_of_user(pattern, 3, "pure") == 3 * cells


def test_runs_are_spread_over_all_that_a_period_meets() -> None:
    """A period of 8 ticks and a window of 8: 15 ticks, so 8 runs at every second of them."""
    program = program_with("gaussian", dict(CAPS))
    assert program.schedule.smallest.denominator == 8
    assert program.loss(8).value == pytest.approx(program.schedule.budget.value)
    assert program.loss(1).value < program.loss(8).value
