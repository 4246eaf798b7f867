"""Reading files: they are matched, checked, split, spread over workers and decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from weir.dpcore.errors import ConfigError
from weir.transforms.decode.beam_events import SourceOutput, decoded_by, emit
from weir.transforms.decode.input_validation import FirstLook
from weir.transforms.decode.schema import EventSchema
from weir.transforms.formats.stored import File, Split
from weir.transforms.runtime import counters
from weir.transforms.runtime.ahead import ahead
from weir.transforms.runtime.aside import in_one_process
from weir.transforms.sources.file_checks import check_files, look_at_files
from weir.transforms.sources.files import FileSource


class SplitFiles(beam.DoFn):
    """Files -> splits."""

    def __init__(self, source: FileSource) -> None:
        self._source = source

    def process(self, element: tuple[str, int, str]) -> Iterator[tuple[Any, ...]]:
        """One file."""
        counters.add("source_files")
        for split in self._source.splits(File(*element)):
            yield tuple(split)


class DecodeSplits(beam.DoFn):
    """Splits -> batches of events; dead letters tagged "dead"."""

    def __init__(self, source: FileSource, schema: EventSchema) -> None:
        self._source = source
        self._schema = schema

    def process(self, element: tuple[str, int, int, int, int, str]) -> Iterator[Any]:
        """One split."""
        return emit(self._source.decode(Split(*element), self._schema, ahead))


class ReadFiles(beam.PTransform[Any, Any]):
    """Files -> ``SourceOutput(events, dead)``. Order across splits is not preserved.

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
        sealed: tuple[File, ...] | None = None,
        found: tuple[File, ...] | None = None,
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

    def expand(self, pipeline: Any) -> SourceOutput:
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
        return decoded_by(splits, "Decode", DecodeSplits(self._source, self._schema))
