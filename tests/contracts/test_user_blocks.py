"""Models of blocks under a user: whole users are removed, and fits are made again without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tests.contracts.corners import candidates
from tests.contracts.people import config_of
from tests.contracts.test_user_models import RANGES, program_of
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.hashes import hashes_of_users
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.blocks.continual import Growing
from weir.dpcore.models.blocks.fitter import Draws, MinimisedFit
from weir.dpcore.models.blocks.level import strength_for
from weir.dpcore.models.blocks.multi_resolution import Resolutions
from weir.dpcore.models.blocks.partition import ByUsers
from weir.dpcore.models.blocks.program import BlockProgram
from weir.dpcore.models.blocks.schedule import Participation, presence_of
from weir.dpcore.models.blocks.sliding_window import SlidingBlocks
from weir.dpcore.models.blocks.steps import GRADIENTS, HALVINGS, LENGTH, MOMENTS, SCALES
from weir.dpcore.models.blocks.steps_fit import StepsFit
from weir.dpcore.models.blocks.training import BlockTraining

TICKS, KEYS = 16, 2
CAPS = {"ticks": 3, "keys": 2, "events": 3, "ticks_per_key": 2, "total": 5}
PERIOD = 8


class Quiet:
    """Noise that is looked at by nobody: digests of rows alone."""

    first_tick = 0

    def at(self, tick: int) -> Quiet:
        return self

    def leaf_digests(self, words: Any) -> Any:
        return np.ones((*words.shape[:2], 2), dtype=np.uint64)


class Stream:
    """Events of some users over two periods of 8 ticks, within the caps."""

    def __init__(self, program: BlockProgram, seed: int) -> None:
        rng, owner, cells = np.random.default_rng(seed), list[int](), list[tuple[int, int]]()
        for user in range(int(rng.integers(2, 7))):
            for period in range(2):
                ticks = PERIOD * period + rng.choice(PERIOD, CAPS["ticks"], replace=False)
                kept: list[tuple[int, int]] = []
                for cell in [(int(t), k) for t in ticks for k in range(KEYS)]:
                    own = sum(key == cell[1] for _, key in kept)
                    if own < CAPS["ticks_per_key"] and len(kept) < CAPS["total"]:
                        kept.append(cell)
                for cell in kept:
                    n = int(rng.integers(1, CAPS["events"] + 1))
                    owner += [user] * n
                    cells += [cell] * n
        self.user = np.array(owner)
        self.tick, self.key = np.array(cells, dtype=np.int64).T
        columns = candidates(RANGES)
        picked = rng.integers(0, len(columns["u"]), len(owner))
        self.rows = np.asarray(
            program.bound({n: v[picked] for n, v in columns.items()}, len(owner)).rows
        )
        words = self.user.astype(np.uint64) + np.uint64(seed)
        self.high = words * np.uint64(0x9E3779B97F4A7C15)
        self.low = words

    def leaves(self, program: BlockProgram, stay: Any) -> tuple[RowLeaf, ...]:
        """Within the cap, a leaf a tick."""
        hashes = hashes_of_users(self.high, self.low, program.hash_ticks(self.tick))
        found = []
        for tick in range(TICKS):
            some = stay & (self.tick == tick)
            times = np.zeros(int(some.sum()), dtype=np.int64)
            leaf = RowLeaf.from_events(self.key[some], self.rows[some], times, hashes[some], KEYS)
            found.append(program.capped(leaf).leaf)
        return tuple(found)


def solved(program: BlockProgram, leaves: Any, shared: bool = True) -> dict[Any, Any]:
    """(key, complete blocks, place) -> level and minimiser, each pulled to a fixed point.

    shared: whether rows of a user share a weight; else each has its own, which nobody pays for.
    """
    found = {}
    for at, index, run, _ in runs_of(program, leaves):
        assert isinstance(run, MinimisedFit) and run.weights is not None
        run = run if shared else replace(run, weights=None)
        x, _ = run.advance(*run.start(), 0, run.made.steps)
        assert run.certified(x) or not shared
        found[at] = (index, x)
    return found


def runs_of(program: Any, leaves: Any) -> Iterator[tuple[tuple[int, int, int], int, Any, Any]]:
    """(key, complete blocks, place), level, fit and a generator of each fit of a stream, whose
    start is a fixed point."""
    training = program.training
    kept = training.no_rows(KEYS)
    for job in jobs_of(training, leaves):
        kept = training.admit(kept, job)
        for key, (_, complete) in enumerate(job.numbers.tolist()):
            for place, fit in enumerate(training.schedule.fits(complete)):
                rng = np.random.default_rng([key, complete, place])
                slots = rng.standard_normal((training.schedule.slots, training.dimension))
                draws: Any = Draws(None, place, complete, None)  # type: ignore[arg-type]
                run = training._run(kept, key, fit, slots, draws)
                yield (key, complete, place), fit.level, run, rng


def jobs_of(training: BlockTraining, leaves: Any) -> Any:
    quiet: Any = Quiet()
    return training.jobs(training.gathered(KEYS), leaves, lambda part: quiet)[1]


def paid(program: BlockProgram, one: dict[Any, Any], two: dict[Any, Any]) -> float:
    """What tells the two streams apart, over all fits of all keys, in units of the budget."""
    kind, total = program.levels[0].noise.kind, 0.0
    for at, (index, x) in one.items():
        level = program.levels[index]
        moved = float(np.linalg.norm(x - two[at][1])) / level.noise.moved
        total += float(level.cost) * (moved if kind == "k_norm" else moved**2)
    return total / float(program.total)


def users_program(name: str, noise: str, cap: int | None, **more: Any) -> BlockProgram:
    config = {"cap": cap} if cap else {}
    promise = {"delta": 0.0} if noise == "k_norm" else {}
    sections = {"mechanism": {"noise": noise}}
    program = program_of(
        name,
        CAPS,
        {**promise},
        sections=sections,
        users=3,
        regularise=0.5,
        clip={"features": 1.0},
        **config,
        **more,
    )
    assert isinstance(program, BlockProgram) and isinstance(program.cut, ByUsers)
    return program


def worst(program: BlockProgram, trials: int) -> tuple[float, float]:
    """The most that is told of a user in a period, and of all that a user does in two."""
    found = [0.0, 0.0]
    for seed in range(trials):
        stream = Stream(program, seed)
        every = np.ones(len(stream.user), dtype=bool)
        whole = solved(program, stream.leaves(program, every))
        for user in np.unique(stream.user)[:3]:
            for i, gone in enumerate(
                ((stream.user == user) & (stream.tick < PERIOD), stream.user == user)
            ):
                rest = solved(program, stream.leaves(program, ~gone))
                found[i] = max(found[i], paid(program, whole, rest))
    return found[0], found[1]


CASES = {
    "window": ("erm.sliding_window", {"window": 3}),
    "scales": ("erm.multi_resolution", {"doublings": 2}),
    "continual": ("erm.continual", {"base": 2, "doublings": 1}),
}


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gaussian", "k_norm"])
@pytest.mark.parametrize("name", CASES)
def test_a_user_who_is_gone_moves_fits_by_no_more_than_is_paid_for(name: str, noise: str) -> None:
    """Users compete for three places a block; blocks of two and of three days, over a period's
    end."""
    algorithm, more = CASES[name]
    for block, cap in (("2d", 3), ("3d", 2)):
        program = users_program(algorithm, noise, cap, block=block, **more)
        period, both = worst(program, 2)
        assert period <= 1 + 1e-9
        assert both <= 4 + 1e-9 if noise == "gaussian" else both <= 2 + 1e-9
        assert both > 0.02  # the scan sees something


def queried(program: BlockProgram, leaves: Any, shared: bool = True) -> dict[Any, Any]:
    """(key, complete blocks, place) -> level, and what its noisy steps ask, over what each part of
    their noise is made for. Models and clips are fixed: they follow from what was released."""
    found = {}
    for at, index, run, rng in runs_of(program, leaves):
        assert isinstance(run, StepsFit)
        run = run if shared else replace(run, weights=np.ones_like(run.weights))
        level, w = run.level, 9 * rng.standard_normal(program.dimension)
        parts = [run.mean_length() / level.length.moved]
        if level.moments is not None:
            parts.append(run.second_moments(1.3) / level.moments.moved)
        parts.append(run.gradient(w, 1.2) / level.gradients[0].moved)
        if level.scale is not None:
            parts.append(run.along(w, HALVINGS[0][0]) / level.scale.moved)
        found[at] = (index, parts)
    return found


def paid_of_steps(program: BlockProgram, one: dict[Any, Any], two: dict[Any, Any]) -> float:
    """What tells the two streams apart, over all fits of all keys, in units of the budget."""
    total = 0.0
    for at, (index, parts) in one.items():
        level: Any = program.levels[index]
        shares = [LENGTH, MOMENTS, GRADIENTS]
        if level.moments is None:
            shares = [LENGTH, 1 - LENGTH - SCALES, SCALES] if level.scale else [LENGTH, 1 - LENGTH]
        for share, a, b in zip(shares, parts, two[at][1], strict=True):
            moved = float(np.linalg.norm(a - b))
            total += float(program.levels[index].cost * share) * moved**2
    return total / float(program.total)


@pytest.mark.slow
@pytest.mark.parametrize("moments", [True, False], ids=["moments", "descent"])
@pytest.mark.parametrize("name", CASES)
def test_a_user_who_is_gone_moves_noisy_steps_by_no_more_than_is_paid_for(
    name: str, moments: bool
) -> None:
    """As above; and rows that each had a weight of their own would cost more."""
    algorithm, more = CASES[name]
    most = [0.0, 0.0, 0.0]
    for block, cap in (("2d", 3), ("3d", 2)):
        sections = {"mechanism": {"noise": "gaussian"}}
        program = program_of(algorithm, CAPS, sections=sections, users=3, cap=cap, block=block,
                             moments=moments, **more)  # fmt: skip
        assert isinstance(program, BlockProgram)
        for seed in range(2):
            stream = Stream(program, seed)
            every = np.ones(len(stream.user), dtype=bool)
            whole = queried(program, stream.leaves(program, every))
            for user in np.unique(stream.user)[:3]:
                period = (stream.user == user) & (stream.tick < PERIOD)
                for i, gone in enumerate((period, stream.user == user)):
                    rest = queried(program, stream.leaves(program, ~gone))
                    most[i] = max(most[i], paid_of_steps(program, whole, rest))
        alone = one_user(program)
        nobody = np.zeros(len(alone.user), dtype=bool)
        told = [
            paid_of_steps(
                program,
                queried(program, alone.leaves(program, ~nobody), shared),
                queried(program, alone.leaves(program, nobody), shared),
            )
            for shared in (True, False)
        ]
        most[2] = max(most[2], told[1] / told[0])
    assert 0.02 < most[0] <= 1 + 1e-9 and most[1] <= 4 + 1e-9
    assert most[2] > 2


def one_user(program: BlockProgram) -> Stream:
    """One user alone, at every place that the caps leave, all events pulling one way."""
    stream = Stream(program, 1)
    at = [(t, k) for t in (0, 2) for k in range(KEYS)]
    stream.user = np.zeros(3 * len(at), dtype=np.int64)
    stream.tick = np.repeat([t for t, _ in at], 3)
    stream.key = np.repeat([k for _, k in at], 3)
    n = len(stream.user)
    rows = {"u": np.ones(n), "v": np.ones(n), "y": np.full(n, 4.0)}
    stream.rows = np.asarray(program.bound(rows, n).rows)
    stream.high = stream.low = np.full(n, 7, dtype=np.uint64)
    return stream


@pytest.mark.parametrize("noise", ["gaussian", "discrete_gaussian", "k_norm"])
def test_lambda_by_rule_is_for_what_a_fit_may_cost(noise: str) -> None:
    """A user is in several cells, each of which has a part of the budget."""
    promise = {"delta": 0.0} if noise == "k_norm" else {}
    sections = {"mechanism": {"noise": noise}}
    program = program_of(
        "erm.independent_batches", CAPS, promise, sections, users=3, solver="output"
    )
    (level,), aim = program.levels, program.objective
    assert program.presence.cells > 1
    assert aim.strength == pytest.approx(strength_for(aim, level.divisor, level.loss), rel=1e-3)


def test_rows_that_are_not_bounded_together_would_cost_more() -> None:
    """Three events of a user in a block, each with its own weight."""
    program = users_program("erm.independent_batches", "gaussian", 3, loss={"huber": 0.3})
    stream = one_user(program)
    everybody = np.ones(len(stream.user), dtype=bool)
    told = []
    for shared in (True, False):
        whole = solved(program, stream.leaves(program, everybody), shared)
        rest = solved(program, stream.leaves(program, ~everybody), shared)
        told.append(paid(program, whole, rest))
    assert 0.05 < told[0] <= 0.25 + 1e-9  # alone it adds, and swaps nobody: half, squared
    assert told[1] > 2 * told[0]


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gaussian", "k_norm"])
@pytest.mark.parametrize(
    ("name", "more"), [("erm.independent_batches", {}), ("erm.multi_resolution", {"doublings": 1})]
)
def test_a_place_that_is_given_away_is_paid_for_as_a_swap(name: str, more: Any, noise: str) -> None:
    """Two users, one place: who leaves lets in another who pulls the other way, in two blocks of
    either key, which one fit sees together. Four of five cells that are paid for."""
    program = users_program(name, noise, 1, loss={"huber": 0.05}, **more)
    stream = one_user(program)
    n = len(stream.user)
    stream.user = np.repeat([0, 1], n)
    stream.tick, stream.key = np.tile(stream.tick, 2), np.tile(stream.key, 2)
    columns = {"u": np.ones(2 * n), "v": np.ones(2 * n), "y": np.repeat([4.0, 0.0], n)}
    stream.rows = np.asarray(program.bound(columns, 2 * n).rows)
    stream.high = stream.low = np.repeat([7, 8], n).astype(np.uint64)
    everybody = np.ones(2 * n, dtype=bool)
    whole = solved(program, stream.leaves(program, everybody))
    told = []
    for user in range(2):
        leaves = stream.leaves(program, stream.user != user)
        told.append(paid(program, whole, solved(program, leaves)))
    assert 0.7 < max(told) <= 0.8 + 1e-9


def test_all_rows_of_a_user_are_together_and_void_ones_weigh_nothing() -> None:
    program = users_program("erm.independent_batches", "gaussian", 2)
    stream = Stream(program, 3)
    training = program.training
    leaves = stream.leaves(program, np.ones(len(stream.user), dtype=bool))
    kept = training.no_rows(KEYS)
    for job in jobs_of(training, leaves):
        kept = training.admit(kept, job)
        for key in range(KEYS):
            block = int(job.numbers[key, 0])
            total = float(kept.weighed(key, block, block)[2].sum())
            assert abs(total - round(total)) < 1e-9 and round(total) <= 2
    assert training.form == 3 and program.row_bytes == 4 * (3 + 1) + 16


# ---- what a user pays


SCHEDULES: dict[str, Any] = {
    "window 3": SlidingBlocks(2),
    "window 7": SlidingBlocks(3),
    "scales": Resolutions(2),
    "continual": Growing(2, 2, True),
    "basic": Growing(2, 1, False),
}


@pytest.mark.parametrize("kind", ["gdp", "pure"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_what_a_user_pays_covers_every_set_of_blocks(name: str, kind: Any) -> None:
    schedule = SCHEDULES[name]
    rng = np.random.default_rng(1)
    start, length = schedule.period
    fits = [f for t in range(1, start + 3 * length) for f in schedule.fits(t)]
    costs = [Fraction(int(x), 100) for x in rng.integers(1, 100, len(schedule.sizes))]
    power = 1 if kind == "pure" else 2
    for n in (1, 2, 3):
        paid, near = Participation(n, n).spent(schedule, costs, kind), Fraction(0)
        for first in range(start + length):
            for others in combinations(range(first + 1, first + 7), n - 1):
                mine = {first, *others}
                total = sum(
                    (
                        costs[f.level] * sum(f.first <= b <= f.last for b in mine) ** power
                        for f in fits
                    ),
                    Fraction(0),
                )
                near = max(near, total)
        assert near <= paid
        assert near > paid / 2 and (n > 1 or near == paid)


def test_a_user_is_in_as_many_blocks_as_a_period_meets() -> None:
    def of(ticks: int, caps: dict[str, int], per: str = "8d") -> Participation:
        return presence_of(config_of(AGGREGATES, caps, per=per).terms().person, ticks)

    few = {"ticks": 4, "keys": 2, "events": 3}
    assert of(1, few) == of(2, few) == Participation(4, 8)
    assert of(4, few) == Participation(2, 8)
    assert of(8, few).blocks == 1 and of(16, few).blocks == 1
    assert of(3, {**few, "ticks": 8}).blocks == 4  # 8 ticks lie in up to 4 spans of 3
    assert of(5, few).blocks == 3
    for ticks in range(1, 12):
        met = max(len({t // ticks for t in range(8 * p, 8 * p + 8)}) for p in range(60))
        assert of(ticks, {**few, "ticks": 8}).blocks >= met
    assert presence_of(None, 3) == Participation(1, 1)
    one = {**few, "period_keys": 1, "ticks_per_key": 2}
    assert of(1, one) == Participation(2, 2)


AGGREGATES: dict[str, Any] = {"aggregates": {"n": {"count": "events"}}}


def test_several_periods_cost_no_more_than_a_group_of_them() -> None:
    program = users_program("erm.sliding_window", "gaussian", None, window=3)
    one = program.loss(8)
    assert program.loss_of_event(8).value < one.value
    two, many = program.loss_of_periods(2, 8, 2), program.loss_of_periods(30, 8, 40)
    assert one.value < two.value <= 2 * one.value and many.value < 30 * one.value
    assert program.loss_of_periods(2, 0, 2).value == 0


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ({"block": 5}, "privacy.unit"),
        ({"users": None}, "model.users"),
        ({"block": "30h"}, "model.block"),
    ],
    ids=str,
)
def test_what_cannot_be_served_is_refused_by_its_field(model: Any, field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        program_of("erm.sliding_window", **model)
    assert refused.value.field == field
