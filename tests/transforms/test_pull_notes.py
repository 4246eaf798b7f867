"""How long a job waits for what readers of the job before may hold: for their ack deadlines."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.transforms.pulls import T0, Call, S, Server, wire
from weir.transforms.beam.pubsub.leases import MOVED
from weir.transforms.beam.pubsub.messages import Subscription
from weir.transforms.beam.pubsub.reader import QUESTION, Reader
from weir.transforms.beam.pubsub.watermark import Frontier
from weir.transforms.runtime import fence, files
from weir.transforms.runtime.fence import Fence, Fenced
from weir.transforms.runtime.pull_notes import AHEAD, FOLDER, PullNotes
from weir.transforms.runtime.stream_time import PRESENT

HOLD, SLACK = 10 * S, S // 2


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "state")


def claim(folder: str) -> Fence:
    return Fence(fence.claim(folder, "job"))


def test_the_next_job_knows_until_when_the_last_asked(folder: str) -> None:
    first = claim(folder)
    for number, until in enumerate((T0, T0 + 7 * S, T0 + S)):
        PullNotes(first, "s", number).covers(until)
    second = claim(folder)
    assert PullNotes(second, "s", 0).before() == T0 + 7 * S + AHEAD
    assert PullNotes(second, "other", 0).before() is None, "another subscription's"
    PullNotes(second, "s", 1).covers(T0 + 99 * S)
    assert PullNotes(second, "s", 0).before() == T0 + 7 * S + AHEAD, "not of a reader next to it"


def test_what_is_not_known_is_said_so(folder: str) -> None:
    """By a job that goes on from none, from one that kept no notes, and from its own."""
    first = claim(folder)
    notes = PullNotes(first, "s", 0)
    assert notes.before() is None
    notes.covers(T0)
    assert PullNotes(first, "s", 0).before() is None, "it was started again"
    claim(folder)
    assert PullNotes(claim(folder), "s", 0).before() is None, "what lies between may have"
    assert not files.names(files.join(folder, FOLDER)), "and what is of no use any more is removed"


def test_who_keeps_no_notes_knows_nothing(folder: str) -> None:
    blind = Fence(fence.Claim(f"{folder}/elsewhere", 2))
    for around in (fence.OPEN, blind):
        notes = PullNotes(around, "s", 0)
        notes.covers(T0)
        assert notes.before() is None
    assert not Path(folder, "elsewhere").exists()


@pytest.mark.parametrize("damaged", ["", "{", "{}", '{"until": 3}', '{"until": "2026-11-28"}'])
def test_a_damaged_note_tells_nothing(folder: str, damaged: str) -> None:
    first = claim(folder)
    PullNotes(first, "s", 0).covers(T0)
    (noted,) = Path(folder, FOLDER).iterdir()
    noted.write_text(damaged)
    PullNotes(first, "s", 1).covers(T0)  # a whole one next to it does not speak for both
    assert PullNotes(claim(folder), "s", 0).before() is None


def test_a_note_reaches_ahead_and_is_written_now_and_then(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[str] = []
    write = files.replace
    monkeypatch.setattr(
        files, "replace", lambda path, content: (writes.append(path), write(path, content))
    )
    notes = PullNotes(claim(folder), "s", 0)
    for tenth in range(1_000):
        notes.covers(T0 + tenth * S // 10)
    assert len(writes) == pytest.approx(100 * S / AHEAD, abs=1)


def test_who_was_replaced_asks_nothing_more(folder: str) -> None:
    """And the newer job, which looks after its claim, sees the note of who looked before it."""
    notes = PullNotes(claim(folder), "s", 0)
    second = claim(folder)
    with pytest.raises(Fenced):
        notes.covers(T0)
    assert PullNotes(second, "s", 0).before() == T0 + AHEAD


def test_a_start_waits_for_the_deadlines_of_the_readers_before_it() -> None:
    def held(before: int | None) -> int:
        one = Frontier(PRESENT, SLACK, HOLD, T0, before)
        return next(at for at in range(0, 11 * S, S // 10) if not one.is_held(T0 + at))

    assert held(None) == HOLD
    assert held(T0 - 4 * S) == 6 * S + SLACK
    assert held(T0 - 3_600 * S) == 2 * SLACK, "and what is back by now takes the slack to come"
    assert held(T0) == held(T0 + 3_600 * S) == HOLD


class Machine:
    """A reader whose questions are remembered, with a clock by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, around: Fence, now: list[float]) -> None:
        self.asked: list[float] = []
        self.server = Server()
        self.answers: list[Any] = []

        def ask(*_: Any) -> Call:
            self.asked.append(now[0])
            return Call(self.answers.pop(0) if self.answers else None)

        monkeypatch.setattr("weir.transforms.beam.pubsub.reader.pull_call", lambda client: ask)
        source = Subscription("s", ack_seconds=HOLD // S, slack=SLACK)
        self.reader = Reader(source, fence=around, client=self.server, now=lambda: now[0])
        self.reader.leases._closed.set()


@pytest.mark.slow
def test_whatever_the_last_job_may_hold_has_come_back_when_releases_go_on(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Questions, answers and moved deadlines at random, up to a random end of the machine."""
    dice, now = random.Random(4), [T0 / S]
    monkeypatch.setattr(
        "weir.transforms.beam.pubsub.leases.time", SimpleNamespace(monotonic=lambda: now[0])
    )
    early = 0
    for _ in range(40):
        first = Machine(monkeypatch, claim(folder), now)
        first.reader.begin(0)
        back = 0.0
        for turn in range(dice.randrange(1, 60)):
            now[0] += dice.choice([0.01, 0.3, 4.0, 25.0])
            if dice.random() < 0.6:
                first.reader.begin(turn)
                first.answers = [[wire(f"m{turn}")]] if dice.random() < 0.5 else []
                first.reader.take(0.0)
                if first.asked:
                    # Its machine may be gone, and the server answers as long as the question is.
                    back = max(back, first.asked[-1] + QUESTION + HOLD / S)
            moved = len(first.server.moved)
            first.reader.leases.extend()
            if len(first.server.moved) > moved:
                back = max(back, now[0] + MOVED + HOLD / S)
        now[0] += dice.choice([0.1, 20.0, 30.0, 300.0])
        second = Machine(monkeypatch, claim(folder), now)
        second.reader.begin(turn + 1)
        started = now[0]
        while second.reader.frontier.is_held(int(now[0] * 1e6)):
            now[0] += 0.01
        assert now[0] >= min(back, started + HOLD / S) - 0.001
        early += now[0] < started + HOLD / S - 1
    assert 10 < early < 40, "and some of them waited for less than a deadline"


def test_deadlines_that_are_moved_on_without_a_pull_are_waited_for(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [T0 / S]
    monkeypatch.setattr(
        "weir.transforms.beam.pubsub.leases.time", SimpleNamespace(monotonic=lambda: now[0])
    )
    first = Machine(monkeypatch, claim(folder), now)
    first.reader.begin(0)
    first.answers = [[wire("m")]]
    first.reader.take(0.0)
    for _ in range(20):
        now[0] += 5
        first.reader.leases.extend()
    assert first.server.moved[-1] == (["m"], HOLD // S)
    now[0] += 1
    second = Machine(monkeypatch, claim(folder), now)
    second.reader.begin(1)
    assert second.reader.frontier.is_held(int((now[0] + MOVED) * 1e6))


def test_what_cannot_be_noted_is_not_asked(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    now = [T0 / S]
    machine = Machine(monkeypatch, claim(folder), now)
    machine.reader.begin(0)
    write = files.replace
    monkeypatch.setattr(files, "replace", full)
    assert machine.reader.take(0.0) is None and not machine.asked
    assert not machine.reader.is_well and machine.reader.pause > 0.1
    machine.reader.leases.hold(["m"])
    now[0] += 20
    monkeypatch.setattr(
        "weir.transforms.beam.pubsub.leases.time",
        SimpleNamespace(monotonic=lambda: machine.reader.leases._held["m"] + 20),
    )
    machine.reader.leases.extend()
    assert machine.server.moved == [(["m"], 10)], "what is held is kept all the same"
    monkeypatch.setattr(files, "replace", write)
    machine.answers = [[wire("a")]]
    assert machine.reader.take(0.0) is not None and machine.reader.is_well


def test_who_was_replaced_moves_no_deadline(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, claim(folder), [T0 / S])
    machine.reader.begin(0)
    machine.reader.leases.hold(["m"])
    claim(folder)
    monkeypatch.setattr(
        "weir.transforms.beam.pubsub.leases.time",
        SimpleNamespace(monotonic=lambda: machine.reader.leases._held["m"] + 20),
    )
    machine.reader.leases.extend()
    assert not machine.server.moved
    with pytest.raises(Fenced):
        machine.reader.take(0.0)
    assert machine.server.moved == [(["m"], 0)]
