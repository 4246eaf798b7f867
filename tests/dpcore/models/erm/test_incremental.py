"""Incremental ERM as a program: neighbours by replay, noise, strides, blocks, and what it fits."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import arrays_of, concatenate
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.erm.incremental import IncrementalErm
from weir.dpcore.models.solvers.queries import Queries
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan
from weir.transforms.runtime.codec import pack, restore, unpack

P, D, TICKS = 2, 3, 24
ROOT = RootKey.derive(bytes(range(32)), "test", bytes(32))
TRUTH = np.array([0.6, -0.3, 0.1])
PLAN = """
name: t
schema: {{time: at}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: {end}}}
privacy: {{epsilon: {epsilon}, delta: {delta}, protect_for: {window}, relation: {relation}}}
mechanism: {{{mechanism}}}
model:
  algorithm: {algorithm}
  features: [u, v]
  target: y
  ranges: {{u: [-1, 1], v: [-1, 1], y: [-1, 1]}}
  cap: {cap}
  rows: {rows}
  {more}
"""


def erm(
    more: str = "every: 6",
    *,
    epsilon: float = 1.0,
    delta: str = "1e-6",
    window: Any = "all",
    relation: str = "replace_one",
    mechanism: str = "",
    algorithm: str = "regression.erm",
    cap: int = 50,
    rows: int = 5_000,
    end: str = "2024-01-02T00:00:00Z",
) -> IncrementalErm:
    window = window if window == "all" else f"{window} ticks"
    if "solver" not in more:
        more += "\n  solver: noisy_projected_gradient"
    return Plan.from_yaml(PLAN.format(**locals())).program  # type: ignore[return-value]


def leaf_of(keys: Any, rows: Any, n_keys: int, hashes: Any = None) -> RowLeaf:
    rows = np.asarray(rows, dtype=np.float64).reshape(-1, P + 1)
    if hashes is None:
        hashes = np.random.default_rng(len(rows)).integers(0, 1 << 60, (len(rows), 2))
    keys = np.asarray(keys, dtype=np.int64)
    return RowLeaf.from_events(
        keys, rows, np.arange(len(rows)), np.asarray(hashes, dtype=np.uint64), n_keys
    )


def random_rows(rng: Any, n: int) -> Any:
    rows = rng.uniform(-1, 1, (n, P + 1))
    clean = rows[:, :P] @ TRUTH[:P] + TRUTH[P]
    rows[:, P] = np.clip(clean + 0.1 * rng.normal(size=n), -1, 1)
    return np.rint(rows * 2**20) * 2.0**-20


def stream(n: int, k: int, seed: int = 0, rate: float = 3.0) -> tuple[RowLeaf, ...]:
    """Tick 3 has no rows at all, and key 1 never has any."""
    rng, found = np.random.default_rng(seed), []
    for tick in range(n):
        counts = rng.poisson(rate, k) * (tick != 3)
        if k > 1:
            counts[1] = 0
        keys = np.repeat(np.arange(k), counts)
        hashes = rng.integers(0, 1 << 60, (len(keys), 2))
        found.append(leaf_of(keys, random_rows(rng, len(keys)), k, hashes))
    return tuple(found)


def names(k: int) -> tuple[bytes, ...]:
    return tuple(b"key%d" % i for i in range(k))


def run(
    one: IncrementalErm, data: Sequence[RowLeaf], keys: Any, cuts: Any = (), noise: Any = None
) -> tuple[Any, Any]:
    state, found = one.init(len(keys)), []
    edges = [0, *cuts, len(data)]
    for low, high in zip(edges, edges[1:], strict=False):
        keyed = noise(low) if noise else KeyedNoise(ROOT, 0, keys, low)
        state, (theta,) = one.step(state, tuple(data[low:high]), lambda part, keyed=keyed: keyed)
        found.append(theta)
    return state, np.concatenate(found)


CASES = {
    "gradient": {},
    "strong": {"more": "every: 5\n  curvature: 2.0"},
    "sgd": {"more": "every: 6\n  solver: noisy_sgd\n  iterations: 4"},
    "discrete": {"mechanism": "noise: discrete_gaussian"},
    "pure": {"delta": "0", "window": 6},
    "window": {"window": 1, "more": "every: 1\n  iterations: 8"},
    "anywhere": {"relation": "replace_anywhere", "more": "every: 4"},
    "limit": {"rows": 12, "cap": 3},
    "logistic": {"more": "every: 6\n  loss: logistic\n  set: {l1_ball: 3}"},
    "steps": {"more": "every: 6\n  solver: steps"},
    "naive": {"algorithm": "regression.naive", "more": "iterations: 10", "epsilon": 20.0},
}


def case(name: str, **more: Any) -> IncrementalErm:
    return erm(**{**CASES[name], "epsilon": 30.0, **more})  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_strides_blocks_and_order_of_keys_change_nothing(name: str) -> None:
    one, k = case(name), 5
    data, keys = stream(TICKS, k), names(k)
    state, whole = run(one, data, keys)
    moved = (whole[-1] != one.init(k).models[0]).any(axis=1)
    assert moved[[0, 2, 3, 4]].any()  # something was learned
    for cuts in ((5, 6, 17), range(1, TICKS)):
        again, parts = run(one, data, keys, cuts)
        assert (parts == whole).all()
        pairs = zip(arrays_of(again), arrays_of(state), strict=True)
        assert all(a.tobytes() == b.tobytes() for a, b in pairs)
    for key in range(k):  # each key by itself
        mine = [
            leaf_of(np.zeros(len(leaf.of(key))), leaf.of(key), 1, leaf.id_hash[leaf.keys == key])
            for leaf in data
        ]
        assert (run(one, mine, keys[key : key + 1])[1][:, 0] == whole[:, key]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_state_survives_storage_and_keys_born_later(name: str) -> None:
    one, data, keys = case(name), stream(TICKS, 3), names(3)
    _, whole = run(one, data, keys)
    state = one.init(3)
    found = []
    for tick, leaf in enumerate(data):  # stored and read back at every tick
        keyed = KeyedNoise(ROOT, 0, keys, tick)
        state, (theta,) = one.step(state, (leaf,), lambda part, keyed=keyed: keyed)
        stored = unpack(b"M", pack(b"M", arrays_of(state), bytes(32)), bytes(32))
        state = restore(one.init(1), stored)
        found.append(theta)
    assert (np.concatenate(found) == whole).all()
    # A key that is born at tick 6 joins a block that is there already.
    late = tuple(leaf for leaf in stream(TICKS, 1, seed=9))
    both = [
        leaf_of(
            np.concatenate([old.keys, np.full(len(new.rows), 3)]),
            np.concatenate([old.rows, new.rows]),
            4,
            np.concatenate([old.id_hash, new.id_hash]),
        )
        for old, new in zip(data, late, strict=True)
    ]
    start, _ = run(one, data[:6], keys)
    joined = concatenate([start, one.init(1)])
    keyed = KeyedNoise(ROOT, 0, (*keys, b"late"), 6)
    _, (theta,) = one.step(joined, tuple(both[6:]), lambda part: keyed)
    assert (theta[:, :3] == whole[6:]).all()
    keyed = KeyedNoise(ROOT, 0, (b"late",), 6)
    _, (alone,) = one.step(one.init(1), late[6:], lambda part: keyed)
    assert (theta[:, 3:] == alone).all()


def test_step_is_pure_and_the_program_a_value() -> None:
    one, data, keys = case("gradient"), stream(12, 3), names(3)
    state, _ = run(one, data[:7], keys)
    for array in arrays_of(state):
        array.flags.writeable = False
    before = [array.copy() for array in arrays_of(state)]
    keyed = KeyedNoise(ROOT, 0, keys, 7)
    first = one.step(state, data[7:], lambda part: keyed)
    again = pickle.loads(pickle.dumps(one)).step(state, data[7:], lambda part: keyed)
    assert all((a == b).all() for a, b in zip(arrays_of(state), before, strict=True))
    assert (first[1][0] == again[1][0]).all()
    assert one.canonical() != replace(one, cap=51).canonical()
    full = erm(rows=40)
    state, _ = run(full, stream(TICKS - 2, 1), names(1))
    kept, waiting = len(state.kept.rows), len(state.gathered.waiting.rows)
    assert kept == 40 and 0 < waiting < full.waiting == 40
    size = full.state_bytes() - (80 - kept - waiting) * full.row_bytes
    assert sum(a.nbytes for a in arrays_of(state)) == size
    with pytest.raises(TypeError):
        one.accumulate(None, np.zeros(0, dtype=np.int64), 0)


class Replay:
    """Answers a neighbour's queries as the first stream's were, and adds up what it costs."""

    def __init__(self) -> None:
        self.first: list[tuple[int, Any, Any]] = []
        self.at = 0
        self.cost: dict[int, float] = {}

    def __call__(
        self, asked: Queries, exact: Any, sensitivity: float, share: Any, level: int
    ) -> Any:
        budget, part = asked._budget, float(asked._share * share)
        found = self.real(asked, exact, sensitivity, share, level)
        if not self.replaying:
            self.first.append((asked.tick, exact, found))
            return found
        tick, before, answer = self.first[self.at]
        self.at += 1
        assert tick == asked.tick
        moved = (exact - before).astype(np.float64)
        # Noise is calibrated to ``sensitivity``: what is really moved costs this much of the share.
        ratio = math.sqrt(float((moved**2).sum())) / sensitivity
        cost = part * (ratio if budget.kind == "pure" else ratio**2)
        self.cost[tick] = self.cost.get(tick, 0.0) + cost
        return answer


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> Replay:
    tape = Replay()
    tape.real = Queries._answer  # type: ignore[attr-defined]
    tape.replaying = False  # type: ignore[attr-defined]
    monkeypatch.setattr(
        Queries, "_answer", lambda asked, *given: tape(asked, *given)
    )  # fmt: skip
    return tape


def neighbour(data: Sequence[RowLeaf], relation: str, trial: int, cap: int) -> tuple[Any, Any, int]:
    """Capped leaves of two streams that differ in one event, and the tick of the earlier change."""
    rng = np.random.default_rng(trial)
    here, tick = list(data), int(rng.integers(0, 8))
    rows = np.sign(rng.normal(size=(2, P + 1)))
    rows[1] = rows[0] * np.array([1, 1, -1])  # as far apart as can be
    marks = rng.integers(0, 1 << 60, (2, 2))

    def put(leaves: list[RowLeaf], at: int, which: int) -> None:
        old = leaves[at]
        leaves[at] = leaf_of(
            np.zeros(len(old.rows) + 1),
            np.concatenate([old.rows, rows[which : which + 1]]),
            1,
            np.concatenate([old.id_hash, marks[which : which + 1].astype(np.uint64)]),
        )

    there = list(here)
    put(here, tick, 0)
    if relation == "replace_one":
        put(there, tick, 1)
    elif relation == "replace_anywhere":
        put(there, tick + 5, 1)
    return (
        [leaf.capped(cap).leaf for leaf in here],
        [leaf.capped(cap).leaf for leaf in there],
        tick,
    )


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add_remove", "replace_one", "replace_anywhere"])
@pytest.mark.parametrize("name", CASES)
def test_a_neighbour_costs_no_more_than_is_said_after_any_time(
    name: str, relation: str, replay: Any
) -> None:
    one, worst = case(name, relation=relation), 0.0
    for trial in range(6):
        data = stream(TICKS, 1, seed=trial, rate=2.0)
        here, there, tick = neighbour(data, relation, trial, one.cap)
        replay.first, replay.at, replay.cost, replay.replaying = [], 0, {}, False
        _, first = run(one, here, names(1))
        replay.replaying = True
        _, second = run(one, there, names(1))
        assert replay.at == len(replay.first)
        assert (first == second).all()  # all that leaves is a function of the answers
        for n in (1, 2, 5, 6, 7, 12, TICKS):
            paid = sum(cost for at, cost in replay.cost.items() if tick <= at < tick + n)
            said = one.schedule.spent(n)
            assert said is not None and paid <= float(said) * (1 + 1e-9)
        assert all(cost == 0 for at, cost in replay.cost.items() if at < tick)
        worst = max(worst, sum(replay.cost.values()) / float(one.schedule.spent(TICKS) or 1))
    # And the bound is no slack one. With a limit the event is hardly ever kept, and the baseline's
    # budget is so small that its first runs are not made.
    least = {"limit": 0.05, "naive": 0.001}.get(name, 0.2 if relation == "replace_one" else 0.05)
    assert worst > least


def test_noise_is_new_from_the_changed_tick_on_and_the_same_before() -> None:
    one, keys = case("gradient"), names(2)
    data = list(stream(TICKS, 2))
    changed = list(data)
    old = data[8]
    # The content of a row stays; only whose it is changes.
    hashes = old.id_hash.copy()
    hashes[0, 1] ^= np.uint64(1)
    changed[8] = RowLeaf(old.offsets, old.rows, old.event_time, hashes)
    (_, first), (_, second) = run(one, data, keys), run(one, changed, keys)
    assert (first[:11] == second[:11]).all() and (first[5] != first[4]).any()
    assert (first[11:, 0] != second[11:, 0]).any(axis=1).all()
    assert (first[:, 1] == second[:, 1]).all()  # the other key never knows


def test_two_versions_of_the_data_have_independent_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    k, one = 400, case("gradient", epsilon=1.0)
    keys = names(k)
    found: list[Any] = []
    real = Queries._answer

    def recording(self: Any, exact: Any, *given: Any) -> Any:
        answer = real(self, exact, *given)
        found.append((answer - exact).copy())
        return answer

    monkeypatch.setattr(Queries, "_answer", recording)
    rows = np.tile([[0.5, 0.5, 1.0]], (k, 1))
    first = [leaf_of(np.arange(k), rows, k) for _ in range(6)]
    second = [*first[:5], leaf_of(np.arange(k), -rows, k)]
    run(one, first, keys)
    split = len(found)
    run(one, second, keys)
    before, after = found[:split], found[split:]
    assert len(before) == len(after) >= 1
    for a, b in zip(before, after, strict=True):
        correlation = np.corrcoef(a.ravel(), b.ravel())[0, 1]
        assert abs(correlation) < 5 / math.sqrt(a.size)


def accepts(standard: Any) -> bool:
    """Mean square within 5 of its standard errors of 1 (those of the sample itself)."""
    square = np.asarray(standard) ** 2
    return bool(abs(square.mean() - 1) < 5 * square.std() / np.sqrt(square.size))


@pytest.mark.parametrize("relation", ["replace_one", "replace_anywhere"])
def test_the_noise_of_every_query_is_the_one_that_is_promised(
    relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From epsilon and delta alone: the total of all queries of a record is the whole mu."""
    from weir.dpcore.accounting.calibrate import gdp_mu

    one, k = erm("every: 6\n  iterations: 9", epsilon=8.0, relation=relation), 700
    drawn: list[Any] = []
    real = Queries._answer

    def recording(self: Any, exact: Any, *given: Any) -> Any:
        answer = real(self, exact, *given)
        drawn.append(answer - exact)
        return answer

    monkeypatch.setattr(Queries, "_answer", recording)
    data = [leaf_of(np.arange(k), np.tile([[0.5, 0.5, 1.0]], (k, 1)), k) for _ in range(TICKS)]
    run(one, data * 1, names(k))
    runs, changes = 4, 2 if relation == "replace_anywhere" else 1
    counts = [noise for noise in drawn if noise.shape[1] == 1]
    gradients = [noise for noise in drawn if noise.shape[1] == D]
    assert len(counts) == runs and len(gradients) in (9, 18, 27, 36)
    mu = gdp_mu(8.0, 1e-6)
    change = 2 * changes * one.problem.lipschitz / one.problem.gradients.lattice.resolution
    sigma = change / (mu * math.sqrt(31 / 32 / (9 * runs)))
    values = np.stack(gradients) / sigma
    assert accepts(values) and not accepts(values * 1.05) and not accepts(values / 1.05)
    values = np.stack(counts) / (changes / (mu * math.sqrt(1 / 32 / runs)))
    assert accepts(values) and not accepts(values * 1.25) and not accepts(values / 1.25)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["noisy_projected_gradient", "noisy_sgd"])
