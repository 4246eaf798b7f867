"""Which record is read when: by brute force."""

from __future__ import annotations

from collections import Counter

import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.models.optimize.course import at_place, start_of_run
from weir.dpcore.models.optimize.tree import batch_for, records_of, stages_for


@pytest.mark.parametrize("first", [3, 7, 64])
def test_each_place_is_in_one_run_of_doubling_length(first: int) -> None:
    found = [at_place(first, place) for place in range(first * 31)]
    sizes = Counter(at.run for at in found)
    assert sizes == {k: first << k for k in range(5)}
    for place, at in enumerate(found):
        assert start_of_run(first, at.run) + at.offset == place
        assert at.offset + at.left == first << at.run


SIZES = [(p, n) for p in (1, 2, 3, 5) for n in (60, 500, 5000) if batch_for(n, p) >= 1 << p]
"""Phases and records, enough for them."""


@pytest.mark.parametrize(("phases", "records"), SIZES)
def test_batches_are_disjoint_and_within_the_run(phases: int, records: int) -> None:
    assert len(SIZES) == 11, "only 60 records are too few, for 5 phases"
    batch = batch_for(records, phases)
    assert batch % (1 << phases) == 0
    used = Counter(
        place
        for stage in stages_for(batch, phases)
        for place in range(stage.start, stage.start + stage.size)
    )
    assert set(used.values()) == {1} and max(used) < records
    assert len(used) == records_of(batch, phases) == batch * phases * (phases + 5) // 4


@pytest.mark.parametrize("phases", [1, 2, 3, 4])
def test_stages_are_those_of_the_recursion(phases: int) -> None:
    """The paper's recursive visit, written out."""
    batch = 1 << (phases + 2)
    found: list[tuple[int, int, int, float]] = []
    waiting: list[tuple[int, int]] = []

    def visit(phase: int, depth: int, leaf: list[int]) -> None:
        for child in (0, 1):
            if child:
                waiting.append((depth + 1, batch >> (depth + 1)))
            if depth + 1 == phase:
                (own,) = waiting
                found.append((phase, *own, 2 / ((1 << phase) + leaf[0] + 1)))
                waiting.clear()
                leaf[0] += 1
            else:
                visit(phase, depth + 1, leaf)

    for phase in range(1, phases + 1):
        waiting.append((0, batch))
        visit(phase, 0, [0])
    made = stages_for(batch, phases)
    assert [(s.phase, s.depth, s.size, s.step) for s in made] == found


def test_floors_would_make_a_batch_smaller_than_the_formula_says() -> None:
    """Trap 21: floor(b / 2^j) of a batch that is no multiple is up to 1.75 times too small."""
    worst = max(b / (b >> 3 << 3) for b in range(8, 200))
    assert worst > 1.7
    with pytest.raises(ConfigError, match="multiple"):
        stages_for(30, 2)
    with pytest.raises(ConfigError, match="multiple"):
        stages_for(0, 2)
    assert batch_for(2, 1) == 0
