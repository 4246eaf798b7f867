"""The reader against a real server, on a real runner: nothing lost, nothing acknowledged early."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.runners.messages import Post
from tests.runners.pulling import SECOND, prism_flags, reading, until
from weir.dpcore.leaves.clock import Clock
from weir.pipelines.engines.servers import PubSubServer
from weir.transforms.beam.pubsub.messages import Subscription

IN_PROCESS = ["--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner", "--streaming"]


def now() -> int:
    return time.time_ns() // 1000


def clock(seconds: int | None) -> Clock:
    """A clock of one-second ticks from now on."""
    start = now() // SECOND * SECOND
    return Clock(start, SECOND, None if seconds is None else start + seconds * SECOND)


def line(name: object, **other: Any) -> bytes:
    return json.dumps({"at": now(), "id": str(name), "x": 1.0, **other}).encode() + b"\n"


def read_from(post: Post, server: PubSubServer, **options: Any) -> Subscription:
    return Subscription(post.subscription, host=server.host, **options)


def test_all_is_read_acknowledged_and_ended_with_the_clock(
    pubsub_server: PubSubServer, prism_location: Path
) -> None:
    """Two readers, messages of several events, a poison message among them."""
    with Post(pubsub_server.host, "all") as post:
        sent = [f"{i}-{j}" for i in range(700) for j in range(5)]
        post.publish(b"".join(line(f"{i}-{j}") for j in range(5)) for i in range(700))
        post.publish([b"\x00poison\xff", line("late one"), b""])
        source = read_from(post, pubsub_server)
        with reading(prism_flags(prism_location), source, clock(3), readers=2) as job:
            until(job.done)
            assert sorted(job.ids()) == sorted([*sent, "late one"])
            letters = job.letters()
            assert [letter[1:] for letter in letters] == [
                (1, "", "malformed"),
                (-1, "", "malformed"),
            ]
            assert len(job.batches) < 20, "whole answers become one batch"
        counts = pubsub_server.counts(post.topic)
        assert (counts["messages"], counts["acks"], counts["unacked"]) == (703, 703, 0)
        published = pubsub_server.messages(post.topic)
        assert [source for source, *_ in letters] == [
            f"{post.subscription}#{published[at].id}" for at in (700, 702)
        ]


def test_a_silent_stream_ends_with_its_clock(
    pubsub_server: PubSubServer, prism_location: Path
) -> None:
    with Post(pubsub_server.host, "silent") as post:
        source = read_from(post, pubsub_server)
        with reading(prism_flags(prism_location), source, clock(2)) as job:
            until(job.done)
            assert job.ids() == [] and job.letters() == []


def test_the_in_process_runner_reads_to_the_end_too(pubsub_server: PubSubServer) -> None:
    with Post(pubsub_server.host, "direct") as post:
        post.publish(line(i) for i in range(50))
        with reading(IN_PROCESS, read_from(post, pubsub_server), clock(1)) as job:
            until(job.done)
            assert sorted(map(int, job.ids())) == list(range(50))


def test_what_was_not_safe_when_the_reader_died_comes_again(
    pubsub_server: PubSubServer, prism_location: Path
) -> None:
    """A subscriber takes half of the messages and is never heard of again."""
    with Post(pubsub_server.host, "again") as post:
        post.publish(line(i) for i in range(100))
        taken = post.subscriber.pull(
            request={"subscription": post.subscription, "max_messages": 50}, timeout=10
        ).received_messages
        assert len(taken) == 50
        with reading(prism_flags(prism_location), read_from(post, pubsub_server), clock(2)) as job:
            until(lambda: len(job.ids()) >= 50, 20)
            assert len(set(job.ids())) == 50
            until(job.done)
            assert sorted(map(int, job.ids())) == list(range(100)), "the hold waited for them"


def test_a_server_that_goes_away_for_a_while_costs_nothing(
    pubsub_server: PubSubServer, prism_location: Path
) -> None:
    with Post(pubsub_server.host, "gone") as post:
        post.publish(line(i) for i in range(100))
        with reading(
            prism_flags(prism_location), read_from(post, pubsub_server), clock(None)
        ) as job:
            until(lambda: len(set(job.ids())) == 100)
            pubsub_server.down()
            time.sleep(12)
            assert not job.done()
            pubsub_server.up()
            post.publish(line(i) for i in range(100, 200))
            until(lambda: len(set(job.ids())) == 200, 40)
            until(lambda: pubsub_server.counts(post.topic)["unacked"] == 0)


def test_bad_attributes_and_a_missing_one_leave_the_publish_time_and_no_good_one_is_far_from_it(
    pubsub_server: PubSubServer, prism_location: Path
) -> None:
    with Post(pubsub_server.host, "stamps") as post:
        sent = {"a": "2020-02-02T00:00:00Z", "b": "9999-01-01T00:00:00Z", "c": "soon"}
        for name, attributes in (*((name, {"sent": sent[name]}) for name in sent), ("d", {})):
            message = {"data": line(name), "attributes": attributes}
            post.publisher.publish(topic=post.topic, messages=[message])
        year = 365 * 86_400 * SECOND
        source = read_from(post, pubsub_server, timestamp="sent", behind=SECOND, ahead=10 * year)
        with reading(prism_flags(prism_location), source, clock(1)) as job:
            until(job.done)
            rows = [row for batch in job.batches for row in batch.to_pylist()]
        arrivals = {row["@id"]: row["@arrival"].year for row in rows}
        now_is = time.gmtime().tm_year
        assert arrivals["b"] in (now_is + 9, now_is + 10), "within its bounds"
        assert {arrivals[name] for name in "acd"} == {now_is}


def test_a_cancelled_reader_leaves_nothing_hanging(
    pubsub_server: PubSubServer, prism_location: Path
) -> None:
    """What it did not acknowledge is there for the next one as soon as the deadline is over."""
    with Post(pubsub_server.host, "cancelled") as post:
        source = read_from(post, pubsub_server)
        with reading(prism_flags(prism_location), source, clock(None), readers=2) as job:
            post.publish(line(i) for i in range(10))
            until(lambda: len(job.ids()) == 10)
        post.publish(line(i) for i in range(10, 20))
        left: set[str] = set()

        def back() -> bool:
            found = post.drain(post.subscription)
            left.update(json.loads(message.data)["id"] for message in found)
            return left >= {str(i) for i in range(10, 20)}

        until(back)
