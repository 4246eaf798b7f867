"""Sources that are files: a path or glob, and a format."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr, model_validator

from weir.dpcore.plan import Plan
from weir.pipelines.connectors.connector import check_place
from weir.pipelines.connectors.paths import ending
from weir.pipelines.sources.limits import Limits
from weir.pipelines.sources.source import Source, schema_of

_log = logging.getLogger(__name__)


class Files(Source):
    """Files of one format. They are looked at when they are opened."""

    bounded: ClassVar[bool] = True
    named_columns: ClassVar[bool] = True
    """Whether headers name the columns; where records do, names are only known by reading."""
    _sealed: Any = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _check_path(self) -> Self:
        check_place(self.kind, self.path)
        return self

    @classmethod
    def meant(cls, text: str) -> Mapping[str, Any] | None:
        return {cls.kind: text} if ending(text) in cls.endings else None

    @property
    def form(self) -> str:
        return self.kind

    @property
    def path(self) -> str:
        return str(self.value)

    def local(self) -> list[Path]:
        """Files on this machine; none for a bucket."""
        if "://" in self.path:
            return []
        import glob

        return [Path(name) for name in sorted(glob.glob(self.path, recursive=True))]

    def amount(self) -> tuple[int | None, int | None]:
        return None, sum(path.stat().st_size for path in self.local())

    def check_plan(self, plan: Plan) -> None:
        """Refuses pipes, sockets and devices, too: what each file is, is no secret."""
        from weir.transforms.sources.regular import require_regular

        super().check_plan(plan)
        for path in self.local():
            require_regular(str(path), self.field)

    def seal(self, key: bytes) -> tuple[str | None, Source]:
        from weir.transforms.sources.seal import seal

        found = seal(self.path, self.field, key)
        if found is None:
            return None, self
        sealed = self.model_copy()
        sealed._sealed = found.files
        return found.digest, sealed

    def reading(self, limits: Limits) -> dict[str, Any]:
        return {**super().reading(limits), "line_bytes": limits.line_bytes}

    def open(self, plan: Plan, limits: Limits) -> Any:
        """See transforms.sources.read_files.ReadFiles."""
        from weir.transforms.decode.first_look import FirstLook
        from weir.transforms.sources.files import FileSource
        from weir.transforms.sources.matching import File
        from weir.transforms.sources.read_files import ReadFiles

        source = FileSource(self.form, self.path, *self.text_form(limits.line_bytes))
        schema = schema_of(plan)
        if self._described:
            _log.warning(
                "%s = %r: a dry run looks up no file, so the request holds this path in place of "
                "the files that a run would find.",
                self.field,
                self.path,
            )
            return ReadFiles(source, schema, found=(File(self.path, 0),))
        look = FirstLook(plan, schema, named=self.named_columns) if limits.first_look else None
        return ReadFiles(source, schema, look, self._sealed)
