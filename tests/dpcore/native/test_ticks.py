"""Ticks of times, and the ends of whole numbers: kernels next to numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weir.dpcore import arrays
from weir.dpcore.leaves import clock
from weir.dpcore.leaves.clock import Clock

LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
STARTS = (0, 1_704_067_200_000_000, -(2**60), 2**61)
PERIODS = (1, 2, 3, 7, 60_000_000, 86_400_000_000, 2**31 - 1, 2**48 + 1, 2**49, 2**62 + 1)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("period", PERIODS)
def test_ticks_are_those_of_whole_numbers(
    compiled: Any, monkeypatch: pytest.MonkeyPatch, start: int, period: int
) -> None:
    """At both ends of ticks, near the start and as far from it as any time is."""
    rng = np.random.default_rng(period % 2**32)
    near = rng.integers(-(2**49), 2**49, 5_000)
    edges = (near // period) * period
    beyond = [s * (2**49 + step) for s in (-1, 1) for step in range(-3, 4)]
    offsets = np.concatenate([near, *(edges + step for step in (-1, 0, 1)), beyond])
    times = start + offsets
    far = np.concatenate([times, [-(2**61), -(2**58) - 1, 2**58, 2**61 + 2**60]])
    ticked = Clock(start, period)
    for own in (times, far, times[:1], np.sort(times), far[-1:]):
        ticks, first, last = ticked.ticks_within(own)
        assert np.array_equal(ticks, (own - start) // period)
        assert [first, last] == ticked.tick_of(np.array([own.min(), own.max()])).tolist()
        with monkeypatch.context() as patched:
            patched.setattr(clock, "kernels", None)
            slow, *ends = ticked.ticks_within(own)
        assert np.array_equal(ticks, slow) and ends == [first, last]


@pytest.mark.parametrize("n", [1, 2, 7, 1023, 1024, 1025, 5000])
def test_ends_of_any_length(compiled: Any, monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    values = np.random.default_rng(n).integers(LEAST, MOST, n, endpoint=True)
    for own in (values, values[::2], np.full(n, LEAST), np.full(n, MOST), values.astype(np.int32)):
        ends = int(own.min()), int(own.max())
        assert arrays.extremes(own) == ends
        with monkeypatch.context() as patched:
            patched.setattr(arrays, "kernels", None)
            assert arrays.extremes(own) == ends


def test_nothing_is_read_or_written_outside(compiled: Any) -> None:
    none, two = np.zeros(0, dtype=np.int64), np.zeros(2, dtype=np.int64)
    for bad in (
        lambda: compiled.extremes(none, two),
        lambda: compiled.extremes(two, none),
        lambda: compiled.extremes(np.zeros(9, np.uint8), two),
        lambda: compiled.ticks(none, np.ones(2, np.int64), none, two),
        lambda: compiled.ticks(two, two, two.copy(), two.copy()),  # a period of 0
        lambda: compiled.ticks(two, np.ones(2, np.int64), np.zeros(1, np.int64), two.copy()),
        lambda: compiled.ticks(two, np.ones(1, np.int64), two.copy(), two.copy()),
    ):
        with pytest.raises(ValueError, match="must be"):
            bad()
