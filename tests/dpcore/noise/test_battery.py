"""A short form of the battery of noise, and sources that it must reject."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from tests.dpcore.noise.battery import (
    LEAST,
    Source,
    Values,
    Verdict,
    discrete,
    drawn,
    gaussian,
    normal,
    words,
)

BLOCKS = 3


def rejected(verdicts: Iterable[Verdict]) -> set[str]:
    return {each.what for each in verdicts if each.p < LEAST}


def changed(change: Callable[[Values], Values]) -> Source:
    return lambda number: change(gaussian(number))


def copied(values: Values, axis: int) -> Values:
    """One in twenty places has its neighbour's noise."""
    values = values.copy()
    moved = np.moveaxis(values, axis, 0)
    moved[:-1:20] = moved[1::20][: len(moved[:-1:20])]
    return values


def toned(values: Values) -> Values:
    waves = np.sin(np.arange(values.shape[1]) * (2 * np.pi * 37 / values.shape[1]))
    return values + 0.05 * waves[None, :, None]


def test_keyed_noise_is_what_it_is_said_to_be() -> None:
    assert rejected(normal(BLOCKS, gaussian, lambda number: gaussian(number, 1))) == set()
    assert rejected(words(BLOCKS)) == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "by"),
    [
        (lambda values: values * 1.01, "values"),
        (lambda values: np.round(values * 50) / 50, "values"),
        (lambda values: np.clip(values, -4, 4), "values"),
        (lambda values: copied(values, 0), "pairs of neighbouring ticks"),
        (lambda values: copied(values, 1), "pairs of neighbouring keys"),
        (lambda values: copied(values, 2), "pairs of neighbouring coordinates"),
        (toned, "loudest tone along keys"),
    ],
    ids=["scale", "coarse", "no tails", "ticks", "keys", "coordinates", "tone"],
)
def test_wrong_sources_are_rejected(change: Callable[[Values], Values], by: str) -> None:
    assert by in rejected(normal(BLOCKS, changed(change)))


def test_a_secret_that_does_not_matter_is_rejected() -> None:
    assert rejected(normal(1, gaussian, gaussian)) == {"pairs of two secrets"}


def test_whole_numbers_have_their_exact_masses() -> None:
    for variance in (1, 10, 10**6):
        assert discrete(variance, 1, drawn).p > LEAST

    def rounded(variance: int, number: int) -> Values:
        return np.rint(gaussian(number) * np.sqrt(variance)).astype(np.int64)

    assert discrete(1, 1, rounded).p < LEAST
    assert discrete(3, 2, rounded).p < LEAST
