"""Reading files and events in memory: they are split, spread over workers and decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from weir.transforms.beam.elements import SourceOutput, decoded_by, emit
from weir.transforms.beam.step import Step
from weir.transforms.decode.schema import EventSchema
from weir.transforms.formats.stored import File, Split
from weir.transforms.runtime import counters
from weir.transforms.runtime.prefetch import ahead
from weir.transforms.sources.files import FileSource
from weir.transforms.sources.opened import BoundedEvents, OpenedFiles


class SplitFiles(Step):
    """Files -> splits."""

    def __init__(self, source: FileSource) -> None:
        self._source = source

    def process(self, element: tuple[str, int, str]) -> Iterator[tuple[Any, ...]]:
        """One file."""
        counters.add("source_files")
        for split in self._source.splits(File(*element)):
            yield tuple(split)


class DecodeSplits(Step):
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
      opened: which files, and how they are read.
    """

    def __init__(self, opened: OpenedFiles) -> None:
        super().__init__()
        self._opened = opened

    def expand(self, pipeline: Any) -> SourceOutput:
        """Files, Split, Spread, Decode."""
        source = self._opened.source
        splits = (
            pipeline
            | "Files" >> beam.Create([tuple(file) for file in self._opened.files])
            | "Split"
            >> beam.ParDo(SplitFiles(source)).with_output_types(tuple[str, int, int, int, int, str])
            | "Spread" >> beam.Reshuffle()
        )
        return decoded_by(splits, "Decode", DecodeSplits(source, self._opened.schema))


class DecodePieces(Step):
    """(start, stop) -> batches of events; dead letters tagged "dead"."""

    def __init__(self, opened: BoundedEvents) -> None:
        self._opened = opened

    def process(self, piece: tuple[int, int]) -> Iterator[Any]:
        """One piece."""
        return emit(self._opened.decode(piece))


class ReadHere(beam.PTransform[Any, Any]):
    """Events that this process holds or has open -> ``SourceOutput(events, dead)``.

    Args:
      opened: which events, and how they are read.
    """

    def __init__(self, opened: BoundedEvents) -> None:
        super().__init__()
        self._opened = opened

    def expand(self, pipeline: Any) -> SourceOutput:
        """Pieces, Decode."""
        places = beam.Create(list(self._opened.splits())).with_output_types(tuple[int, int])
        return decoded_by(pipeline | "Pieces" >> places, "Decode", DecodePieces(self._opened))
