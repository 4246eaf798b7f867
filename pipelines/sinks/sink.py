"""What every kind of sink is, and the registry of kinds of sinks and dead letters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from weir.dpcore.config.section import Lengths, refusal, same
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.connectors.connector import Connector, ConnectorKinds, PluginField
from weir.pipelines.sinks.dead_letters import DeadLetters

if TYPE_CHECKING:
    from weir.transforms.runtime.secret import SecretRef
    from weir.transforms.sinks.targets import ReleaseFiles

Secrets = Sequence[tuple[int, "SecretRef"]]
"""References to the secrets of a run, each with its first tick; none where a fresh one is drawn."""


Ticks = Annotated[int, BeforeValidator(same, json_schema_input_type=int | Lengths)]
"""Ticks, as a number or a duration."""


class Sink(Connector):
    """Where releases go.

    A subclass states ``kind``, has a field of its kind's name, and opens itself. What is no folder
    publishes releases as they are made, keeps nothing to go on from, and cannot be looked into.
    """

    role: ClassVar[str] = "sink"
    needs_screen: ClassVar[bool] = False
    """Whether somebody must look at the machine that runs the job."""

    layout: Literal["flat", "packed"] = Field(
        default="flat",
        description="flat: a row for each number, with its label, index and 95 % margin. packed: a "
        "row for each vector, with lists of numbers.",
        examples=["packed"],
    )
    every: Ticks = Field(
        default=128,
        description="Ticks that one file covers, at most; or a duration.",
        examples=[128],
    )

    @model_validator(mode="after")
    def _check_every(self) -> Self:
        if self.every < 1:
            raise refusal("every", self.every, "must be a whole number of ticks, 1 or more.")
        return self

    @abstractmethod
    def open(self, plan: Plan, hold: bool = False, here: bool = False) -> Any:
        """The PTransform that takes releases. Beam is imported here, because it takes seconds.

        Args:
          plan: of the releases. hold: whether they wait for ``finish``, where that is possible.
          here: whether workers are in this process.
        """

    def target(self, plan: Plan, hold: bool = False, here: bool = False) -> ReleaseFiles | None:
        """Which files of releases there are and what writes one, without Beam; None where only
        Beam can write them. The arguments are those of ``open``."""
        return None

    @property
    def place(self) -> str | None:
        """Its folder; None where it is none."""
        return None

    @property
    def named(self) -> str:
        """Where releases are, in words."""
        return self.place or (self.kind if self.value is True else f"{self.kind} {self.value}")

    def at(self, folder: str) -> Sink | None:
        """The same in another folder; None where it is none."""
        return None

    def widened(self) -> Sink | None:
        """The same as ``--wide`` asks for it: what people see of it has a column for each release.
        None where nobody sees anything of it here."""
        return None

    def holds(self, here: bool) -> bool:
        """Whether releases of a run over files can wait until it is known what was refused.

        Args:
          here: whether workers are in this process.
        """
        return False

    def has_results(self) -> bool:
        """Whether releases are there already, as far as it can be looked into."""
        return False

    def begun_under(self) -> int | None:
        """Version of the plan under which releases were begun there; None where none were, or it
        cannot be looked into."""
        return None

    def check_plan(self, plan: Plan) -> bool:
        """Refuses a place that is finished, foreign or of another layout; writes nothing.

        Returns:
          Whether a run of this plan began it.

        Raises:
          ConfigError: names the field of its kind, or ``sink.layout``.
        """
        return False

    def check(self, plan: Plan, secrets: Secrets) -> None:
        """As ``check_plan``, and refuses one that was begun under another secret.

        Raises:
          ConfigError: names the field of its kind, or ``secret``.
        """

    def prepare(self, plan: Plan, secrets: Secrets, hold: bool) -> bool:
        """Makes ready for a run, before any data are read: the plan is there first.

        Returns:
          Whether an earlier run of this plan began, so that this one goes on.

        Raises:
          ConfigError: see ``check``.
        """
        return False

    def note(self, name: str, facts: Mapping[str, Any]) -> None:
        """Keeps public facts of a run next to its releases, where there is a place for them."""

    def missing(self, plan: Plan) -> Sequence[str] | None:
        """Names of the files of a plan's releases that are not there, published or held; None
        where nobody knows them: it cannot be looked into, or the clock has no end."""
        return None

    def is_written(self, plan: Plan) -> bool | None:
        """Whether every tick of the clock is there; None where it cannot be looked into."""
        return None

    def finish(self, plan: Plan, held: bool) -> None:
        """Publishes what waits, and marks the results as complete.

        Raises:
          WeirError: something else is there already.
        """

    def publish(self, plan: Plan) -> int:
        """Publishes what an earlier run held back. Returns how many files.

        Raises:
          ConfigError: names ``--publish``: nothing is held, or the run is not over.
        """
        raise ConfigError(
            "--publish",
            None,
            f"is for runs over files into a folder; {self.field} holds nothing back for later.",
        )


SINKS = ConnectorKinds(
    "sink",
    {
        "parquet": "weir.pipelines.sinks.folder:ParquetSink",
        "csv": "weir.pipelines.sinks.folder:CsvSink",
        "ndjson": "weir.pipelines.sinks.folder:NdjsonSink",
        "stdout": "weir.pipelines.sinks.stdout:StdoutSink",
        "bigquery": "weir.pipelines.sinks.bigquery:BigQuerySink",
        "pubsub": "weir.pipelines.sinks.pubsub:PubSubSink",
        "kafka": "weir.pipelines.sinks.kafka:KafkaSink",
        "postgresql": "weir.pipelines.sinks.postgresql:PostgresqlSink",
        "iceberg": "weir.pipelines.sinks.iceberg:IcebergSink",
    },
    "weir.sinks",
)

DEAD_LETTERS = ConnectorKinds(
    "dead_letters",
    {
        "parquet": "weir.pipelines.sinks.dead_letters:DeadParquet",
        "csv": "weir.pipelines.sinks.dead_letters:DeadCsv",
        "ndjson": "weir.pipelines.sinks.dead_letters:DeadNdjson",
        "pubsub": "weir.pipelines.sinks.dead_letters:DeadTopic",
        "kafka": "weir.pipelines.sinks.kafka:DeadKafka",
    },
    "weir.dead_letters",
)

AnySink = Annotated[Sink, PluginField(SINKS)]
"""A sink of any kind, as a field of a section."""

AnyDeadLetters = Annotated[DeadLetters, PluginField(DEAD_LETTERS)]
"""Dead letters of any kind, as a field of a section."""
