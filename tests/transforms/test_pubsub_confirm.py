"""Acknowledged is only what a completed checkpoint holds, whatever Flink's runner declares safe."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from weir.transforms.beam.pubsub.leases import Confirmations
from weir.transforms.runtime.acked import ReadTurn


class Flink:
    """One worker of Flink's runner: bundles, barriers and news of completed checkpoints, in any
    order that it can see. What it declares safe is what Beam's Flink runner does."""

    def __init__(self, later: bool, seed: int) -> None:
        self._dice = random.Random(seed)
        self.confirmations = Confirmations(self._acknowledge, later)
        self.ended = self.acknowledged = 0
        self._count = self._first = 0
        self._outstanding: list[tuple[int, list[str]]] = []
        self._open: tuple[int, str] | None = None
        self._in_barrier: set[str] = set()
        self._under_way = False
        self.completed: set[str] = set()
        self.unsafe: list[str] = []
        self.too_far: list[int] = []
        self.noted = 0

    def _acknowledge(self, ids: Sequence[str], turn: ReadTurn) -> None:
        """A turn is that of the message of the same number."""
        self.acknowledged += len(ids)
        self.unsafe += [one for one in ids if one not in self.completed]
        self.noted += turn.number >= 0
        if turn.number >= max((int(one[1:]) + 1 for one in self.completed), default=self._first):
            self.too_far.append(turn.number)

    def step(self) -> None:
        """One thing that may happen."""
        self._dice.choice([self._begin, self._end, self._end, self._barrier, self._news])()

    def _begin(self) -> None:
        if self._open is None:
            self._open = self.confirmations.began(), f"m{self._count}"
            self._count += 1

    def _end(self) -> None:
        if self._open is not None:
            began, message = self._open
            self._outstanding.append((began, [message]))
            self._open = None
            self.ended += 1

    def _barrier(self) -> None:
        if self._under_way:
            return
        self._end()
        self._under_way = True
        self._in_barrier = {f"m{i}" for i in range(self._first, self._count)}

    def _news(self) -> None:
        """A checkpoint is complete: all that has ended is declared safe, in any order."""
        if not self._under_way:
            return
        self._under_way = False
        self.completed = self._in_barrier
        declared, self._outstanding = self._outstanding, []
        self._dice.shuffle(declared)
        for began, ids in declared:
            self.confirmations.safe(began, ids, ReadTurn(int(ids[0][1:]), 0))

    def fail(self) -> None:
        """The job goes back to its last checkpoint; the news of the one under way never comes.

        What was pulled before comes again under other ack ids, so none of the old ones is right.
        """
        self._under_way, self._open, self._first = False, None, self._count
        self.confirmations.restart()
        late, self._outstanding = self._outstanding, []
        self.completed = set()
        for began, ids in late:
            self.confirmations.safe(began, ids, ReadTurn(int(ids[0][1:]), 0))


@pytest.mark.slow
def test_nothing_is_acknowledged_that_no_checkpoint_holds() -> None:
    for seed in range(200):
        flink = Flink(later=True, seed=seed)
        for _ in range(400):
            flink.step()
        assert not flink.unsafe, seed
        assert flink.acknowledged > flink.ended / 3, (seed, "and most of it is, in time")


@pytest.mark.slow
@pytest.mark.parametrize("later", [True, False])
def test_the_last_completed_checkpoint_lies_behind_the_noted_turn(later: bool) -> None:
    for seed in range(50):
        flink = Flink(later, seed)
        for _ in range(5):
            for _ in range(60):
                flink.step()
            flink.fail()
        assert flink.noted and not flink.too_far, seed


def test_the_runners_word_would_lose_messages() -> None:
    found = []
    for seed in range(20):
        flink = Flink(later=False, seed=seed)
        for _ in range(400):
            flink.step()
        found += flink.unsafe
        assert flink.acknowledged
    assert found


@pytest.mark.slow
def test_what_was_pulled_before_a_restart_is_not_acknowledged_after_it() -> None:
    for seed in range(50):
        flink = Flink(later=True, seed=seed)
        for _ in range(5):
            for _ in range(60):
                flink.step()
            flink.fail()
        assert not flink.unsafe, seed


def test_bundles_without_messages_carry_the_news() -> None:
    acknowledged: list[str] = []
    one = Confirmations(lambda ids, _: acknowledged.extend(ids), later=True)
    one.safe(one.began(), ["a", "b"], ReadTurn(0, 0))
    assert not acknowledged
    one.safe(one.began(), [], ReadTurn(1, 0))
    assert acknowledged == ["a", "b"]
    one.safe(one.began(), ["c"], ReadTurn(2, 0))
    one.restart()
    one.safe(one.began(), [], ReadTurn(2, 0))
    one.safe(one.began(), [], ReadTurn(3, 0))
    assert acknowledged == ["a", "b"], "c comes again"


def test_other_runners_are_taken_at_their_word() -> None:
    acknowledged: list[str] = []
    one = Confirmations(lambda ids, _: acknowledged.extend(ids), later=False)
    one.safe(one.began(), ["a"], ReadTurn(0, 0))
    one.safe(one.began(), [], ReadTurn(1, 0))
    assert acknowledged == ["a"]
