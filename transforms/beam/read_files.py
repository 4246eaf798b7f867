"""Reading files: they are matched, checked, split, spread over workers and decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.first_look import FirstLook
from weir.transforms.decode.formats import emit
from weir.transforms.decode.schema import EventSchema
from weir.transforms.runtime import counters
from weir.transforms.runtime.aside import in_one_process
from weir.transforms.runtime.dead_letters import DEAD
from weir.transforms.runtime.prefetch import ahead
from weir.transforms.sources import matching
from weir.transforms.sources.check_files import check_files
from weir.transforms.sources.files import FileSource
from weir.transforms.sources.first_files import look_at_files
from weir.transforms.sources.stored_bytes import Split


class SplitFiles(beam.DoFn):
    """Files -> splits."""

    def __init__(self, source: FileSource) -> None:
        self._source = source

    def process(self, element: tuple[str, int, str]) -> Iterator[tuple[Any, ...]]:
        """One file."""
        counters.add("source_files")
        for split in self._source.splits(matching.File(*element)):
            yield tuple(split)


class DecodeSplits(beam.DoFn):
    """Splits -> batches of events; dead letters tagged "dead"."""

    def __init__(self, source: FileSource, schema: EventSchema) -> None:
        self._source = source
        self._schema = schema

    def process(self, element: tuple[str, int, int, int, int, str]) -> Iterator[Any]:
        """One split."""
        return emit(self._source.decode(Split(*element), self._schema, ahead))


class Read(NamedTuple):
    """PCollections of canonical batches and of dead letters."""

    events: Any
    dead: Any


class ReadFiles(beam.PTransform[Any, Any]):
    """Files -> ``Read(events, dead)``. Order across splits is not preserved.

    Args:
      source: which files.
      schema: the roles of columns.
      look: what the first records must have; None looks at none.
      sealed: the files as a ledger has entered them; None: no ledger did.
      found: the files, where they are neither to be looked up nor checked.

    Raises:
      ConfigError: no file, a missing column, a column or a file of a wrong type, or records of
        which none fits; before anything runs.
    """

    def __init__(
        self,
        source: FileSource,
        schema: EventSchema,
        look: FirstLook | None = None,
        sealed: tuple[matching.File, ...] | None = None,
        found: tuple[matching.File, ...] | None = None,
    ) -> None:
        super().__init__()
        self._source = source
        self._schema = schema
        if found is not None:
            self._files = found
            return
        self._files = source.match()
        if sealed is not None:
            if [file.path for file in sealed] != [file.path for file in self._files]:
                raise ConfigError(
                    source.field,
                    source.path,
                    "changed since the ledger was asked: other files match it now. Run again.",
                )
            self._files = sealed
        check_files(source, self._files, schema)
        if look is not None:
            look_at_files(source, self._files, look)

    @property
    def size(self) -> int:
        """Bytes of all files: what the count "bytes" reaches at the end."""
        return sum(file.size for file in self._files)

    def expand(self, pipeline: Any) -> Read:
        """Files, Split, Spread (but in one process), Decode."""
        here = in_one_process(pipeline.pipeline)  # where nobody else could take some
        files = [tuple(file) for file in self._files]
        splits = (
            pipeline
            | "Files" >> beam.Create(files, reshuffle=not here)
            | "Split"
            >> beam.ParDo(SplitFiles(self._source)).with_output_types(
                tuple[str, int, int, int, int, str]
            )
        )
        if not here:
            splits |= "Spread" >> beam.Reshuffle()
        decoded = splits | "Decode" >> beam.ParDo(
            DecodeSplits(self._source, self._schema)
        ).with_output_types(pa.RecordBatch, dead=pa.RecordBatch).with_outputs(DEAD, main="events")
        return Read(decoded.events, decoded[DEAD])


__all__ = ["DecodeSplits", "Read", "ReadFiles", "SplitFiles"]
