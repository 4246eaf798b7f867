"""Where refused events are listed: source, position, field and reason, never content."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from weir.pipelines.connectors.connector import Connector, check_name, check_place
from weir.pipelines.connectors.paths import FolderText, meant_folder
from weir.pipelines.connectors.pubsub import warn_of

if TYPE_CHECKING:
    from weir.transforms.sinks.dead_letters import WriteDead


class DeadLetters(Connector):
    """Where dead letters go. A subclass states ``kind``, has a field of that name, and opens."""

    role: ClassVar[str] = "dead_letters"

    @abstractmethod
    def open(self) -> Any:
        """The PTransform that takes dead letters."""

    def prepare(self) -> None:
        """Makes ready for a run, before any data are read.

        Raises:
          ConfigError: they cannot be written there.
        """

    def writer(self) -> WriteDead | None:
        """What writes them without Beam; None where only Beam can."""
        return None

    @property
    def place(self) -> str | None:
        """Its folder; None where it is none."""
        return None


class DeadFolder(DeadLetters):
    """A folder of files of one format."""

    @classmethod
    def meant(cls, text: str) -> Mapping[str, Any] | None:
        return meant_folder(cls.kind, text)

    @model_validator(mode="after")
    def _check_folder(self) -> Self:
        check_place(self.kind, self.place)
        return self

    @property
    def place(self) -> str:
        return str(self.value)

    def open(self) -> Any:
        import apache_beam as beam

        from weir.transforms.beam.sinks import WriteDeadDoFn

        return beam.ParDo(WriteDeadDoFn(self.place, self.kind))

    def writer(self) -> WriteDead:
        from weir.transforms.sinks.dead_letters import WriteDead

        return WriteDead(self.place, self.kind)


class DeadParquet(DeadFolder):
    """Folder of Parquet files."""

    kind: ClassVar[str] = "parquet"
    paths: ClassVar[tuple[str, ...]] = ("parquet",)

    parquet: FolderText = Field(description="Folder of Parquet files.", examples=["dead/"])


class DeadCsv(DeadFolder):
    """Folder of CSV files."""

    kind: ClassVar[str] = "csv"
    paths: ClassVar[tuple[str, ...]] = ("csv",)

    csv: FolderText = Field(description="Folder of CSV files.", examples=["dead/"])


class DeadNdjson(DeadFolder):
    """Folder of JSON-lines files."""

    kind: ClassVar[str] = "ndjson"
    paths: ClassVar[tuple[str, ...]] = ("ndjson",)

    ndjson: FolderText = Field(description="Folder of JSON-lines files.", examples=["dead/"])


class DeadTopic(DeadLetters):
    """A Pub/Sub topic."""

    kind: ClassVar[str] = "pubsub"

    pubsub: str = Field(description="A Pub/Sub topic.", examples=["projects/acme-data/topics/dead"])

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_name("pubsub", self.pubsub, "topics")
        return self

    @classmethod
    def meant(cls, text: str) -> Mapping[str, Any] | None:
        return {"pubsub": text} if "/topics/" in text else None

    def prepare(self) -> None:
        warn_of("dead_letters.pubsub", self.pubsub)

    def open(self) -> Any:
        from weir.transforms.beam.sinks import PublishDead

        return PublishDead(self.pubsub)
