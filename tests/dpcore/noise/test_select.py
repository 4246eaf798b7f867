"""Selection by few logarithms is selection with all of the noise, choice by choice."""

from __future__ import annotations

import numpy as np
import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.noise.selection import select

NOISE = KeyedNoise(RootKey.derive(bytes(32), "x", bytes(32)), 0, [b"a"], 0)


def both(scores: np.ndarray, scale: float, seed: int) -> tuple[int, int]:
    labels, digests = label(seed, 3), np.array([[[seed, 7]]], dtype=np.uint64)
    drawn = NOISE.gumbel(labels, digests, len(scores))[0, 0]
    return int(select(scores, scale, drawn)), int(
        NOISE.select(labels, digests, scores[None], scale)[0]
    )


@pytest.mark.parametrize("size", [1, 2, 3, 17, 3000])
def test_the_same_candidate_wins(size: int) -> None:
    rng = np.random.default_rng(size)
    for seed in range(120):
        scale = 10.0 ** rng.uniform(-6, 6)
        scores = rng.normal(size=size) * scale * 10.0 ** rng.uniform(-6, 6)
        scores += scale * rng.choice([0.0, 1e3, -1e6])
        if seed % 5 == 0:
            scores = np.round(scores / scale) * scale
        if seed % 7 == 0:
            scores[:] = scores[0]
        exact, quick = both(scores, scale, seed)
        assert exact == quick


def test_several_selections_at_once() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(9, 5000))
    labels = np.concatenate([label(i, 1) for i in range(9)])
    digests = rng.integers(0, 9, (9, 1, 2)).astype(np.uint64)
    drawn = NOISE.gumbel(labels, digests, 5000)[:, 0]
    found = NOISE.select(labels, digests, scores, 0.7)
    np.testing.assert_array_equal(found, select(scores, 0.7, drawn))


def test_few_logarithms_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    import weir.dpcore.noise.selection as room

    taken: list[int] = []
    whole = room.exact_log

    def counted(x: np.ndarray) -> np.ndarray:
        taken.append(x.size)
        return whole(x)

    monkeypatch.setattr(room, "exact_log", counted)
    scores = np.random.default_rng(1).normal(size=(1, 100_000))
    for scale in (1e-3, 0.3, 1.0, 30.0):
        taken.clear()
        NOISE.select(label(1, 1), np.zeros((1, 1, 2), dtype=np.uint64), scores, scale)
        assert sum(taken) < 20_000, scale


def test_a_scale_must_be_above_zero() -> None:
    with pytest.raises(ConfigError, match="scale"):
        NOISE.select(label(1, 1), np.zeros((1, 1, 2), dtype=np.uint64), np.zeros((1, 3)), 0.0)
