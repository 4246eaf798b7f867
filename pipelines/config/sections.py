"""The sections of a job that shape no plan: where events come from and where releases go."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dpcore.config import durations
from dpcore.config.promise import Duration, Timestamp
from dpcore.config.section import Section, refusal
from dpcore.errors import ConfigError
from dpcore.leaves.clock import Clock
from transforms.decode.encoding import check_encoding
from transforms.decode.lines import LINE_BYTES
from transforms.decode.text_form import TextForm
from transforms.runtime.stream_time import PRESENT, StreamTime


def _as_tuple(value: Any) -> Any:
    """YAML knows lists only."""
    return tuple(value) if isinstance(value, list) else value


FILE_FORMATS = ("csv", "ndjson", "parquet", "arrow", "avro")


class OneOf(Section):
    """A section of which exactly one field says what it is."""

    @classmethod
    def choices(cls) -> tuple[str, ...]:
        """The fields of which exactly one must be there."""
        return tuple(cls.model_fields)

    @property
    def kind(self) -> str:
        """The one that is there."""
        return next(name for name in self.choices() if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        found = [name for name in self.choices() if getattr(self, name) is not None]
        if len(found) != 1:
            raise refusal(
                "",
                " and ".join(found) or None,
                f"must hold exactly one of {', '.join(self.choices())}.",
            )
        return self


def check_topic(field: str, name: str) -> None:
    """Refuses what is no full name of a topic."""
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "projects" or parts[2] != "topics" or not all(parts):
        raise refusal(field, name, "must look like projects/P/topics/T.")


class Replay(Section):
    """A recorded stream fed anew: stream time = origin + speed * (wall time - started)."""

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


class PubSubSource(Section):
    """Events from a Pub/Sub subscription.

    An event's arrival stamp, by which it is late or not, is the column schema.arrival, else the
    attribute ``timestamp``, else the time at which its message was published.
    """

    subscription: str = Field(
        description="The subscription to read.", examples=["projects/acme/subscriptions/purchases"]
    )
    payload: Literal["json", "ndjson", "avro", "arrow"] = Field(
        default="ndjson",
        description="What a message holds: one JSON object, lines of JSON, an Avro container, or "
        "an Arrow stream.",
        examples=["ndjson"],
    )
    readers: int = Field(default=1, description="How many readers pull side by side.", examples=[2])
    ack_deadline: Duration = Field(
        default="10s",
        description="The subscription's ack deadline: for so long after a start releases wait, "
        "because messages that were received and not acknowledged come again that late.",
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
    id: str | None = Field(
        default=None,
        description="On Dataflow, the attribute whose value is the same for every copy of a "
        "message. Elsewhere schema.id tells copies apart.",
        examples=["message_id"],
    )
    replay: Replay | None = Field(
        default=None,
        description="Stream time of a recorded stream that is fed anew.",
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
        parts = self.subscription.split("/")
        if len(parts) != 4 or parts[0] != "projects" or parts[2] != "subscriptions":
            raise refusal(
                "subscription", self.subscription, "must look like projects/P/subscriptions/S."
            )
        return self


def _check_columns(header: bool, columns: tuple[str, ...] | None) -> None:
    """Refuses a file of which nobody, or both file and config, name the columns."""
    if not header and columns is None:
        raise refusal(
            "header", header, "needs columns beside it: the names of all fields, in order."
        )
    if columns is None:
        return
    listed = list(columns)
    if header:
        raise refusal(
            "columns",
            listed,
            "is for files without a header; add header: false, or remove it: a header names the "
            "columns.",
        )
    if not columns or len(set(columns)) < len(columns) or not all(one.strip() for one in columns):
        raise refusal("columns", listed, "must name every field, each by a name of its own.")


class Source(OneOf):
    """Where events come from: one kind of file (a path or glob), or Pub/Sub."""

    csv: str | None = Field(
        default=None, description="CSV, with a header line or columns.", examples=["purchases.csv"]
    )
    ndjson: str | None = Field(
        default=None, description="One JSON object a line.", examples=["events-*.ndjson"]
    )
    parquet: str | None = Field(
        default=None, description="Parquet files.", examples=["events/*.parquet"]
    )
    arrow: str | None = Field(
        default=None, description="Arrow IPC files or streams.", examples=["events.arrow"]
    )
    avro: str | None = Field(
        default=None, description="Avro container files.", examples=["events.avro"]
    )
    delimiter: str = Field(
        default=",", description="What stands between the fields of CSV.", examples=[";"]
    )
    header: bool = Field(
        default=True,
        description="false: the first line of CSV is an event; columns names its fields.",
        examples=[False],
    )
    columns: Annotated[tuple[str, ...] | None, BeforeValidator(_as_tuple)] = Field(
        default=None,
        description="Names of the fields of CSV without a header, all of them, in order.",
        examples=["[user, item, stars, at]"],
    )
    encoding: str = Field(
        default="utf-8",
        description="How CSV is written: utf-8, latin-1, cp1252, utf-16, or another of Python's "
        "encodings in which a newline stands for itself. What cannot be decoded spoils its field.",
        examples=["cp1252"],
    )
    quoted_newlines: bool = Field(
        default=False,
        description="true: quoted fields of CSV may hold newlines. A quote that is never closed "
        "then takes the lines behind it with it, up to limits.line_bytes; files are not split.",
        examples=[True],
    )
    pubsub: PubSubSource | None = Field(
        default=None,
        description="A Pub/Sub subscription.",
        examples=["{subscription: projects/acme/subscriptions/purchases}"],
    )

    @classmethod
    def choices(cls) -> tuple[str, ...]:
        return (*FILE_FORMATS, "pubsub")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.csv is None:
            for name in sorted(self.model_fields_set - set(self.choices())):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise refusal(name, getattr(self, name), "is for csv only; remove it.")
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise refusal("delimiter", self.delimiter, "must be one character, like ; or a tab.")
        _check_columns(self.header, self.columns)
        try:
            check_encoding(self.encoding)
        except ConfigError as error:
            raise refusal("encoding", self.encoding, error.remedy) from None
        return self

    def text_form(self, line_bytes: int = LINE_BYTES) -> TextForm:
        """How its files are written, where they are texts."""
        encoding = check_encoding(self.encoding)
        return TextForm(self.delimiter, line_bytes, self.columns, encoding, self.quoted_newlines)

    @property
    def path(self) -> str | None:
        """Path or glob of files; None for Pub/Sub."""
        return None if self.kind == "pubsub" else str(getattr(self, self.kind))


class Deduplicate(Section):
    """How long an event id is remembered."""

    horizon: Duration | None = Field(
        default=None,
        description="On a stream, how far the public clock runs on before an id may be forgotten: "
        "a copy whose time is more than that ahead counts again, as another event, and the promise "
        "says so. Without it, and on files, ids are remembered for the whole job.",
        examples=["7d"],
    )


class SecretPlace(OneOf):
    """Where 32 bytes that key noise are kept. A reference, never the value."""

    file: str | None = Field(
        default=None,
        description="File of 32 bytes, or of 64 hexadecimal digits.",
        examples=["secret.key"],
    )
    env: str | None = Field(
        default=None,
        description="Environment variable that holds 64 hexadecimal digits.",
        examples=["WEIR_SECRET"],
    )
    gcp: str | None = Field(
        default=None,
        description="Version of a Google Secret Manager secret.",
        examples=["projects/acme/secrets/weir/versions/1"],
    )
    kubernetes: str | None = Field(
        default=None,
        description="A Kubernetes secret that is mounted in every worker: name/key (or "
        "namespace/name/key) under /var/run/secrets/weir, or the path of the mounted file.",
        examples=["weir-noise/key"],
    )

    @classmethod
    def choices(cls) -> tuple[str, ...]:
        return ("file", "env", "gcp", "kubernetes")

    @property
    def value(self) -> str:
        """The reference of the kind that is there."""
        return str(getattr(self, self.kind))


class Rotation(SecretPlace):
    """A later secret, and the tick from which it keys the noise."""

    start: Timestamp = Field(
        alias="from",
        description="Start of the first tick whose noise it keys: a tick that is not released yet.",
        examples=["2025-07-01T00:00:00Z"],
    )


class Secret(SecretPlace):
    """Where the 32 bytes that key the noise are kept, and those that follow them."""

    rotate: Annotated[tuple[Rotation, ...], BeforeValidator(_as_tuple)] = Field(
        default=(),
        description="Secrets that follow, each from a tick on. Ids and rows stay hashed under the "
        "first, so keep it readable.",
        examples=["[{from: 2025-07-01T00:00:00Z, file: secret-2.key}]"],
    )

    def ticks(self, clock: Clock) -> tuple[int, ...]:
        """First tick of each rotation.

        Raises:
          ConfigError: a moment that is no tick's start, is not ahead of the one before it, or is
            not inside the clock.
        """
        found: list[int] = []
        for place, entry in enumerate(self.rotate):
            tick, rest = divmod(durations.timestamp(entry.start) - clock.start, clock.period)
            field = f"secret.rotate[{place}].from"
            if rest:
                near = [durations.show_timestamp(clock.tick_start(tick + more)) for more in (0, 1)]
                raise ConfigError(
                    field,
                    entry.start,
                    f"is not the start of a tick; near it are {' and '.join(near)}.",
                )
            last = found[-1] if found else 0
            if tick <= last or (clock.ticks is not None and tick >= clock.ticks):
                after = durations.show_timestamp(clock.tick_start(last))
                raise ConfigError(
                    field, entry.start, f"must be after {after} and before the clock's end."
                )
            found.append(tick)
        return tuple(found)


class Engine(Section):
    """How a cluster or a laptop runs the job; nothing here changes a release."""

    checkpoints: str | None = Field(
        default=None,
        description="Folder or bucket for checkpoints, savepoints and what a resume needs: on "
        "Flink, in reach of the cluster and of `weir run`. It holds clean sums: protect it like "
        "the events. Without it .weir/NAME beside the config.",
        examples=["gs://acme-weir/state"],
    )
    checkpoint_every: Duration = Field(
        default="5s",
        description="Time between checkpoints of a stream: after a crash that much is done again, "
        "with the same results.",
        examples=["10s"],
    )
    parallelism: int | None = Field(
        default=None,
        description="Workers of a job on Flink; without it all slots that are free, or two.",
        examples=[2],
    )
    bundle_time: Duration = Field(
        default="50ms",
        description="How long a worker gathers events before it passes them on: small for prompt "
        "ticks, larger for more events a second.",
        examples=["500ms"],
    )
    bundle_events: int = Field(
        default=20_000,
        description="How many elements a worker gathers before it passes them on.",
        examples=[20000],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in ("parallelism", "bundle_events"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise refusal(name, value, "must be a whole number, 1 or more.")
        for name, least in (("checkpoint_every", "500ms"), ("bundle_time", "1ms")):
            if durations.duration(getattr(self, name)) < durations.duration(least):
                raise refusal(name, getattr(self, name), f"must be {least} or longer.")
        return self


class Sink(OneOf):
    """Where releases go: a folder of files, a table on the screen, BigQuery or Pub/Sub."""

    parquet: str | None = Field(
        default=None, description="Folder of Parquet files.", examples=["out/"]
    )
    csv: str | None = Field(default=None, description="Folder of CSV files.", examples=["out/"])
    ndjson: str | None = Field(
        default=None, description="Folder of JSON-lines files.", examples=["out/"]
    )
    stdout: Literal[True] | None = Field(
        default=None, description="true: a table on standard output.", examples=[True]
    )
    bigquery: str | None = Field(
        default=None, description="A BigQuery table.", examples=["acme:shop.releases"]
    )
    pubsub: str | None = Field(
        default=None, description="A Pub/Sub topic.", examples=["projects/acme/topics/releases"]
    )
    format: Literal["ndjson", "arrow"] = Field(
        default="ndjson",
        description="What a message of releases holds: lines of JSON, or an Arrow stream.",
        examples=["arrow"],
    )
    every: int = Field(
        default=128, description="Ticks that one file covers, at most.", examples=[128]
    )

    @classmethod
    def choices(cls) -> tuple[str, ...]:
        return tuple(name for name in cls.model_fields if name not in ("every", "format"))

    @property
    def path(self) -> str | None:
        """Folder of the files; None for a sink that is no folder."""
        return str(getattr(self, self.kind)) if self.kind in ("parquet", "csv", "ndjson") else None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.every < 1:
            raise refusal("every", self.every, "must be a whole number of ticks, 1 or more.")
        if self.format != "ndjson" and self.pubsub is None:
            raise refusal("format", self.format, "is for pubsub only; remove it.")
        if self.pubsub is not None:
            check_topic("pubsub", self.pubsub)
        return self


class DeadLetters(OneOf):
    """Where refused events are listed: source, position, field and reason, never content."""

    parquet: str | None = Field(
        default=None, description="Folder of Parquet files.", examples=["dead/"]
    )
    csv: str | None = Field(default=None, description="Folder of CSV files.", examples=["dead/"])
    ndjson: str | None = Field(
        default=None, description="Folder of JSON-lines files.", examples=["dead/"]
    )
    pubsub: str | None = Field(
        default=None, description="A Pub/Sub topic.", examples=["projects/acme/topics/dead"]
    )

    @property
    def path(self) -> str | None:
        """Folder of the files; None for a topic."""
        return None if self.kind == "pubsub" else str(getattr(self, self.kind))

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.pubsub is not None:
            check_topic("pubsub", self.pubsub)
        return self


class Limits(Section):
    """Caps that keep one bad input from hurting the rest."""

    line_bytes: int = Field(
        default=1 << 20,
        description="A longer line is dead-lettered as too_long, unread.",
        examples=[1048576],
    )
    first_look: bool = Field(
        default=True,
        description="Whether a run over files is refused when none of its first records has a "
        "column that is read, a declared key, or a time inside the clock.",
        examples=[False],
    )
    refused: float = Field(
        default=0.5,
        json_schema_extra={"minimum": 0, "maximum": 1},
        description="Share of the records, from 0 to 1, that may be refused, and of each field's "
        "values that may be unreadable: beyond it the releases of a run over files are held back "
        "until `weir run --publish`, and a stream is shown in red.",
        examples=[0.01],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not 64 <= self.line_bytes <= 1 << 28:
            raise refusal("line_bytes", self.line_bytes, "must be from 64 to 268435456 bytes.")
        if not 0 <= self.refused <= 1:
            raise refusal("refused", self.refused, "must be a share from 0 to 1, like 0.5.")
        return self


PATHS = {
    "source": FILE_FORMATS,
    "secret": ("file",),
    "engine": ("checkpoints",),
    "sink": ("parquet", "csv", "ndjson"),
    "dead_letters": ("parquet", "csv", "ndjson"),
}
"""Fields that hold paths, section by section."""


def needed(name: str, value: Any) -> Any:
    """The section, or ConfigError that it is missing."""
    if value is None:
        hints = {"source": "csv: events.csv", "sink": "parquet: out/"}
        raise ConfigError(
            name, None, f"is missing; add one, like `{name}: {{{hints.get(name, '...')}}}`."
        )
    return value


__all__ = [
    "FILE_FORMATS",
    "PATHS",
    "DeadLetters",
    "Deduplicate",
    "Engine",
    "Limits",
    "PubSubSource",
    "Replay",
    "Rotation",
    "Secret",
    "Sink",
    "Source",
    "needed",
]
