"""Releases as messages of a Pub/Sub topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from weir.dpcore.plan import Plan
from weir.pipelines.connectors.connector import check_name
from weir.pipelines.connectors.pubsub import warn_of
from weir.pipelines.sinks.sink import Secrets, Sink


class PubSubSink(Sink):
    """A Pub/Sub topic."""

    kind: ClassVar[str] = "pubsub"

    pubsub: str = Field(
        description="A Pub/Sub topic.", examples=["projects/acme-data/topics/releases"]
    )
    format: Literal["ndjson", "arrow"] = Field(
        default="ndjson",
        description="What a message of releases holds: lines of JSON, or an Arrow stream.",
        examples=["arrow"],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_name("pubsub", self.pubsub, "topics")
        return self

    @classmethod
    def meant(cls, text: str) -> Mapping[str, Any] | None:
        return {"pubsub": text} if "/topics/" in text else None

    def prepare(self, plan: Plan, secrets: Secrets, hold: bool) -> bool:
        warn_of("sink.pubsub", self.pubsub)
        return False

    def open(self, plan: Plan, hold: bool = False, here: bool = False) -> Any:
        from weir.transforms.beam.publish import PublishReleases

        return PublishReleases(self.pubsub, plan, self.format, self.layout)
