"""Sources that are files: a path or glob, and a format."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from weir.dpcore.config.section import as_tuple, refusal
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.connectors.connector import check_place
from weir.pipelines.connectors.paths import Dataset, FilesText, ending
from weir.pipelines.sources.source import Limits, Source, schema_of
from weir.transforms.decode.encoding import TextForm, check_encoding
from weir.transforms.decode.lines import LINE_BYTES
from weir.transforms.formats.csv import Csv, check_delimiter
from weir.transforms.formats.format import Format
from weir.transforms.formats.stored import File

if TYPE_CHECKING:
    from weir.transforms.sources.files import FileSource
    from weir.transforms.sources.opened import OpenedFiles

_log = logging.getLogger(__name__)


class Files(Source):
    """Files of one format. They are looked at when they are opened."""

    bounded: ClassVar[bool] = True
    _sealed: Any = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check_path(self) -> Self:
        for place in self.places:
            check_place(self.kind, place, writes=False)
        return self

    @classmethod
    def meant(cls, text: str) -> Mapping[str, Any] | None:
        return {cls.kind: text} if ending(text) in cls.endings else None

    @property
    def form(self) -> str:
        return self.kind

    @property
    def path(self) -> str:
        return ", ".join(self.places)

    @property
    def _is_dataset(self) -> bool:
        return isinstance(self.value, Dataset)

    @property
    def places(self) -> tuple[str, ...]:
        if self._is_dataset:
            return (self.value.dataset,)
        return (self.value,) if isinstance(self.value, str) else tuple(self.value)

    def local(self) -> list[Path]:
        """Files on this machine; none for a bucket or for standard input."""
        import glob

        here = [place for place in self.places if "://" not in place]
        if self._is_dataset:
            here = [f"{glob.escape(place.rstrip('/'))}/**" for place in here]
        named = {Path(name) for place in here for name in glob.glob(place, recursive=True)}
        return sorted(path for path in named if not (self._is_dataset and path.is_dir()))

    def _pipes(self) -> list[str]:
        from weir.transforms.sources.spool import is_stream

        return [place for place in self.places if is_stream(place)]

    def amount(self) -> tuple[int | None, int | None]:
        return None, sum(path.stat().st_size for path in self.local())

    def check_plan(self, plan: Plan) -> None:
        """Refuses sockets and devices, too, and pipes that a glob matches: what each file is, is no
        secret."""
        from weir.transforms.sources.matching import require_regular

        super().check_plan(plan)
        pipes = self._pipes()
        for path in map(str, self.local()):
            if path not in pipes:
                require_regular(path, self.field)

    def check_runner(self, runner: str) -> None:
        """Refuses workers of other processes where standard input or a pipe is read."""
        super().check_runner(runner)
        pipes = self._pipes()
        if pipes and runner not in ("local", "direct"):
            raise ConfigError(
                "--runner",
                runner,
                f"cannot read {self.field} = {pipes[0]!r}: a pipe is read where the job is "
                "started. Write its data to files that workers can read, or leave --runner out.",
            )

    def _source(self, limits: Limits) -> FileSource:
        """Which files; pipes as copies of what they hold."""
        from weir.transforms.sources.files import FileSource
        from weir.transforms.sources.spool import spooled

        pipes = self._pipes()
        places = [spooled(p, self.field) if p in pipes else p for p in self.places]
        path = places[0] if len(places) == 1 else tuple(places)
        return FileSource(
            self.form, path, self.text_form(limits.line_bytes), dataset=self._is_dataset
        )

    def seal(self, key: bytes) -> tuple[str | None, Source]:
        from weir.transforms.sources.seal import seal

        source = self._source(Limits())
        result = seal(source.match, self.field, key, source.partition)
        if result is None:
            return None, self
        sealed = self.model_copy()
        sealed._sealed = result.files
        return result.digest, sealed

    def reading(self, limits: Limits) -> dict[str, Any]:
        dataset = {"partitioning": "hive"} if self._is_dataset else {}
        return {**super().reading(limits), "line_bytes": limits.line_bytes, **dataset}

    def open(self, plan: Plan, limits: Limits) -> Any:
        from weir.transforms.beam.read_files import ReadFiles

        return ReadFiles(self.read(plan, limits))

    def read(self, plan: Plan, limits: Limits) -> OpenedFiles:
        from weir.transforms.decode.input_validation import FirstLook
        from weir.transforms.sources.files import FileSource
        from weir.transforms.sources.opened import OpenedFiles

        schema = schema_of(plan)
        if self._described:
            _log.warning(
                "%s = %r: a dry run looks up no file, so the request holds this path in place of "
                "the files that a run would find.",
                self.field,
                self.path,
            )
            text = self.text_form(limits.line_bytes)
            described = FileSource(self.form, self.places, text, dataset=self._is_dataset)
            files = tuple(File(place, 0) for place in self.places)
            return OpenedFiles(described, schema, found=files)
        source = self._source(limits)
        look = None
        if limits.first_look:
            look = FirstLook(plan, schema, named=source.format.named_columns)
        return OpenedFiles(source, schema, look, self._sealed, where=plan.where)


@cache
def _section(cls: type[Format]) -> type[Files]:
    """The section of a format without options, ``NdjsonSource`` for example."""
    name = cls.name
    fields = {
        "__module__": __name__,
        "__doc__": cls.description,
        "__annotations__": {name: FilesText},
        name: Field(description=cls.description, examples=[cls.example]),
        "kind": name,
        "paths": (name,),
        "endings": cls.suffixes,
    }
    section: type[Files] = type(Files)(f"{name.title().replace('_', '')}Source", (Files,), fields)  # type: ignore[misc]
    return section


def files_of(form: Format) -> type[Files]:
    """Returns the kind of source over files of a format."""
    return _section(type(form))


QUOTES = (
    "Quoted fields may hold newlines, so where a record ends follows from its quotes: the "
    "guarantee "
    "compares streams whose records close the quotes that they open within {:,} bytes. One that "
    "does not takes what lies up to there with it, other records among them."
)


class CsvSource(Files):
    """CSV, with a header line or columns."""

    kind: ClassVar[str] = "csv"
    paths: ClassVar[tuple[str, ...]] = ("csv",)
    endings: ClassVar[tuple[str, ...]] = Csv.suffixes

    csv: FilesText = Field(
        description="CSV, with a header line or columns.", examples=["purchases.csv"]
    )
    delimiter: str = Field(
        default=",", description="What stands between the fields of CSV.", examples=[";"]
    )
    header: bool = Field(
        default=True,
        description="false: the first line of CSV is an event; columns names its fields.",
        examples=[False],
    )
    columns: Annotated[tuple[str, ...] | None, BeforeValidator(as_tuple)] = Field(
        default=None,
        description="Names of the fields of CSV without a header, all of them, in order.",
        examples=["[user, item, stars, at]"],
    )
    encoding: str = Field(
        default="utf-8",
        description="How CSV is written: utf-8, latin-1, cp1252, utf-16, or another of Python's "
        "encodings in which a newline stands for itself. What cannot be decoded damages its field.",
        examples=["cp1252"],
    )
    quoted_newlines: bool = Field(
        default=False,
        description="true: quoted fields of CSV may hold newlines. A quote that is never closed "
        "then takes the lines behind it with it, up to limits.line_bytes; files are not split.",
        examples=[True],
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            check_delimiter(self.delimiter)
        except ConfigError as error:
            raise refusal("delimiter", self.delimiter, error.remedy) from None
        _check_columns(self.header, self.columns)
        try:
            check_encoding(self.encoding)
        except ConfigError as error:
            raise refusal("encoding", self.encoding, error.remedy) from None
        return self

    def text_form(self, line_bytes: int = LINE_BYTES) -> TextForm:
        encoding = check_encoding(self.encoding)
        return TextForm(self.delimiter, line_bytes, self.columns, encoding, self.quoted_newlines)

    def caveats(self, limits: Limits) -> Iterator[str]:
        yield from super().caveats(limits)
        if self.quoted_newlines:
            yield QUOTES.format(limits.line_bytes)

    def check_plan(self, plan: Plan) -> None:
        """Refuses columns that lack one that is read, too."""
        schema = schema_of(plan)
        schema.refuse_lists()
        if self.columns is not None:
            schema.require(self.columns, "source.columns")
        super().check_plan(plan)


def _check_columns(header: bool, columns: tuple[str, ...] | None) -> None:
    """Refuses a file of which nobody, or both file and config, name the columns."""
    if not header and columns is None:
        raise refusal(
            "header", header, "needs columns next to it: the names of all fields, in order."
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
    if (
        not columns
        or len(set(columns)) < len(columns)
        or not all(column.strip() for column in columns)
    ):
        raise refusal("columns", listed, "must name every field, each by a name of its own.")
