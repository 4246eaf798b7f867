"""Schedules of blocks: what a record pays, by brute force, against what the paper's noise would."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.continual import Growing
from weir.dpcore.models.blocks.multi_resolution import Resolutions
from weir.dpcore.models.blocks.output_perturbation import Single
from weir.dpcore.models.blocks.price import SPLITS, shares, two_thirds
from weir.dpcore.models.blocks.schedule import spent, spread, used
from weir.dpcore.models.blocks.sliding_window import SlidingBlocks


def test_the_window_of_seven_is_that_of_the_paper() -> None:
    window = SlidingBlocks(3)
    chains = [[(f.first, f.last) for f in window.chain(t)] for t in range(7, 12)]
    assert chains == [
        [(3, 6), (1, 2), (0, 0)],
        [(3, 6), (1, 2), (7, 7)],
        [(3, 6), (7, 8), (2, 2)],
        [(3, 6), (7, 8), (9, 9)],
        [(7, 10), (5, 6), (4, 4)],
    ]
    fitted = [[(f.first, f.last) for f in window.fits(t)] for t in range(6, 12)]
    assert fitted == [
        [],
        [(3, 6), (1, 2), (0, 0)],
        [(7, 7)],
        [(7, 8), (2, 2)],
        [(9, 9)],
        [(7, 10), (5, 6), (4, 4)],
    ]


@pytest.mark.parametrize("exponent", range(1, 7))
def test_a_window_is_covered_once_and_every_record_meets_each_size_once(exponent: int) -> None:
    window = SlidingBlocks(exponent)
    held: dict[int, Any] = {}
    behind: dict[int, frozenset[int]] = {}
    met: dict[int, Counter[int]] = {}
    last = window.window + 4 * window.half
    for complete in range(1, last):
        chain = window.chain(complete)
        assert bool(chain) == (complete >= window.window) == bool(window.shown(complete))
        for fit in window.fits(complete):
            own = frozenset(range(fit.first, fit.last + 1))
            assert fit.first >= window.oldest(complete) and fit.last < complete
            before = frozenset() if fit.after is None else behind[fit.after]
            assert not own & before  # no model follows one that learned from the same record
            held[fit.slot], behind[fit.slot] = fit, own | before
            for block in own:
                met.setdefault(block, Counter())[fit.level] += 1
        if chain:
            assert [held[fit.slot] for fit in chain] == list(chain)  # once fitted, never again
            covered = sorted(b for f in chain for b in range(f.first, f.last + 1))
            assert covered == list(range(complete - window.window, complete))
            shown = window.shown(complete)
            assert shown == (0, complete - window.window, complete - 1)
            assert behind[shown.slot] == frozenset(covered)
    lasting = range(window.window, last - 2 * window.window)
    assert all(met[block] == Counter(dict.fromkeys(range(exponent), 1)) for block in lasting)
    assert max(max(one.values()) for one in met.values()) == 1


@pytest.mark.parametrize("exponent", range(2, 7))
def test_the_paper_s_noise_totals_less_than_all(exponent: int) -> None:
    window = SlidingBlocks(exponent)
    assert spent(window, window.weights) == 1 - Fraction(1, 2**exponent)
    assert spent(window, window.even) == 1


SCHEDULES: dict[str, Any] = {
    "first": Single(again=False),
    "each": Single(again=True),
    **{f"window {2**k - 1}": SlidingBlocks(k) for k in range(1, 7)},
    **{f"scales {2**k}": Resolutions(k) for k in (0, 1, 3)},
    "continual": Growing(4, 3, True),
    "continual, odd": Growing(3, 2, True),
    "continual, one base": Growing(2, 0, True),
    "basic": Growing(4, 3, False),
    "basic, base 1": Growing(1, 2, False),
}


def replayed(schedule: Any, costs: Any, length: int) -> Fraction:
    """What the record that pays most pays in a run of so many blocks."""
    paid = [Fraction(0)] * length
    for complete in range(1, length + 1):
        for fit in schedule.fits(complete):
            for block in range(fit.first, fit.last + 1):
                paid[block] += costs[fit.level]
    return max(paid)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("kind", ["gdp", "zcdp", "pure"])
def test_shares_add_up_to_the_budget_for_the_record_that_pays_most(name: str, kind: Any) -> None:
    schedule = SCHEDULES[name]
    start, length = schedule.period
    for split in SPLITS:
        costs = shares(schedule, split, kind)
        assert len(costs) == len(schedule.sizes) and spent(schedule, costs) == 1
        for run in (start + length, start + 3 * length + max(schedule.sizes), 300):
            assert replayed(schedule, costs, run) <= 1
        assert replayed(schedule, costs, max(300, start + 3 * length)) == 1


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_repeats_itself(name: str) -> None:
    schedule = SCHEDULES[name]
    start, length = schedule.period
    later = range(start + 1, start + 3 * length)
    for complete in later:
        moved = [
            fit._replace(first=fit.first + length, last=fit.last + length)
            for fit in schedule.fits(complete)
        ]
        assert list(schedule.fits(complete + length)) == moved
    assert all(schedule.oldest(t) <= schedule.oldest(t + 1) for t in range(1, 200))
    assert all(
        fit.first >= schedule.oldest(t) and fit.last - fit.first + 1 == schedule.sizes[fit.level]
        for t in range(1, 200)
        for fit in schedule.fits(t)
    )
    assert len(used(schedule)) == start + length


def test_a_model_of_every_scale_ends_where_it_divides() -> None:
    scales = Resolutions(3)
    sizes = {t: [f.last - f.first + 1 for f in scales.fits(t)] for t in (1, 2, 6, 8, 24)}
    assert sizes == {1: [1], 2: [2, 1], 6: [2, 1], 8: [8, 4, 2, 1], 24: [8, 4, 2, 1]}
    assert spent(scales, scales.weights) == Fraction(15, 16)  # eps/2 + eps/4 + ...


def test_continual_release_is_that_of_the_paper_and_costs_what_brute_force_says() -> None:
    """B = 8 b0: bases at 8, 16, 32, ...; after one of 16, updates at 17, 18, 20, 24 from all."""
    made = Growing(8, 6, True)
    found = {t: [(f.slot, f.first, f.last, f.after) for f in made.fits(t)] for t in range(7, 26)}
    assert found[7] == [] and found[8] == [(0, 0, 7, None)] and found[16] == [(0, 0, 15, None)]
    for t in (17, 18, 20, 24):
        assert found[t] == [(1, 16, t - 1, 0)]
    for t in (19, 21, 22, 23, 25):
        assert found[t] == [(1, t - 1, t - 1, 1)]
    first_turn = first_of(made, [*made.weights])
    updates = first_of(made, [Fraction(0)] * 7 + [*made.weights[7:]])
    assert 0.49 < float(updates) < 0.5 and 0.68 < float(first_turn) < 0.69
    assert spent(made, made.weights) > first_turn  # later turns begin with updates of their own
    basic = Growing(8, 6, False)
    assert [(f.first, f.last, f.after) for f in basic.fits(24)] == [(23, 23, 1)]
    assert basic.sizes[7:] == (1,)


def first_of(made: Growing, costs: list[Fraction]) -> Fraction:
    """What a record of the first turn pays, at most."""
    return replayed(made, costs, made.turn)


def test_the_best_split_is_no_worse_than_any_other() -> None:
    rng = np.random.default_rng(1)
    for exponent in (2, 3, 5):
        window = SlidingBlocks(exponent)
        sizes = np.array(window.sizes, dtype=float)

        def noise(parts: Any, power: float, at: Any = (window, sizes)) -> float:
            return spread(at[0], list((1 / at[1] / np.array(parts) ** power) ** 2))

        for kind, power in (("pure", 1.0), ("gdp", 0.5)):
            best = noise([float(x) for x in shares(window, "best", kind)], power)  # type: ignore[arg-type]
            for _ in range(200):
                other = rng.dirichlet(np.ones(exponent))
                assert noise(other, power) >= best * (1 - 1e-9)
            for split in ("even", "paper"):
                found = shares(window, split, kind)  # type: ignore[arg-type]
                assert noise([float(x) for x in found], power) >= best * (1 - 1e-9)


def test_two_thirds_are_exact_to_their_bits() -> None:
    for size in (1, 2, 3, 8, 100, 2048):
        assert abs(float(two_thirds(size)) - size ** (-2 / 3)) < 2.0**-19


def test_windows_that_are_none_are_refused() -> None:
    for exponent in (0, 13):
        with pytest.raises(ConfigError, match=r"model\.window"):
            SlidingBlocks(exponent)
