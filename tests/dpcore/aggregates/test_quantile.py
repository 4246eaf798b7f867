"""Quantiles: the tree of counts, what is told without noise, and whether the error holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from weir.dpcore.aggregates.counts import even_edges
from weir.dpcore.aggregates.quantile import QuantileOutput, RankTree, best_fan, levels_of
from weir.dpcore.bounded_events import Events
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.simulate import simulate

DAY = 86_400_000_000
TICKS = 6


def plan_of(body: dict[str, Any], keys: int = 1, **rest: Any) -> Plan:
    return Plan.from_config(
        PlanConfig.from_dict(
            {
                "name": "paid",
                "schema": {"time": "at", "unit": "user"} if "unit" in rest else {"time": "at"},
                "key": {"column": "k", "declared": [f"k{i}" for i in range(keys)]},
                "clock": {
                    "start": "2025-01-01T00:00:00Z",
                    "period": "1d",
                    "end": "2025-01-07T00:00:00Z",
                },
                "privacy": {"epsilon": 1.0, "delta": 1e-6, "protect_for": "all", **rest},
                "aggregates": {"q": {"quantile": "x", **body}},
            }
        )
    )


def shaped(bins: int, fan: int) -> tuple[RankTree, np.ndarray]:
    """A tree, and its counts as a matrix over the finest bins."""
    sizes = tuple(len(edges) - 1 for edges in levels_of(range(bins + 1), fan))
    rows = [
        [float(j // fan**level == i) for j in range(bins)]
        for level, size in enumerate(sizes)
        for i in range(size)
    ]
    return RankTree(sizes, fan), np.array(rows)


@pytest.mark.parametrize(("bins", "fan"), [(7, 2), (10, 3), (64, 4), (5, 8), (9, 3), (3, 2)])
def test_two_passes_are_least_squares(bins: int, fan: int) -> None:
    rng = np.random.default_rng(bins)
    tree, matrix = shaped(bins, fan)
    own = rng.uniform(0.5, 3, len(tree.sizes))
    weights = np.repeat(1 / own, tree.sizes)
    covariance = np.linalg.inv(matrix.T @ (weights[:, None] * matrix))
    counts = rng.normal(size=(2, 3, len(matrix)))
    best = (counts * weights) @ matrix @ covariance
    cuts = np.cumsum(tree.sizes)[:-1]
    noise = [np.full((2, 1, 1), one) for one in own]
    np.testing.assert_allclose(tree.consistent(np.split(counts, cuts, axis=2), noise), best)
    for at in (0.05, 0.5, 0.9):
        below = (np.arange(bins) < np.arange(bins + 1)[:, None]) - at
        exact = ((below @ covariance) * below).sum(axis=1)
        np.testing.assert_allclose(tree.rank_variance(noise, at)[1], exact, rtol=1e-9)


def test_more_levels_where_they_pay() -> None:
    assert [best_fan(bins) for bins in (2, 5, 10, 16, 64, 1000)] == [2, 5, 10, 4, 4, 4]
    assert [len(edges) - 1 for edges in levels_of(range(38), 4)] == [37, 10, 3]


@pytest.mark.slow
@pytest.mark.parametrize(
    "edges", [{"log": [1, 1000, 40]}, {"linear": [-5, 1000, 100]}, [1, 3, 10, 30, 100, 300, 1000]]
)
def test_without_noise_the_bin_of_the_quantile_is_found(edges: Any) -> None:
    at = [0.01, 0.25, 0.5, 0.9, 0.999]
    plan = plan_of({"at": at, "edges": edges, "over": ["all", 2]})
    rng = np.random.default_rng(3)
    x = np.exp(rng.normal(4, 2, 2_000))
    times = plan.clock.start + rng.integers(0, TICKS * DAY, len(x))
    events = Events(times, ["k0"] * len(x), {"x": np.append(x[:-1], np.nan)})
    (found,) = simulate(plan, events, bytes(32), noise=NoNoise(0))
    tick, fine = plan.clock.tick_of(times), np.array(even_edges(edges))
    for released in found.released:
        for t in range(TICKS):
            inside = (
                tick <= t if released.over is None else (tick <= t) & (tick > t - released.over)
            )
            inside[-1] = False  # NaN does not count
            exact = np.quantile(np.clip(x[inside], fine[0], fine[-1]), at, method="inverted_cdf")
            bins = np.clip(np.searchsorted(fine, exact, side="right") - 1, 0, len(fine) - 2)
            value = released.value[t, 0]
            assert (fine[bins] - 1e-9 <= value).all() and (value <= fine[bins + 1] + 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize("person", [False, True], ids=["events", "users"])
def test_the_band_holds_the_true_quantile(person: bool) -> None:
    keys, n, at = 300, 400, (0.1, 0.5, 0.95)
    user: dict[str, Any] = {
        "unit": "user",
        "per": "3d",
        "contributions": {"ticks": 3, "keys": 1, "events": 2},
        "epsilon": 6.0,
    }
    body = {"at": list(at), "edges": {"log": [1, 10000, 64]}, "over": ["all", 2]}
    plan = plan_of(body, keys, **(user if person else {}))
    rng = np.random.default_rng(1)
    offset, x = np.sort(rng.integers(0, TICKS * DAY, n)), np.exp(rng.normal(5, 1.2, n))
    events = Events(
        np.tile(plan.clock.start + offset, keys),
        [f"k{i}" for i in range(keys) for _ in range(n)],
        {"x": np.tile(x, keys)},
        users=[f"u{i}" for i in range(keys * n)] if person else None,
    )
    found, tick = simulate(plan, events, bytes(range(32))), offset // DAY
    for which, over in enumerate((None, 2)):
        inside = tick <= 5 if over is None else (tick <= 5) & (tick > 5 - over)
        exact = np.quantile(np.clip(x[inside], 1, 10000), at, method="inverted_cdf")
        value = np.array([one.released[which].value[5, 0] for one in found])
        assert all(one.released[which].stddev is None for one in found)
        low, high = (
            np.array([getattr(one.released[which], end)[5, 0] for one in found])
            for end in ("low", "high")
        )
        assert (((low <= exact) & (exact <= high)).mean(axis=0) >= 0.95).all()
        assert (low >= 1).all() and (high <= 10000).all()
        # A margin that is a third as wide does not hold 95 % of them: it is no empty guarantee.
        if over == 2 and not person:
            third = np.maximum(value - low, high - value) / 3
            assert (np.abs(value - exact) <= third).mean() < 0.9


def test_ranks_err_as_is_claimed_and_not_otherwise() -> None:
    """z-scores of ranks at fixed edges, over keys: of the right variance, and not 15 % off."""
    plan = plan_of({"at": 0.5, "edges": {"linear": [0, 1, 32]}, "over": 1}, keys=1500)
    found = simulate(plan, Events(np.zeros(0, np.int64), [], {"x": np.zeros(0)}), bytes(range(32)))
    program: Any = plan.program
    (output,) = program.infos
    assert isinstance(output, QuantileOutput)
    # The same noise, before it is solved.
    from weir.dpcore.noise.key_ring import KeyRing
    from weir.dpcore.noise.prf import KeyedNoise

    ring = KeyRing.derive(bytes(range(32)), plan.name, bytes.fromhex(plan.digest))
    names = list(plan.keys.ordered)
    leaves = np.zeros((TICKS, len(names), program.dimension), dtype=np.int64)
    _, noisy = program.step(
        program.init(len(names)), leaves, lambda part: KeyedNoise(ring.at(0), part, names, 0)
    )
    stddev = program.parts[0].mechanism.stddev(np.arange(TICKS), 1)
    starts, sizes = program.starts, output.tree.sizes
    assert list(output.levels) == [*range(len(sizes))]
    steps = [program.channels[level].resolution for level in output.levels]
    counts = [
        noisy[0][:, :, start : start + size] * step
        for start, size, step in zip(starts, sizes, steps, strict=True)
    ]
    noise = [
        (stddev[:, None, start : start + size] * step) ** 2
        for start, size, step in zip(starts, sizes, steps, strict=True)
    ]
    ranks = np.cumsum(output.tree.consistent(counts, noise), axis=2)
    above = ranks - 0.5 * ranks[:, :, -1:]
    claimed = output.tree.rank_variance(noise, 0.5)[:, None, 1:]
    for edge in (3, 11, 15, 20):
        z = (above / np.sqrt(claimed))[:, :, edge]
        ratio, slack = float((z**2).mean()), 4 * np.sqrt(2 / z.size)
        assert abs(ratio - 1) < slack
        assert abs(ratio / 1.15**2 - 1) > slack and abs(ratio / 0.85**2 - 1) > slack
    assert np.isfinite(found[0].released[0].value).all()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"at": 0.5}, r"aggregates\.q\.edges is missing; write something like `edges: \{log"),
        ({"edges": [0, 1, 2]}, r"aggregates\.q\.at is missing"),
        ({"at": 1.0, "edges": [0, 1, 2]}, r"aggregates\.q\.at = 1\.0: must be a number between"),
        ({"at": [0.9, 0.5], "edges": [0, 1, 2]}, "rising from left"),
        ({"at": 0.5, "edges": [0, 1]}, "at least three edges"),
        ({"at": 0.5, "edges": {"log": [0, 10, 4]}}, "must begin above 0"),
        ({"at": 0.5, "edges": {"log": [1, 10, 1]}}, "from 2 to 4,096 bins"),
        ({"at": 0.5, "edges": {"log": [1, 10]}}, "must be like"),
        ({"at": 0.5, "edges": {"log": [1, 10, 4], "linear": [0, 1, 2]}}, "must be like"),
        ({"at": 0.5, "edges": [0, 2, 1]}, "must rise strictly"),
        ({"at": 0.5, "edges": [0, 1, float("inf")]}, "must be finite"),
    ],
)
def test_what_is_refused(body: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        plan_of(body)


def test_other_shares_are_another_plan_and_the_plan_says_what_its_error_is_of() -> None:
    edges = {"log": [1, 100, 16]}
    one, two = plan_of({"at": 0.5, "edges": edges}), plan_of({"at": 0.6, "edges": edges})
    assert one.digest != two.digest
    notes = list(one.notes)
    assert any(note.startswith("** Of a quantile in events") for note in notes)
    assert "bin of public edges" in one.config.algorithm.shown("q").reading
    assert list(plan_of({"at": [0.5, 0.95], "edges": edges}).outputs[0].labels) == ["0.5", "0.95"]
