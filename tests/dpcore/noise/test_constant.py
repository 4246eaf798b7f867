from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.constant_noise import ConstantNoise, NoNoise
from weir.dpcore.noise.noise import Noise, label


def test_values_and_shapes():
    noise: Noise = ConstantNoise(3, first_tick=5)
    digests = noise.leaf_digests(np.ones((2, 4, 3), dtype=np.int64))
    assert noise.first_tick == 5
    assert digests.shape == (2, 4, 2) and digests.dtype == np.uint64 and not digests.any()
    at = label(0, np.arange(2))
    for draw in (noise.gaussian(at, digests, 6), noise.k_norm(at, digests, 6)):
        assert draw.shape == (2, 4, 6) and (draw == 3.0).all()
    discrete = noise.discrete_gaussian(at, digests, [1, 0, 5])
    assert discrete.dtype == np.int64 and (discrete == [3, 0, 7]).all()
    assert not NoNoise().gaussian(at, digests, 2).any()


def test_no_package_holds_it() -> None:
    repository = Path(__file__).parents[3]
    for layer in ("dpcore", "pipelines", "transforms", "weir", "examples"):
        for file in (repository / layer).rglob("*.py"):
            text = file.read_text()
            assert "constant_noise" not in text and "ConstantNoise" not in text, file
            assert "NoNoise" not in text, file
