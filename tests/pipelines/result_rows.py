"""Rows of a folder of results, one a vector, as a test compares them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weir.pipelines.results.files import TYPES, read_file, result_files


def result_rows(folder: Path) -> list[dict[str, Any]]:
    """All rows of all files, in order, with ``value`` and ``stddev`` as lists."""
    return [
        row
        for file in result_files(folder)
        for batch in read_file(file, list(TYPES))
        for row in batch.to_pylist()
    ]
