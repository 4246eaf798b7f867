"""The last job that was started goes on; one before it acknowledges and writes nothing more."""

from __future__ import annotations

import json
import pickle
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tests.transforms.doubles import FakePlan
from weir.transforms.beam.publish import Outgoing, Publish, PubSubTopic
from weir.transforms.beam.pubsub.messages import Subscription
from weir.transforms.beam.pubsub.reader import Reader
from weir.transforms.beam.write_files import RangeDoFn
from weir.transforms.operators.write import Write
from weir.transforms.release.table import ReleaseWriter
from weir.transforms.runtime import counters, fence
from weir.transforms.runtime import stored_counts as kept_counts
from weir.transforms.runtime.acked import FOLDER, Acknowledged, Outdated, ReadTurn
from weir.transforms.runtime.fence import Claim, Fence, Fenced
from weir.transforms.sinks.ranges import Ranges
from weir.transforms.sinks.sorted_table import Sorted
from weir.transforms.sinks.writer import Writer


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "state")


class Server:
    """Of Pub/Sub: knows what was acknowledged, and what was given back."""

    def __init__(self) -> None:
        self.acknowledged: list[str] = []
        self.returned: list[str] = []
        self.transport = SimpleNamespace(
            grpc_channel=SimpleNamespace(unary_unary=lambda *_, **__: None)
        )

    def acknowledge(self, ack_ids: list[str], **_: Any) -> None:
        self.acknowledged += ack_ids

    def modify_ack_deadline(self, ack_ids: list[str], ack_deadline_seconds: int, **_: Any) -> None:
        if not ack_deadline_seconds:
            self.returned += ack_ids


def reader(around: Fence, server: Server, number: int = 0) -> Reader:
    found = Reader(Subscription("s"), True, number, around, client=server)
    found.leases._closed.set()
    return found


def turn(one: Reader, number: int, *ids: str) -> None:
    """A turn that pulled messages, and the news that a checkpoint is complete."""
    one.begin(number)
    began = one.confirmations.began()
    one.leases.hold(ids)
    one.confirmations.safe(began, ids, ReadTurn(number, 0))


def test_numbers_are_given_once(folder: str, tmp_path: Path) -> None:
    assert [fence.claim(folder, name).epoch for name in "abc"] == [1, 2, 3]
    assert fence.claim(str(tmp_path / "other"), "a").epoch == 1
    assert sorted(fence.moments(folder, fence.FOLDER)) == [1, 2, 3]


def test_who_was_replaced_anywhere_is_told_and_asks_for_its_end(
    folder: str, tmp_path: Path
) -> None:
    asked: list[int] = []
    state, sink = fence.claim(folder, "a"), fence.claim(str(tmp_path / "out"), "a")
    mine = Fence(state, (sink,), stop=lambda: asked.append(1))
    mine.check()
    fence.claim(str(tmp_path / "out"), "b")
    mine.look()  # it has just looked
    with pytest.raises(Fenced, match="start 2 noted in .*out"):
        mine.check()
    assert asked == [1]
    fence.OPEN.check()


def test_steps_take_the_fence_around_them_to_their_workers(folder: str) -> None:
    with fence.standing(Fence(fence.claim(folder, "a"))):
        step = Publish(PubSubTopic("t"), lambda _: iter(()), "n")
    assert fence.current() is fence.OPEN
    away = pickle.loads(pickle.dumps(step._fence))
    assert away.state == Claim(folder, 1)


def test_a_replaced_reader_acknowledges_nothing_and_gives_back_what_it_has(folder: str) -> None:
    server, mine = Server(), Fence(fence.claim(folder, "a"))
    one = reader(mine, server)
    turn(one, 0, "a")
    turn(one, 1, "b")
    assert server.acknowledged == ["a"]
    fence.claim(folder, "b")
    turn(one, 2, "c")  # it looked a moment ago, and looks again before it acknowledges
    assert server.acknowledged == ["a"]
    fence._looked.clear()
    with pytest.raises(Fenced):
        one.begin(3)
    assert set(server.returned) == {"b", "c"}


def test_a_note_is_written_before_the_server_may_forget(folder: str) -> None:
    server, mine = Server(), Fence(fence.claim(folder, "a"))
    one = reader(mine, server)
    turn(one, 0, "a")
    turn(one, 1)
    turn(one, 2, "b")
    (noted,) = (Path(folder) / FOLDER).iterdir()
    assert json.loads(noted.read_text())["turn"] == 0
    turn(one, 3)
    assert server.acknowledged == ["a", "b"] and json.loads(noted.read_text())["turn"] == 2


