"""Caps count what a user may touch."""

from __future__ import annotations

import itertools

import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.users.unit import MOST, ContributionBounds


@pytest.mark.parametrize("field", ["ticks", "keys", "events", "spacing", "period_keys", "total"])
@pytest.mark.parametrize("value", [0, -1, MOST + 1])
def test_caps_fit_two_bytes(field: str, value: int) -> None:
    caps = {"ticks": 1, "keys": 1, "events": 1, field: value}
    with pytest.raises(ConfigError) as refused:
        ContributionBounds(**caps)
    assert refused.value.field == f"privacy.contributions.{field}"


def most(caps: ContributionBounds) -> tuple[int, int]:
    """Most cells and most keys, over all sets of cells on 3 keys and as many ticks as there are."""
    cells = list(itertools.product(range(3), range(caps.ticks)))
    found, keys = 0, 0
    for size in range(len(cells) + 1):
        for chosen in itertools.combinations(cells, size):
            by_tick = [sum(t == tick for _, t in chosen) for tick in range(caps.ticks)]
            by_key = [sum(k == key for k, _ in chosen) for key in range(3)]
            if max(by_tick) > caps.keys or max(by_key) > (caps.ticks_per_key or caps.ticks):
                continue
            touched = sum(n > 0 for n in by_key)
            if caps.period_keys is not None and touched > caps.period_keys:
                continue
            if caps.total is not None and size > caps.total:
                continue
            found, keys = max(found, size), max(keys, touched)
    return found, keys


@pytest.mark.parametrize("keys", [1, 2])
@pytest.mark.parametrize("ticks_per_key", [None, 1, 2])
@pytest.mark.parametrize("period_keys", [None, 1, 2])
@pytest.mark.parametrize("total", [None, 2, 5])
def test_cells_and_keys_are_bounds(
    keys: int, ticks_per_key: int | None, period_keys: int | None, total: int | None
) -> None:
    caps = ContributionBounds(3, keys, 1, 1, ticks_per_key, period_keys, total)
    cells, touched = most(caps)
    assert caps.cells >= cells
    assert caps.touched >= touched


def test_without_more_caps_all_ticks_and_keys_are_cells() -> None:
    assert ContributionBounds(4, 3, 5).cells == 12
    assert ContributionBounds(4, 3, 5, ticks_per_key=1).cells == 12
    assert ContributionBounds(4, 3, 5, ticks_per_key=1, period_keys=7).cells == 7
    assert ContributionBounds(4, 3, 5, total=5).touched == 5
