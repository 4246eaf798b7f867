"""How records come to a job under audit, and how they can be malformed there: files, or messages.

``spoilt`` has the forms of lines and of typed rows; where a container's own bytes may be spoilt, a
message is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weir.pipelines.audit.job import Audited
from weir.pipelines.audit.messages import (
    container_forms,
    messages,
    payload_of,
    spoilt_messages,
)
from weir.pipelines.audit.spoilt import Form, Typed, spoil, text_forms, typed_forms
from weir.pipelines.audit.streams import Maker, Rows
from weir.pipelines.feed import targets
from weir.pipelines.sources.files import Files
from weir.transforms.decode.encoding import TextForm
from weir.transforms.formats.registry import FORMATS


@dataclass(frozen=True)
class Way:
    """Of one audit.

    Attributes:
      form: of files or messages. text: how lines are written. plain: whether records are lines,
        each of which can be spoilt by itself. sent: whether they are messages.
    """

    form: str
    text: TextForm
    plain: bool
    sent: bool

    @classmethod
    def of(cls, audited: Audited, runner: str) -> Way:
        """Messages on Flink, else files."""
        if runner == "flink":
            payload, _ = payload_of(audited.job)
            return cls(payload, TextForm(), FORMATS[payload].is_text, True)
        source = audited.at(Path("."), 1).source
        assert isinstance(source, Files)
        text = source.text_form()
        utf_8 = text.encoding.lower().replace("_", "-") in ("utf-8", "utf8")
        return cls(source.form, text, FORMATS[source.form].is_text and utf_8, False)

    def forms(self, maker: Maker) -> list[Form | Typed]:
        """Every way in which a record may be malformed."""
        audited, none = maker.audited, np.zeros(1, dtype=np.int64)
        small = maker.batch(Rows(none, none, none, none, none))
        job = audited.job.schema_
        ids = [job.id] if job.id is not None and audited.plan.person is not None else []
        if not self.plain:
            found: list[Form | Typed] = list(typed_forms(small.schema, ids))
            return [*found, *container_forms()] if self.sent else found
        names = list(self.text.columns or small.schema.names)
        numbers = [name for name in maker.offered.columns if name in names]
        stamps = [one.column for one in (job.time, job.arrival) if one is not None]
        # A key that nobody declared is a key of its own where keys are found.
        keyed = audited.key_columns if audited.declares else ()
        form = "ndjson" if self.sent else self.form
        return list(text_forms(form, names, numbers, stamps, keyed, ids, self.text))

    def written(
        self,
        maker: Maker,
        rows: Rows,
        place: Path,
        places: Sequence[int],
        forms: Sequence[Any],
        with_them: bool,
    ) -> list[bytes]:
        """Writes a file into a folder, or returns messages.

        Args:
          places: rows that belong to ``forms``, one each. with_them: else they are left out.
        """
        if not self.sent:
            path = place / f"events.{self.form}"
            writes = _text if self.plain else _typed
            writes(maker, rows, path, places, forms, with_them)
            return []
        if with_them:
            return spoilt_messages(maker.batch(rows), self.form, places, forms)
        kept = rows.taken(np.setdiff1d(np.arange(len(rows.key)), places))
        return list(messages(maker, kept, self.form))


def _text(
    maker: Maker,
    rows: Rows,
    path: Path,
    places: Sequence[int],
    forms: Sequence[Form],
    with_them: bool,
) -> None:
    maker.write(rows, path.parent, path.stem)
    lines = path.read_bytes().split(b"\n")
    head = len(lines) - 1 - len(rows.key)
    for place, form in zip(places, forms, strict=True):
        lines[head + place] = form.spoil(lines[head + place])
    if not with_them:
        gone = {head + place for place in places}
        lines = [line for at, line in enumerate(lines) if at not in gone]
    path.write_bytes(b"\n".join(lines))


def _typed(
    maker: Maker,
    rows: Rows,
    path: Path,
    places: Sequence[int],
    forms: Sequence[Any],
    with_them: bool,
) -> None:
    batch = maker.batch(rows)
    if with_them:
        pairs = [pair for pair in zip(places, forms, strict=True) if isinstance(pair[1], Typed)]
        batch = spoil(batch, [place for place, _ in pairs], [form for _, form in pairs])
    else:
        batch = batch.take(np.setdiff1d(np.arange(batch.num_rows), places))
    target = targets.open_target(str(path), path.suffix.removeprefix("."))
    target.write(batch, [False] * batch.num_rows)
    target.close()


__all__ = ["Way"]