def test_a_reader_refuses_to_start_before_what_was_acknowledged(folder: str) -> None:
    server, mine = Server(), Fence(fence.claim(folder, "a"))
    Acknowledged(folder, "s", 0).note(ReadTurn(7, 0))
    with pytest.raises(Outdated, match=r"reader 0 is at turn 7 in it.*--rewind SNAPSHOT"):
        reader(mine, server).begin(7)
    reader(mine, server).begin(8)
    reader(mine, server, number=1).begin(0)
    reader(fence.OPEN, server).begin(0)


def test_a_drain_is_noted_until_the_job_goes_on(folder: str) -> None:
    mine = Fence(fence.claim(folder, "a"))
    mine.drains()
    assert list(fence.moments(folder, fence.DRAINED)) == [1]
    reader(mine, Server()).begin(0)
    assert not fence.moments(folder, fence.DRAINED)


def test_a_worker_that_cannot_see_the_state_folder_says_so(
    folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    blind = Fence(Claim(f"{folder}/elsewhere", 1))
    assert blind.reachable is None and "not in reach of this worker" in caplog.text
    blind.check()
    blind.drains()
    reader(blind, Server()).begin(0)


def test_a_folder_that_cannot_be_looked_into_for_a_moment_ends_no_job(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> bool:
        raise OSError("the network is away")

    server, mine = Server(), Fence(fence.claim(folder, "a"))
    one = reader(mine, server)
    monkeypatch.setattr("weir.transforms.runtime.files.exists", fail)
    mine.look()
    turn(one, 0, "a")
    with pytest.raises(OSError):
        turn(one, 1)
    assert not server.acknowledged, "who cannot look does not acknowledge"


class Never(Writer):
    """A sink that must not be written to."""

    def encode(self, table: pa.Table) -> bytes:
        return b""

    def put(self, first: int, last: int, content: bytes, divergent: int) -> int:
        raise AssertionError("it was written to")


def test_a_replaced_sink_writes_nothing(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with fence.standing(Fence(fence.claim(folder, "a"))):
        files = RangeDoFn(Ranges(1, 1, (0,)), Never())
        here = Write(Ranges(1, 1, (0,)), Never(), fence.current().inner)
        topic = Publish(PubSubTopic("t"), lambda _: iter([Outgoing(b"", {})]), "n")
    fence.claim(folder, "b")
    monkeypatch.setattr(
        "weir.transforms.beam.write_files.sorted_table", lambda _: Sorted(pa.table({}), 0)
    )
    covered = files._covered(0, None)
    with pytest.raises(Fenced):
        files._write(0, [], covered)
    batch = ReleaseWriter(FakePlan()).batch(0, 0, 1, (), ())
    with pytest.raises(Fenced):
        list(here.process(batch))
        list(here.finish())
    here.close()
    topic.start_bundle()
    topic.process(None)
    with pytest.raises(Fenced):
        topic.finish_bundle()


def test_counts_of_all_jobs_are_kept_with_the_state(folder: str) -> None:
    counters.reset()
    first, second = Fence(fence.claim(folder, "a")), Fence(fence.claim(folder, "b"))
    kept_counts.keep(first)
    counters.add("events", 3)
    kept_counts.flush(first)
    kept_counts.keep(second)  # in one process here, so it counts on; each worker has its own
    counters.add("events", 2)
    kept_counts.flush(second)
    kept_counts.flush(fence.OPEN)
    counters.reset()
    assert kept_counts.kept(folder, 2) == {"events": 3}
    assert kept_counts.kept(folder) == {"events": 8}
    assert kept_counts.kept(f"{folder}/elsewhere") == {}


def test_a_process_that_goes_on_keeps_nothing_of_a_job_that_is_over(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_counts, "EVERY", 0.01)
    counters.reset()
    over = Fence(fence.claim(folder, "a"))
    kept_counts.keep(over)
    counters.add("events", 3)
    kept_counts.leave(over)
    assert kept_counts.kept(folder) == {"events": 3}
    shutil.rmtree(folder)
    counters.add("events", 2)
    kept_counts.flush(over)
    kept_counts.leave(over)
    kept_counts.leave(fence.OPEN)
    time.sleep(0.1)
    counters.reset()
    assert not Path(folder).exists()
