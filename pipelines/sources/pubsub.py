"""Events from a Pub/Sub subscription."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from weir.dpcore.config import durations
from weir.dpcore.config.clock import Duration, Timestamp
from weir.dpcore.config.section import Section, refusal
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.connectors.connector import check_name
from weir.pipelines.connectors.pubsub import ANSWER, look_up
from weir.pipelines.sources.payload import Payload
from weir.pipelines.sources.source import Limits, Source, schema_of
from weir.transforms.runtime.stream_time import PRESENT, StreamTime


class Replay(Section):
    """A recorded stream fed again: stream time = origin + speed * (wall time - started)."""

    origin: Timestamp = Field(
        description="Event time at which the replay starts.", examples=["2013-01-01T05:00:00Z"]
    )
    started: Timestamp = Field(
        description="Wall time at which it starts; `weir feed` prints it.",
        examples=["2026-01-01T12:00:00Z"],
    )
    speed: float = Field(default=1.0, description="Times real time.", examples=[24])

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not 0 < self.speed < float("inf"):
            raise refusal("speed", self.speed, "must be a finite number above 0, like 24.")
        return self

    def to_stream(self) -> StreamTime:
        """In microseconds."""
        return StreamTime(
            durations.timestamp(self.origin), durations.timestamp(self.started), self.speed
        )


class SubscriptionConfig(Section):
    """Events from a Pub/Sub subscription.

    An event's arrival stamp, by which it is late or not, is the column schema.arrival, else the
    attribute ``timestamp``, both within bounds, else the time at which its message was published.
    """

    subscription: str = Field(
        description="The subscription to read.",
        examples=["projects/acme-data/subscriptions/purchases"],
    )
    payload: Payload = Field(
        default="ndjson",
        description="What a message holds: one JSON object (json), lines of JSON (ndjson), an Avro "
        "container, an Arrow stream, or a format of an installed package.",
        examples=["ndjson"],
    )
    readers: int = Field(default=1, description="How many readers pull side by side.", examples=[2])
    ack_deadline: Duration = Field(
        default="10s",
        description="The subscription's ack deadline: messages that were received and not "
        "acknowledged come again that late, so releases wait for it after a start, or after the "
        "last pull of the job before.",
        examples=["10s"],
    )
    slack: Duration = Field(
        default="500ms",
        description="How long a published message may take until it can be pulled.",
        examples=["500ms"],
    )
    timestamp: str | None = Field(
        default=None,
        description="Attribute that says when a message arrived: RFC 3339, or milliseconds since "
        "1970.",
        examples=["sent_at"],
    )
    stamps_behind: Duration = Field(
        default="2s",
        description="How long before its message was published an arrival stamp (schema.arrival, "
        "timestamp) may lie; an earlier one counts as this long before. Where stamps are declared, "
        "releases wait so much longer. A replay takes stamps as they are.",
        examples=["30s"],
    )
    stamps_ahead: Duration = Field(
        default="1h",
        description="How long after its message was published an arrival stamp may lie; a later "
        "one counts as this long after.",
        examples=["5m"],
    )
    id: str | None = Field(
        default=None,
        description="On Dataflow, the attribute whose value is the same for every copy of a "
        "message. Elsewhere schema.id tells copies apart.",
        examples=["message_id"],
    )
    replay: Replay | None = Field(
        default=None,
        description="Stream time of a recorded stream that is fed again.",
        examples=["{origin: 2013-01-01T05:00:00Z, started: 2026-01-01T12:00:00Z, speed: 24}"],
    )

    @property
    def ack_seconds(self) -> int:
        """The ack deadline."""
        return durations.duration(self.ack_deadline) // 1_000_000

    def to_stream(self) -> StreamTime:
        """What wall time stands for."""
        return PRESENT if self.replay is None else self.replay.to_stream()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not 1 <= self.readers <= 256:
            raise refusal("readers", self.readers, "must be from 1 to 256.")
        deadline = durations.duration(self.ack_deadline)
        if deadline % 1_000_000 or not 10_000_000 <= deadline <= 600_000_000:
            raise refusal(
                "ack_deadline", self.ack_deadline, "must be from 10s to 600s, in whole seconds."
            )
        if durations.duration(self.slack) < 100_000:
            raise refusal("slack", self.slack, "must be 100ms or longer.")
        check_name("subscription", self.subscription, "subscriptions")
        return self


class PubSubSource(Source):
    """A Pub/Sub subscription."""

    kind: ClassVar[str] = "pubsub"
    bounded: ClassVar[bool] = False
    noun: ClassVar[str] = "a subscription"

    pubsub: SubscriptionConfig = Field(
        description="A Pub/Sub subscription.",
        examples=["{subscription: projects/acme-data/subscriptions/purchases}"],
    )

    @classmethod
    def meant(cls, text: str) -> Mapping[str, Any] | None:
        return {"pubsub": {"subscription": text}} if "/subscriptions/" in text else None

    @property
    def form(self) -> str:
        return "ndjson" if self.pubsub.payload == "json" else self.pubsub.payload

    @property
    def payload(self) -> str:
        return self.pubsub.payload

    @property
    def stream(self) -> StreamTime:
        return self.pubsub.to_stream()

    def open(self, plan: Plan, limits: Limits) -> Any:
        """See transforms.beam.pubsub.read.ReadPubSub."""
        from weir.transforms.beam.pubsub.messages import MessageDecoder
        from weir.transforms.beam.pubsub.read import ReadPubSub

        section = self.pubsub
        decoder = MessageDecoder(
            section.payload, schema_of(plan), section.subscription, limits.line_bytes
        )
        subscription = self.subscription(plan)
        return ReadPubSub(subscription, decoder, plan.clock, section.readers, section.id)

    def arrivals(self, plan: Plan) -> StreamTime:
        """See Source."""
        earliest: StreamTime = self.subscription(plan).earliest
        return earliest

    def subscription(self, plan: Plan) -> Any:
        """As its reader takes it, with the emulator that this process is told to use, if any."""
        from weir.transforms.beam.pubsub.messages import Subscription
        from weir.transforms.runtime.pubsub_client import emulator

        section, stamped = self.pubsub, plan.config.schema_.arrival is not None
        behind, ahead = (
            durations.duration(length) if stamped or section.timestamp is not None else 0
            for length in (section.stamps_behind, section.stamps_ahead)
        )
        return Subscription(
            name=section.subscription,
            ack_seconds=section.ack_seconds,
            slack=durations.duration(section.slack),
            timestamp=section.timestamp,
            behind=behind,
            ahead=ahead,
            stream=self.stream,
            host=emulator(),
        )

    def check(self) -> Iterator[str]:
        """Asks for the subscription; it may be reachable for workers though it is not from here.

        Raises:
          ConfigError: there is none of that name, or its ack deadline is longer than the config's.
        """
        name, deadline = self.pubsub.subscription, self.pubsub.ack_deadline
        result = look_up("source.pubsub.subscription", name)
        if isinstance(result, str):
            yield f"{result}; source.pubsub.ack_deadline is taken to be {deadline}."
            return
        if result.ack_deadline_seconds * 1_000_000 > durations.duration(deadline):
            raise ConfigError(
                "source.pubsub.ack_deadline",
                deadline,
                f"is shorter than the subscription's: write {result.ack_deadline_seconds}s.",
            )

    def seal(self, key: bytes) -> tuple[str | None, Source]:
        return self.pubsub.subscription, self

    def rewind(self, snapshot: str) -> None:
        """Takes the subscription back: it gives again what it had not acknowledged then.

        Raises:
          ConfigError: there is no such snapshot, or not of this topic.
        """
        from google.api_core.exceptions import GoogleAPIError

        from weir.transforms.runtime.pubsub_client import emulator, subscriber

        request = {"subscription": self.pubsub.subscription, "snapshot": snapshot}
        try:
            subscriber(emulator()).seek(request=request, timeout=ANSWER)
        except GoogleAPIError as error:
            raise ConfigError(
                "--rewind",
                snapshot,
                f"cannot be gone back to ({type(error).__name__}): name a snapshot of this "
                "subscription, projects/P/snapshots/NAME.",
            ) from None

    def subscribe(self, topic: str) -> Iterator[str]:
        """Makes the subscription to a topic."""
        from google.api_core.exceptions import AlreadyExists

        from weir.transforms.runtime.pubsub_client import emulator, subscriber

        name, seconds = self.pubsub.subscription, self.pubsub.ack_seconds
        request = {"name": name, "topic": topic, "ack_deadline_seconds": seconds}
        try:
            subscriber(emulator()).create_subscription(request=request, timeout=30)
        except AlreadyExists:
            return
        yield f"made the subscription {name}"
