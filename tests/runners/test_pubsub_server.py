"""The Pub/Sub server is one: the protocol's own client publishes, pulls, loses and finds it."""

from __future__ import annotations

import time
import uuid

import pytest
from google.api_core.exceptions import ServiceUnavailable
from google.cloud import pubsub_v1

from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.engines.servers import PubSubServer


@pytest.fixture
def topic(pubsub_server: PubSubServer) -> str:
    """A topic with a subscription of the same last name."""
    name = f"server-{uuid.uuid4().hex}"
    path = f"projects/test-project/topics/{name}"
    pubsub_v1.PublisherClient().create_topic(name=path)
    pubsub_v1.SubscriberClient().create_subscription(
        request={
            "name": path.replace("topics", "subscriptions"),
            "topic": path,
            "ack_deadline_seconds": 10,
        }
    )
    return path


def publish(topic: str, *data: bytes) -> None:
    publisher = pubsub_v1.PublisherClient()
    for future in [publisher.publish(topic, one, mark="m") for one in data]:
        future.result(timeout=20)


def pull(topic: str, ack: bool) -> list[bytes]:
    client = pubsub_v1.SubscriberClient()
    subscription = topic.replace("topics", "subscriptions")
    found = client.pull(subscription=subscription, max_messages=100, timeout=20).received_messages
    if ack and found:
        client.acknowledge(subscription=subscription, ack_ids=[m.ack_id for m in found])
    return sorted(message.message.data for message in found)


def test_it_tells_what_was_delivered_and_acknowledged(
    pubsub_server: PubSubServer, topic: str
) -> None:
    publish(topic, b"a", b"b")
    assert pull(topic, ack=True) == [b"a", b"b"]
    publish(topic, b"c")
    counts = pubsub_server.counts(topic)
    assert counts == {"messages": 3, "deliveries": 2, "acks": 2, "unacked": 1}
    assert pubsub_server.counts(topic.rpartition("/")[2]) == counts
    assert pubsub_server.counts("another")["messages"] == 0
    messages = {message.data: message for message in pubsub_server.messages(topic)}
    assert messages.keys() == {b"a", b"b", b"c"}
    assert messages[b"a"].acks == 1 and messages[b"c"].deliveries == 0
    assert messages[b"a"].attributes == {"mark": "m"}


def test_it_goes_down_and_comes_back_with_its_messages(
    pubsub_server: PubSubServer, topic: str
) -> None:
    publish(topic, b"before")
    client = pubsub_v1.SubscriberClient()
    subscription = topic.replace("topics", "subscriptions")
    pubsub_server.down()
    with pytest.raises(ServiceUnavailable):
        client.pull(subscription=subscription, max_messages=1, timeout=5, retry=None)
    pubsub_server.up()
    deadline = time.monotonic() + 30
    while True:  # the client that saw it go finds it again by itself
        try:
            (found,) = client.pull(
                subscription=subscription, max_messages=1, timeout=5, retry=None
            ).received_messages
            break
        except ServiceUnavailable:
            assert time.monotonic() < deadline
    assert found.message.data == b"before"


def test_it_takes_messages_as_large_as_pubsub_does(pubsub_server: PubSubServer, topic: str) -> None:
    large = bytes(9_000_000)
    publish(topic, large)
    assert [message.data for message in pubsub_server.messages(topic)] == [large]


def test_clear_forgets_messages_and_keeps_topics(pubsub_server: PubSubServer, topic: str) -> None:
    publish(topic, b"old")
    pubsub_server.clear()
    assert pubsub_server.counts()["messages"] == 0
    publish(topic, b"new")
    assert pull(topic, ack=True) == [b"new"]


def test_a_taken_port_is_told(pubsub_server: PubSubServer) -> None:
    port = int(pubsub_server.host.rpartition(":")[2])
    with pytest.raises(EngineFailed, match="address already in use"):
        PubSubServer(port=port).start()
