"""Sinks that are folders of files: what is held back, gone on from, published and completed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.connectors.connector import check_place
from weir.pipelines.connectors.paths import FolderText, meant_folder
from weir.pipelines.connectors.secret_place import SecretPlace
from weir.pipelines.sinks.sink import Secrets, Sink
from weir.transforms.runtime.files import refusals

if TYPE_CHECKING:
    from weir.transforms.runtime.signing import Signer
    from weir.transforms.sinks.targets import ReleaseFiles


class Folder(Sink):
    """A folder on a disk or in a bucket, of files of one format."""

    signing_key: SecretPlace | None = Field(
        default=None,
        description="Where the key is kept that signs the receipts of the folder (weir "
        "keygen makes one); without it receipts are not signed. On a stream workers read it.",
        examples=["{file: signing.key}"],
    )

    @model_validator(mode="after")
    def _check_folder(self) -> Self:
        check_place(self.kind, self.place)
        return self

    @classmethod
    def meant(cls, text: str) -> Mapping[str, Any] | None:
        return meant_folder(cls.kind, text)

    @property
    def place(self) -> str:
        return str(self.value)

    def at(self, folder: str) -> Sink:
        return self.model_copy(update={self.kind: folder})

    def open(self, plan: Plan, hold: bool = False, here: bool = False) -> Any:
        from weir.transforms.beam.write_files import WriteRanges

        return WriteRanges(self.target(plan, hold, here))

    def target(self, plan: Plan, hold: bool = False, here: bool = False) -> ReleaseFiles:
        from weir.transforms.sinks.targets import folder

        parts = self._parts(plan)
        return folder(
            plan, self.place, self.kind, self.every, hold, self.layout, parts, self._signer()
        )

    def holds(self, here: bool) -> bool:
        return True

    def widened(self) -> Sink | None:
        """Its files stay as they are; the summary shows their end."""
        return self

    def has_results(self) -> bool:
        from weir.transforms.sinks import place

        return place.has_results(self.place)

    def begun_under(self) -> int | None:
        if self._is_new():  # without Beam
            return None
        from weir.pipelines.results import plan_file

        with refusals(self.field):
            return plan_file.version_in(self.place)

    def check_plan(self, plan: Plan) -> bool:
        from weir.pipelines.results import plan_file
        from weir.transforms.sinks import place

        plan_file.refuse_other_results(self.place, plan, self.field)
        begun = place.check(self.place, plan.layout, self.field)
        if begun:
            plan_file.refuse_other_layout(self.place, self.layout)
        return begun

    def check(self, plan: Plan, secrets: Secrets) -> None:
        if self._is_new():  # without Beam
            return
        from weir.pipelines.results import secret_marks
        from weir.transforms.sinks import place

        with refusals(self.field):
            if not self.check_plan(plan):
                return
            if not secrets or secrets[0][1].is_fresh:
                place.refuse_fresh(self.place, self.field)
            else:
                marks = secret_marks.whole(secrets, plan)
                secret_marks.refuse_other(self.place, self.field, marks, plan)

    def _is_new(self) -> bool:
        """Whether a folder on this machine is not there yet, or empty."""
        if "://" in self.place:
            return False
        folder = Path(self.place)
        return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))

    def prepare(self, plan: Plan, secrets: Secrets, hold: bool) -> bool:
        """Writes ``_plan.json`` and the marks of the secrets.

        Raises:
          ConfigError: see ``check``; or the folder cannot be written to.
        """
        from weir.pipelines.results import plan_file, secret_marks
        from weir.transforms.sinks import place

        self.check(plan, secrets)
        self._check_signer(secrets, hold)
        reported = plan_file.plan_json(plan) | {plan_file.LAYOUT: self.layout}
        parts = self._parts(plan)
        if parts > 1:
            reported[place.PARTS] = parts
        try:
            with refusals(self.field):
                begun = place.prepare(self.place, reported, self.field)
                if secrets:
                    secret_marks.keep(self.place, self.field, secret_marks.whole(secrets, plan))
                if hold:
                    place.make_held(self.place)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise ConfigError(
                self.field,
                self.place,
                f"cannot be written to ({why}): give a folder that you may fill.",
            ) from None
        return begun

    def note(self, name: str, facts: Mapping[str, Any]) -> None:
        """A field of ``_plan.json``."""
        from weir.pipelines.results import plan_file

        plan_file.note(self.place, name, facts)

    def missing(self, plan: Plan) -> Sequence[str] | None:
        from weir.transforms.sinks import held

        return None if plan.clock.ticks is None else held.missing(self.place, self._files(plan))

    def is_written(self, plan: Plan) -> bool | None:
        return self.missing(plan) == []

    def finish(self, plan: Plan, held: bool) -> None:
        from weir.transforms.sinks.held import publish, twice

        publish(self.place, self._files(plan) if held else [], twice(plan), self._seal)

    def publish(self, plan: Plan) -> int:
        from weir.transforms.sinks import held

        self.check_plan(plan)
        wanted = self._files(plan)
        absent = held.missing(self.place, wanted)
        if len(absent) == len(wanted):
            raise ConfigError(
                "--publish",
                self.place,
                f"finds nothing that is held back there, in files of {self.every:,} ticks: run "
                "without --publish first, and give the same --set as then.",
            )
        if absent:
            raise ConfigError(
                "--publish",
                self.place,
                f"finds a run that is not over: {len(absent):,} of {len(wanted):,} files are "
                "missing. The same command without --publish goes on with it.",
            )
        return held.publish(self.place, wanted, held.twice(plan), self._seal)

    def _signer(self) -> Signer | None:
        """What signs receipts; None: they are not signed."""
        from weir.transforms.runtime.secret import SecretRef
        from weir.transforms.runtime.signing import Signer

        section = self.signing_key
        if section is None:
            return None
        return Signer(SecretRef(**dict[str, Any]({section.kind: section.value})))

    def _check_signer(self, secrets: Secrets, here: bool) -> None:
        """Refuses a key that cannot sign, before any data are read.

        Args:
          here: whether this process signs. Where workers do, only they need to reach the key.

        Raises:
          ConfigError: names ``sink.signing_key``.
        """
        signer = self._signer()
        if signer is None or self.signing_key is None:
            return
        try:
            signer.public()
            taken = {secret.resolve() for _, secret in secrets}
        except ConfigError:
            if here:
                raise
            return
        if signer.reference.resolve() in taken:
            raise ConfigError(
                f"sink.signing_key.{self.signing_key.kind}",
                self.signing_key.value,
                "is the secret of the noise, and a key that signs is handled by other people. Make "
                "one with weir keygen.",
            )

    def _seal(self) -> None:
        """Writes the receipt of the whole folder."""
        from weir.transforms.sinks import place, receipts

        names = list(place.release_files(self.place))
        receipts.write_folder(self.place, names, self._signer())

    def _files(self, plan: Plan) -> list[str]:
        """Names of all files of a plan's releases."""
        from weir.transforms.sinks.targets import files_of

        return files_of(plan, self.every, self.kind, self._parts(plan))

    def _parts(self, plan: Plan) -> int:
        """Files of a range: as the folder was begun, else as the plan needs."""
        from weir.transforms.sinks import place
        from weir.transforms.sinks.targets import parts_of

        needed = parts_of(plan, self.every, self.layout)
        if needed == 1 or self._described:  # one file is one wherever a folder was begun
            return needed
        return place.parts_in(self.place) or needed


class CsvSink(Folder):
    """Folder of CSV files."""

    kind: ClassVar[str] = "csv"
    paths: ClassVar[tuple[str, ...]] = ("csv",)

    csv: FolderText = Field(description="Folder of CSV files.", examples=["out/"])


class NdjsonSink(Folder):
    """Folder of JSON-lines files."""

    kind: ClassVar[str] = "ndjson"
    paths: ClassVar[tuple[str, ...]] = ("ndjson",)

    ndjson: FolderText = Field(description="Folder of JSON-lines files.", examples=["out/"])


class ParquetSink(Folder):
    """Folder of Parquet files."""

    kind: ClassVar[str] = "parquet"
    paths: ClassVar[tuple[str, ...]] = ("parquet",)

    parquet: FolderText = Field(description="Folder of Parquet files.", examples=["out/"])
