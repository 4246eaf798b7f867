"""``weir audit`` on streams whose next event depends on what was released before."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tests.audit.twins.twin import behind, config, patched
from tests.audit.verdict import tampered
from tests.fixed_secrets import same_secrets  # noqa: F401
from weir.dpcore.noise.prf import KeyedNoise
from weir.pipelines.audit.attack import Report, attack
from weir.pipelines.audit.audit import Audited
from weir.pipelines.audit.choice import Choice
from weir.pipelines.audit.search import CHANGED, decided, drive
from weir.pipelines.config.job import loads

SUM = config(ticks=5)
MEAN = config("aggregates: {m: {mean: v, clip: [0, 10]}}", ticks=4)


def driven(text: str, trials: int = 4000) -> Report:
    return attack(loads(text), trials=trials, only="adaptive", fuzz=False)


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_driven_stream_proves_nearly_the_claim_and_no_more(relation: str) -> None:
    (found,) = driven(config(ticks=5, relation=relation)).audits
    assert found.what == "adaptive within 4 ticks" and "follow from releases" in found.change
    assert not found.broken and found.by == "likelihood ratio"
    assert found.tightness is not None and 0.75 < found.tightness < 1.3


@pytest.mark.slow
def test_without_a_law_the_choices_are_learned_from_too() -> None:
    (found,) = driven(MEAN).audits
    assert found.by.startswith("learned") and not found.broken
    assert found.proven_mu is not None and found.proven_mu > 0.2


@pytest.mark.slow
def test_choices_follow_what_was_released_and_that_comes_again() -> None:
    choice = Choice.of(Audited.of(loads(SUM)))
    (change,) = choice.worst([4])
    found = drive(choice, change, np.arange(200) % 2 == 0, rounds=2)
    assert found.same and found.ticks == decided(choice, change, 2) and len(found.high) == 2
    assert choice.law is not None
    usual = choice.law.solved(choice.law.noisy(choice.leaves(change, False, background=True)[0]))
    first = found.ticks[0]
    above = found.found[:, 0, first - 1, 0] > usual[first - 1, 0]
    assert np.array_equal(found.high[0], above) and 20 < above.sum() < 180


@pytest.mark.slow
def test_too_little_noise_is_found_here_too() -> None:
    with behind(lambda program: tampered(program, noise_scale=lambda scale: 0.6 * scale)):
        assert driven(SUM).broken == ("adaptive within 4 ticks",)


@contextmanager
def anew() -> Iterator[None]:
    """Every run has other noise, whatever its secret and its data."""
    runs = itertools.count()

    def fresh(right: Any) -> Any:
        def draw(self: KeyedNoise, labels: Any, digests: Any, variances: Any) -> Any:
            sizes = np.sqrt(np.array(variances, dtype=np.float64))
            drawn = np.random.default_rng(next(runs)).normal(size=(*digests.shape[:2], len(sizes)))
            return np.rint(drawn * sizes).astype(np.int64)

        return draw

    with patched("weir.dpcore.noise.prf.KeyedNoise.discrete_gaussian", fresh):
        yield


@pytest.mark.slow
def test_a_release_that_changes_once_it_was_read_is_found() -> None:
    with anew():
        (found,) = driven(SUM, trials=400).audits
    assert found.broken and found.by == CHANGED


@pytest.mark.slow
def test_a_clock_of_one_tick_has_nothing_to_choose() -> None:
    report = attack(loads(config(ticks=1, window=1)), trials=200, fuzz=False)
    assert report.audits and not any("adaptive" in one.what for one in report.audits)