def test_without_noise_a_run_is_least_squares_of_the_prefix(solver: str) -> None:
    steps = 120 if solver == "noisy_sgd" else 2_500
    more = f"every: 6\n  solver: {solver}\n  iterations: {steps}\n  clip: {{gradient: 4.0}}"
    one = erm(more, epsilon=1e6)
    data = stream(TICKS, 3, rate=20.0)
    _, theta = run(one, data, names(3), noise=NoNoise)
    assert (theta[:5] == 0).all() and (theta[:, 1] == 0).all()
    for tick in (5, 11, 17, 23):
        for key in (0, 2):
            rows = np.concatenate([leaf.of(key) for leaf in data[: tick + 1]])
            points = np.concatenate([rows[:, :P], np.ones((len(rows), 1))], axis=1)
            exact = np.linalg.lstsq(points, rows[:, P], rcond=None)[0]
            assert theta[tick, key] == pytest.approx(exact, abs=2e-3)
            if tick < 23:
                assert (theta[tick : tick + 6, key] == theta[tick, key]).all()


@pytest.mark.slow
def test_curvature_pulls_to_the_centre_by_age() -> None:
    """lambda = curvature times ticks: the minimiser is that of ridge regression around it."""
    one = erm(
        "every: 8\n  iterations: 3000\n  clip: {gradient: 8.0}\n  curvature: 5.0\n"
        "  centre: [0.5, 0.5, 0.5]",
        epsilon=1e6,
    )
    data = stream(TICKS, 1, rate=20.0)
    _, theta = run(one, data, names(1), noise=NoNoise)
    rows = np.concatenate([leaf.rows for leaf in data])
    points = np.concatenate([rows[:, :P], np.ones((len(rows), 1))], axis=1)
    gram = points.T @ points + 5.0 * TICKS * np.eye(D)
    exact = np.linalg.solve(gram, points.T @ rows[:, P] + 5.0 * TICKS * 0.5)
    assert theta[-1, 0] == pytest.approx(exact, abs=1e-3)


