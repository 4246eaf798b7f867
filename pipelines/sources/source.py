"""Caps on what a source may do to the rest."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from weir.dpcore.config import durations
from weir.dpcore.config.clock import Duration
from weir.dpcore.config.section import Section, refusal
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.connectors.connector import Connector
from weir.transforms.decode.encoding import TextForm
from weir.transforms.decode.lines import LINE_BYTES
from weir.transforms.runtime.stream_time import PRESENT, StreamTime

if TYPE_CHECKING:
    from weir.transforms.decode.schema import EventSchema
    from weir.transforms.sources.opened import BoundedEvents


class Limits(Section):
    """Caps that keep one bad input from hurting the rest."""

    line_bytes: int = Field(
        default=1 << 20,
        description="A longer line is dead-lettered as too_long, unread.",
        examples=[1048576],
    )
    ahead: Duration = Field(
        default="5m",
        description="How far the stamp that a producer of Kafka gave its record (CreateTime) may "
        "lie after the reader's clock; beyond, the record is dead-lettered as stamp_ahead, unread.",
        examples=["1m"],
    )
    first_look: bool = Field(
        default=True,
        description="Whether a run over files is refused when none of its first records has a "
        "column that is read, a declared key, or a time inside the clock.",
        examples=[False],
    )
    refused: float = Field(
        default=0.05,
        json_schema_extra={"minimum": 0, "maximum": 1},
        description="Share of the records, from 0 to 1, that may be rejected, and of each field's "
        "values that may be unreadable: beyond it the releases of a run over files are held back "
        "until `weir run --publish`, and a stream is shown in red. A damaged file holds them back "
        "whatever is allowed here.",
        examples=[0.01],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not 64 <= self.line_bytes <= 1 << 28:
            raise refusal("line_bytes", self.line_bytes, "must be from 64 to 268435456 bytes.")
        if durations.duration(self.ahead) < 0:
            raise refusal("ahead", self.ahead, "must be 0s or longer.")
        if not 0 <= self.refused <= 1:
            raise refusal("refused", self.refused, "must be a share from 0 to 1, like 0.05.")
        return self


PUBLICATION = (
    "Whether and when a run is published is not covered: it may depend on how many records were "
    "refused."
)


class Source(Connector):
    """Where events come from.

    A subclass states ``kind`` and ``bounded``, has a field of its kind's name, and opens itself.
    """

    role: ClassVar[str] = "source"
    bounded: ClassVar[bool]
    """Whether all events are there from the start."""
    endings: ClassVar[tuple[str, ...]] = ()
    """How names of its files usually end, without the dot."""
    noun: ClassVar[str] = "a stream"
    """What it is called where it has no end."""

    @abstractmethod
    def open(self, plan: Plan, limits: Limits) -> Any:
        """The PTransform from a pipeline to ``events`` (canonical batches) and ``dead`` (batches of
        dead letters). Beam is imported here, because it takes seconds.

        Raises:
          ConfigError: what is there cannot be what the config says; before anything runs.
        """

    def read(self, plan: Plan, limits: Limits) -> BoundedEvents | None:
        """Its events in parts that can be read without Beam; None where only Beam can read them.

        Raises:
          ConfigError: see ``open``.
        """
        return None

    @property
    def form(self) -> str:
        """Name of the format that its records are written in."""
        return "ndjson"

    @property
    def payload(self) -> str | None:
        """What its messages hold; None where it has none."""
        return None

    @property
    def path(self) -> str | None:
        """Path or glob of its files, or several in one text; None where it has none."""
        return None

    @property
    def places(self) -> tuple[str, ...]:
        """Paths and globs of its files; none where it has no files."""
        return ()

    @property
    def stream(self) -> StreamTime:
        """What wall time stands for: the present, or a moment of a stream that is replayed."""
        return PRESENT

    def arrivals(self, plan: Plan) -> StreamTime:
        """Wall time -> the earliest arrival that an event which comes then may bear."""
        return self.stream

    def text_form(self, line_bytes: int = LINE_BYTES) -> TextForm:
        """How its texts are written."""
        return TextForm(line_bytes=line_bytes)

    def caveats(self, limits: Limits) -> Iterator[str]:
        """Sentences on what the guarantee does not cover where events come from here."""
        if self.bounded:
            yield PUBLICATION

    def check_plan(self, plan: Plan) -> None:
        """Refuses a plan that it cannot serve. Reads nothing.

        Raises:
          ConfigError: what ends, under a clock that does not; what never ends, without a clock, or
            where contribution bounds need a whole period at once.
        """
        if not self.bounded and plan.clock.once:
            raise ConfigError(
                "clock",
                None,
                f"is missing: {self.noun} has no end, so there is no moment at which all rows "
                "could be released. Write clock: {start: 2025-01-01T00:00:00Z, period: 1d} and "
                "schema.time.",
            )
        if not self.bounded and plan.person is not None:
            plan.person.refuse_endless(self.noun)
        if self.bounded and plan.clock.end is None:
            raise ConfigError(
                "clock.end",
                None,
                "is missing; files end, so say until when the clock runs, like "
                "`end: 2025-01-01T00:00:00Z`.",
            )

    def check_runner(self, runner: str) -> None:
        """Refuses a runner that it cannot be read on.

        Raises:
          ConfigError: a stream on a runner that ends with its input.
        """
        if not self.bounded and runner in ("local", "direct"):
            raise ConfigError(
                "--runner",
                runner,
                f"ends with its input, and {self.noun} has no end: --runner prism on a laptop (run "
                "make prism first), --runner flink or dataflow in production.",
            )

    def check(self) -> Iterator[str]:
        """Asks anyone who serves a stream, before a runner near it does. Yields what to warn of.

        Raises:
          ConfigError: it is not there, or not as the config says.
        """
        return iter(())

    def amount(self) -> tuple[int | None, int | None]:
        """Records and bytes that there are to read, as far as that is inexpensive to know."""
        return None, None

    def seal(self, key: bytes) -> tuple[str | None, Source]:
        """Looks at all that there is to read, for a ledger.

        Args:
          key: of the digest, which says nothing without it.

        Returns:
          What tells one input from another: of files a keyed digest of their content, the same
          wherever they lie; of a stream its name. None where nobody knows before it is read. And
          the same source, which reads that input and no other, as far as it can tell.

        Raises:
          ConfigError: it changes while it is looked at.
        """
        return None, self

    def reading(self, limits: Limits) -> dict[str, Any]:
        """The settings by which bytes become events, JSON-able: the same bytes read otherwise are
        other events."""
        apart = {*self.paths, self.kind}
        fields = self.model_dump(mode="json", exclude=apart, exclude_defaults=True)
        return {"kind": self.kind, **fields}

    def rewind(self, snapshot: str) -> None:
        """Gives again what had not been acknowledged at a snapshot.

        Raises:
          ConfigError: it cannot.
        """
        raise ConfigError("--rewind", snapshot, f"is for pubsub; {self.kind} has no snapshots.")

    def subscribe(self, topic: str) -> Iterator[str]:
        """Makes what it reads a topic by, if that is not there. Yields what was made."""
        return iter(())


def schema_of(plan: Plan) -> EventSchema:
    """The roles of the columns that a plan reads."""
    from weir.transforms.decode.schema import EventSchema

    return EventSchema.from_config(plan.config, plan.program.columns)
