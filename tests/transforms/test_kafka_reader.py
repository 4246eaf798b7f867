"""A reader of Kafka over a topic in memory: what it reads, how far it has come, what ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transforms.kafka_double import T0, Cluster, S, turn, values
from weir.transforms.beam.kafka.position import PositionCoder, PositionTracker, TopicPosition
from weir.transforms.beam.kafka.reader import BY_PRODUCER, FIRST, SHRUNK
from weir.transforms.runtime import counters
from weir.transforms.runtime.fence import Fence, claim
from weir.transforms.sources.kafka.faults import REFUSALS, RecordsLost, TopicGone
from weir.transforms.sources.kafka.watermark import ASKED, TopicFrontier

FRESH = TopicPosition()


def test_a_position_survives_its_coder_and_a_split() -> None:
    position = TopicPosition("id", {3: 7, 0: 1 << 60})
    coder = PositionCoder()
    assert coder.decode(coder.encode(position)) == position
    assert coder.encode(position) == coder.encode(TopicPosition("id", {0: 1 << 60, 3: 7}))
    tracker = PositionTracker(position)
    assert tracker.try_claim(position.at({3: 9}))
    assert tracker.try_split(0.5) is None
    split = tracker.try_split(0)
    assert split is not None
    assert split[0].done and split[1] == TopicPosition("id", {0: 1 << 60, 3: 9})
    assert not tracker.try_claim(position.at({3: 10})), "it is no longer this one's"
    assert tracker.check_done()
    last = PositionTracker(position)
    with pytest.raises(ValueError, match="neither"):
        last.check_done()
    assert last.try_claim(None) and last.check_done() and last.try_split(0) is None


@pytest.mark.parametrize(
    ("start", "read"),
    [("earliest", [b"b", b"c"]), ("latest", []), (T0 + S, [b"c"]), (T0 + 2 * S, [])],
)
def test_a_stream_begins_where_the_config_says(start: str | int, read: list[bytes]) -> None:
    cluster = Cluster()
    cluster.append(b"a")
    cluster.append(b"b")
    cluster.now += S
    cluster.append(b"c")
    cluster.remove(0, 1)
    reader = cluster.reader(start=start)
    position, batches = turn(reader, FRESH)
    assert values(batches) == read and position == TopicPosition("first", {0: 3})
    cluster.append(b"d")
    position, batches = turn(reader, position)
    assert values(batches) == [b"d"] and len(cluster.assigned) == 1, "it goes on as it stands"


def test_a_start_is_noted_so_that_a_crash_before_a_checkpoint_begins_there_again(
    tmp_path: Path,
) -> None:
    cluster = Cluster(2)
    cluster.append(b"before")
    fence = Fence(claim(str(tmp_path), "job"))
    reader = cluster.reader(start="latest", fence=fence)
    assert values(turn(reader, FRESH)[1]) == []
    cluster.append(b"a")
    cluster.append(b"b", 1)
    again = cluster.reader(start="latest", fence=fence)
    assert values(turn(again, FRESH)[1]) == [b"a", b"b"]
    newer = Fence(claim(str(tmp_path), "another"))
    assert values(turn(cluster.reader(start="latest", fence=newer), FRESH)[1]) == []


def test_offsets_have_holes_and_the_last_of_them_is_passed_too() -> None:
    cluster = Cluster()
    cluster.append(b"a")
    cluster.append(b"b", holes=3)
    cluster.ends[0] += 2  # an abort, and its control record
    reader = cluster.reader()
    position, batches = turn(reader, FRESH)
    assert values(batches) == [b"a", b"b"] and position.offsets == {0: 7}
    cluster.now += S
    turn(reader, position)
    assert reader.reached() == T0 + S, "idle, at the end"


def test_a_position_is_behind_the_last_record_that_was_taken() -> None:
    cluster = Cluster()
    for number in range(FIRST + 1):
        cluster.append(b"%d" % number)
    reader = cluster.reader()
    reader.begin(FRESH)
    reader.look()
    batch = reader.take(0)
    assert batch is not None and len(batch.messages) == FIRST
    reader.took(batch)
    assert reader.position == TopicPosition("first", {0: FIRST})
    assert values(turn(cluster.reader(), reader.position)[1]) == [b"%d" % FIRST]


def test_an_older_position_is_gone_back_to() -> None:
    cluster = Cluster()
    for value in (b"a", b"b", b"c"):
        cluster.append(value)
    reader = cluster.reader()
    position, _ = turn(reader, FRESH)
    cluster.now += 60 * S
    turn(reader, position)
    assert reader.reached() == T0 + 60 * S
    reader.begin(TopicPosition("first", {0: 1}))
    assert reader.reached() is None, "what it reads again is not behind the frontier"
    _, batches = turn(reader, TopicPosition("first", {0: 1}))
    assert values(batches) == [b"b", b"c"] and cluster.assigned[-1] == {0: 1}


def test_what_could_not_be_claimed_is_read_again() -> None:
    cluster = Cluster()
    cluster.append(b"a")
    reader = cluster.reader()
    reader.begin(FRESH)
    position = reader.look()
    assert position is not None and values([reader.take(0)]) == [b"a"]
    reader.left()
    assert values(turn(reader, position)[1]) == [b"a"]


def test_records_without_a_value_and_of_wrong_clocks_are_dead_letters() -> None:
    cluster = Cluster()
    cluster.append(None)
    cluster.append(b"a", stamp=T0 + 60 * S, kind=BY_PRODUCER)
    cluster.append(b"b", stamp=T0 + 61 * S, kind=BY_PRODUCER)
    cluster.append(b"c", stamp=T0 + 900 * S)
    reader = cluster.reader(ahead=60 * S)
    _, (batch,) = turn(reader, FRESH)[0], turn(cluster.reader(ahead=60 * S), FRESH)[1]
    assert batch.dead == [("0@0", "no_value"), ("0@2", "stamp_ahead")]
    assert [message.id for message in batch.messages] == ["0@1", "0@3"]
    assert [message.arrival for message in batch.messages] == [T0 + 60 * S, T0 + 900 * S]


def test_the_frontier_follows_append_times_and_never_what_producers_say() -> None:
    cluster = Cluster(2)
    for partition in (0, 1):
        cluster.append(b"a", partition, stamp=T0 - 50 * S)
        cluster.append(b"b", partition, stamp=T0 - 10 * S, kind=BY_PRODUCER)
    cluster.append(b"c", 1, stamp=T0 - 20 * S)
    reader = cluster.reader(slack=S)
    reader.begin(FRESH)
    assert reader.look() is not None
    cluster.slow = True
    batch = reader.take(0)
    assert batch is not None and len(values([batch])) == 5
    reader.took(batch)
    assert reader.reached() == T0 - 50 * S - S, "the least over partitions"
    cluster.append(b"d", 0)
    more = reader.take(0)
    assert more is not None
    reader.took(more)
    assert reader.reached() == T0 - 20 * S - S


def test_an_idle_partition_follows_the_wall_clock_only_at_its_end() -> None:
    cluster = Cluster(2)
    cluster.append(b"a", 0)
    reader = cluster.reader()
    position, _ = turn(reader, FRESH)
    cluster.now += 5 * S
    cluster.append(b"open", 1)
    cluster.stable[1] = 0
    position, _ = turn(reader, position)
    assert reader.reached() == T0, "a transaction is open"
    cluster.stable[1] = None
    position, batches = turn(reader, position)
    assert values(batches) == [b"open"]
    cluster.now += S
    turn(reader, position)
    assert reader.reached() == T0 + 6 * S


def test_a_question_that_is_not_answered_moves_nothing() -> None:
    cluster = Cluster()
    reader = cluster.reader()
    position, _ = turn(reader, FRESH)
    cluster.slow = True
    cluster.now += 60 * S
    position, _ = turn(reader, position)
    assert reader.reached() in (None, T0)
    asked = cluster.now
    cluster.append(b"late")  # after the question
    cluster.now += 5 * S
    cluster.answer()
    turn(reader, position)
    assert reader.reached() == asked


def test_a_frontier_keeps_the_earliest_of_many_questions() -> None:
    frontier = TopicFrontier(0)
    frontier.begin([0])
    for i in range(3 * ASKED):
        frontier.listed(T0 + i)
        frontier.ended(T0 + i, {0: 10 * (i + 1)})
    frontier.read({0: 10})
    assert frontier.at() == T0
    frontier.read({0: 10 * 3 * ASKED})
    assert frontier.at() == T0 + 3 * ASKED - 1


def test_a_frontier_is_not_beyond_the_last_look_at_the_partitions() -> None:
    frontier = TopicFrontier(0)
    frontier.begin([0])
    frontier.listed(T0)
    frontier.appended(0, T0 + 5 * S)
    assert frontier.at() == T0
    frontier.listed(T0 + 6 * S)
    assert frontier.at() == T0 + 5 * S


def test_partitions_that_are_added_are_read_from_their_start_and_hold_the_frontier() -> None:
    cluster = Cluster(2)
    cluster.append(b"old")
    readers = [cluster.reader(number, readers=2, start="latest") for number in (0, 1)]
    positions = [turn(reader, FRESH)[0] for reader in readers]
    cluster.now += S
    cluster.grow(3)
    cluster.append(b"a", 2)
    cluster.append(b"b", 1)
    cluster.now += S
    turns = [turn(*pair) for pair in zip(readers, positions, strict=True)]
    assert [sorted(values(batches)) for _, batches in turns] == [[b"a"], [b"b"]]
    assert turns[0][0] == TopicPosition("first", {0: 1, 2: 1})
    assert turns[1][0] == TopicPosition("first", {1: 1})


def test_a_reader_without_partitions_follows_the_wall_clock() -> None:
    cluster = Cluster(1)
    reader = cluster.reader(1, readers=2)
    position, _ = turn(reader, FRESH)
    cluster.now += S
    turn(reader, position)
    assert position == TopicPosition("first", {}) and reader.reached() == T0 + S


def test_an_offset_that_was_removed_ends_the_job_by_name() -> None:
    cluster = Cluster()
    for value in (b"a", b"b", b"c"):
        cluster.append(value)
    cluster.remove(0, 2)
    with pytest.raises(
        RecordsLost, match=r"partition 0 of topic t begins at offset 2.*is 1: .*retention"
    ):
        turn(cluster.reader(), TopicPosition("first", {0: 1}))


def test_records_that_are_removed_under_a_reader_end_the_job() -> None:
    cluster = Cluster()
    cluster.append(b"a")
    reader = cluster.reader()
    position, _ = turn(reader, FRESH)
    for value in (b"b", b"c"):
        cluster.append(value)
    cluster.remove(0, 2)
    with pytest.raises(RecordsLost, match="begins at offset 2"):
        turn(reader, position)
        turn(reader, position)


def test_a_partition_that_has_lost_what_was_read_ends_the_job_after_a_doubt() -> None:
    cluster = Cluster()
    cluster.append(b"a")
    reader, position = cluster.reader(), TopicPosition("first", {0: 5})
    assert turn(reader, position) == (position, [])
    cluster.now += int(SHRUNK * S)
    with pytest.raises(TopicGone, match="ends at offset 1, and this stream has read up to 5"):
        turn(reader, position)


@pytest.mark.parametrize("running", [True, False])
def test_a_topic_that_was_made_again_ends_the_job(running: bool) -> None:
    cluster = Cluster()
    cluster.append(b"a")
    reader = cluster.reader()
    position, _ = turn(reader, FRESH)
    cluster.id = "second"
    cluster.now += S
    with pytest.raises(TopicGone, match="deleted and created again"):
        chosen = reader if running else cluster.reader()
        chosen.begin(position)
        for _ in range(2 if running else 1):  # a start looks before it reads
            chosen.look()


def test_a_topic_that_is_gone_is_doubted_for_a_while() -> None:
    cluster = Cluster()
    reader = cluster.reader()
    position, _ = turn(reader, FRESH)
    cluster.id = None
    for _ in range(int(REFUSALS["UNKNOWN_TOPIC_OR_PART"])):
        cluster.now += S
        turn(reader, position)
        assert not reader.is_well and reader.pause > 0.1
    cluster.now += S
    with pytest.raises(TopicGone, match="UNKNOWN_TOPIC_OR_PART, for 10 s by now: it was deleted"):
        turn(reader, position)


@pytest.mark.slow
def test_brokers_that_are_away_for_an_hour_hold_the_frontier_and_end_nothing() -> None:
    cluster = Cluster()
    reader = cluster.reader()
    position, _ = turn(reader, FRESH)
    cluster.away = "_TRANSPORT"
    for _ in range(60):
        cluster.now += 60 * S
        turn(reader, position)
    assert reader.reached() in (None, T0) and reader.pause == 5.0
    cluster.away = None
    cluster.append(b"a")
    cluster.now += 60 * S
    position, batches = turn(reader, position)
    assert values(batches) == [b"a"] and reader.is_well


def test_offsets_are_committed_for_a_group_alone() -> None:
    cluster = Cluster()
    cluster.reader().commit({0: 1})
    assert cluster.committed == {}
    cluster.reader(group="monitors").commit({0: 1})
    assert cluster.committed == {0: 1}


def test_a_newer_job_ends_the_reader(tmp_path: Path) -> None:
    cluster = Cluster()
    fence = Fence(claim(str(tmp_path), "job"))
    reader = cluster.reader(fence=fence)
    position, _ = turn(reader, FRESH)
    claim(str(tmp_path), "newer")
    from weir.transforms.runtime import fence as fences

    fences._looked.clear()
    with pytest.raises(fences.Fenced, match="newer job"):
        turn(reader, position)


def test_what_is_not_read_yet_is_shown_of_each_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: dict[str, int] = {}
    monkeypatch.setattr(counters, "show", shown.__setitem__)
    cluster = Cluster(3)
    for _ in range(5):
        cluster.append(b"a")
    cluster.append(b"b", 2)
    reader = cluster.reader(number=0, readers=2)
    reader.begin(FRESH)
    reader.look()
    reader.look()
    cluster.now += S
    reader.look()
    assert shown == {"unread_records_0": 5, "unread_records_2": 1}
    turn(reader, FRESH)
    cluster.now += S
    for _ in range(2):
        reader.look()
    assert shown == {"unread_records_0": 0, "unread_records_2": 0}, "of its own partitions alone"