def test_with_noise_it_learns() -> None:
    one = erm("every: 8", epsilon=4.0, rows=50_000, cap=5_000)
    data = stream(TICKS, 1, rate=1_500.0)
    _, theta = run(one, data, names(1))
    assert np.abs(theta[-1, 0] - TRUTH).max() < 0.05


def test_the_plan_says_how_state_grows_and_how_often_it_runs() -> None:
    one = erm(rows=1_000)
    assert one.row_bytes == 4 * 3 + 16
    growth, runs = one.notes
    assert "28 bytes" in growth and "1,000 rows" in growth and "every 6 ticks" in runs
    assert "300 since the last fit" in growth  # 6 ticks of at most 50 rows
    assert one.state_bytes() == 1_300 * 28 + 2 * 8 + 16 + 8 + 8 * D
    theta, coefficients = one.solve((np.zeros((2, 1, D)),), np.arange(2))
    infos = one.describe(np.arange(2))
    for info, released in zip(infos, (theta, coefficients), strict=True):
        assert (info.name, info.dimension) == (released.name, released.value.shape[2])
        assert math.isnan(info.stddev_worst) and released.stddev is None
    assert one.loss(None) == PrivacyLoss("gdp", one.schedule.budget.value)
    assert one.schedule.share(5) == Fraction(1, 4)
