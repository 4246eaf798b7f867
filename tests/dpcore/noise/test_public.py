"""Public normals: normal, repeatable to the bit, and apart for every seed and purpose."""

from __future__ import annotations

import numpy as np
from scipy.stats import kstest

from weir.dpcore.noise.gaussian import PublicNormals


def test_they_are_normal() -> None:
    drawn = PublicNormals(b"test", 3).draw(0, 400, 251)
    assert drawn.shape == (400, 251)
    assert kstest(drawn.ravel(), "norm").pvalue > 1e-3
    assert kstest(1.05 * drawn.ravel(), "norm").pvalue < 1e-3
    assert abs(np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]) < 0.015


def test_they_repeat_and_do_not_mix() -> None:
    one = PublicNormals(b"test", 1)
    assert np.array_equal(one.draw(2, 3, 4), PublicNormals(b"test", 1).draw(2, 3, 4))
    assert np.array_equal(one.draw(2, 3, 4).ravel(), one.draw(2, 1, 12).ravel())
    others = [one.draw(3, 3, 4), PublicNormals(b"test", 2).draw(2, 3, 4)]
    others.append(PublicNormals(b"other", 1).draw(2, 3, 4))
    for other in others:
        assert not np.intersect1d(one.draw(2, 3, 4), other).size


def test_the_bits_stay() -> None:
    """A plan's random projection follows from them: another draw would be another plan."""
    drawn = PublicNormals(b"golden", 7).draw(1, 1, 3)[0]
    assert [number.hex() for number in drawn.tolist()] == [
        "0x1.ffe568c3afb5fp-4",
        "-0x1.5bd019f78fa4ep+0",
        "-0x1.c9811dfd14a2cp-3",
    ]
