"""Reading a recorded stream back, batch by batch, in the order of its file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig
from weir.transforms.decode.schema import Stamp
from weir.transforms.decode.time import to_time
from weir.transforms.formats.registry import FORMATS, format_of, suffixes
from weir.transforms.sources.matching import require_regular


def read_batches(path: Path, config: JobConfig) -> Iterator[pa.RecordBatch]:
    """A recorded file in batches. CSV is written as the config's own source says.

    Raises:
      ConfigError: no such file, a pipe, not a format known here, or not readable; never quotes its
        content.
    """
    form = format_of(path)
    if form is None:
        raise ConfigError("--from", str(path), f"must end in one of {suffixes()}.")
    require_regular(str(path), "--from")
    if config.source is not None and form.name == "csv":
        form = FORMATS.of(form.name, config.source.text_form())
    try:
        for batch in form.batches(str(path)):
            if config.schema_.time.column not in batch.schema.names:
                raise ConfigError(
                    "schema.time.column",
                    config.schema_.time.column,
                    f"is not a column of {path.name}; name one that is.",
                )
            yield batch
    except FileNotFoundError:
        raise ConfigError("--from", str(path), "is no file.") from None
    except ConfigError:
        raise
    except Exception as error:
        # Parsers raise whatever their input leads them to, and quote the line they failed on.
        raise ConfigError(
            "--from", str(path), f"cannot be read as {form.name} ({type(error).__name__})."
        ) from None


def moments_of(batch: pa.RecordBatch, config: JobConfig) -> NDArray[np.int64]:
    """When each event arrived, as far as the recording says: (n,) microseconds since 1970.

    That is schema.arrival where it is declared, else the event time. Only for pacing a replay.

    Raises:
      ConfigError: a time cannot be read; never quotes it.
    """
    role = "time" if config.schema_.arrival is None else "arrival"
    column = config.schema_.arrival or config.schema_.time
    stamp = Stamp(column.column, column.format, column.zone or "UTC", f"schema.{role}")
    found = to_time(batch.column(column.column), stamp, "the recording")
    if found.null_count:
        raise ConfigError(
            f"schema.{role}.format",
            column.format,
            "does not fit a recorded event, so --speed cannot pace it; use --rate.",
        )
    return np.asarray(found.view(pa.int64()).to_numpy())
