"""What ``weir audit`` looks for where no law names the worst change."""

from __future__ import annotations

import numpy as np
import pytest

from tests.audit.twins import config
from tests.fixed_secrets import same_secrets  # noqa: F401
from weir.dpcore.audit.distinguish import apart
from weir.pipelines.audit.attack import attack
from weir.pipelines.audit.audit import Audited
from weir.pipelines.audit.choice import Choice
from weir.pipelines.audit.search import needs_search, scenes, searched
from weir.pipelines.config.job import loads

MEAN = config("aggregates: {m: {mean: v, clip: [0, 10]}}", window="all")


def chosen(text: str) -> Choice:
    return Choice.of(Audited.of(loads(text)))


def test_worlds_that_are_alike_are_not_apart_and_others_are() -> None:
    drawn = np.random.default_rng(1)
    ones, others = drawn.standard_normal((2, 4000, 3))
    assert abs(apart(ones, others)) < 0.15
    assert apart(ones + [1.0, 0.0, 0.0], others) == pytest.approx(1.0, abs=0.15)
    assert apart(np.ones((8, 2)), np.ones((8, 2))) == 0.0


def test_a_linear_law_needs_no_search() -> None:
    assert not needs_search(chosen(config()))
    assert needs_search(chosen(MEAN))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mean", "variance"])
def test_a_mean_is_attacked_beside_events_at_the_far_end(kind: str) -> None:
    """Where others lie in the middle a mean tells of the sum alone, and of the count nothing."""
    text = MEAN.replace("mean:", f"{kind}:")
    (found,) = attack(loads(text), trials=3000, only="all releases", fuzz=False).audits
    assert "next to" in found.change and not found.broken
    assert found.tightness is not None and found.tightness > 0.6


@pytest.mark.slow
def test_a_key_is_searched_for_where_its_finding_is_uncertain() -> None:
    text = config("aggregates: {n: {count: events}}", "", ticks=2, window=2,
                  schema="{time: at, id: id, unit: who}")  # fmt: skip
    text = text.replace("declared: [north, south]", "discover: {min_users: 3}")
    text = text.replace(
        "relation: add_remove",
        "unit: user, per: 2d, contributions: {ticks: 1, keys: 1, events: 1}",
    )
    choice = chosen(text)
    assert any(len(scene.behind) > 3 for scene in scenes(choice))
    best, change = searched(choice, 2, 2400)
    assert len(best.background) > 3 and change.whole


def test_a_search_chooses_the_change_that_tells() -> None:
    """Of Laplace noise, the change whose content is at the far end of the clip."""
    text = config(mechanism="{continual_sum: tree, noise: k_norm}", window="all", ticks=3)
    text = text.replace("clip: [-10, 10]", "clip: [0, 10]").replace("delta: 0.001", "delta: 0")
    choice = chosen(text)
    best, change = searched(choice, None, 1200)
    assert best.behind == choice.usual and "v = 10" in change.name
