"""``weir report --wide``: a folder of results as a table, a row for each key and tick."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError
from weir.pipelines.results.files import read_file
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.show.summary import first_keys
from weir.transforms.sinks.wide import COLUMNS, Wide


def lines(
    directory: Path, keys: Sequence[str] | None = None, names: Sequence[str] | None = None
) -> Iterator[str]:
    """The rows of a folder, file by file.

    Args:
      directory: of results. keys, names: those to show; None: all.

    Raises:
      ConfigError: no results there, or a key or name that the run does not have.
    """
    run = ResultFolder.open(directory)
    outputs = tuple((one.name, one.over, one.labels) for one in run.outputs)
    _known("name", names or (), [name for name, _, _ in outputs])
    if names:
        outputs = tuple(one for one in outputs if one[0] in names)
    wanted = None
    if keys:
        every = {run.shown(key): key for key in first_keys(run)}
        _known("key", [run.shown(key) for key in keys], list(every))
        wanted = pa.array([every[run.shown(key)] for key in keys])
    intervals = frozenset((one.name, one.over) for one in run.outputs if one.interval)
    wide = Wide(outputs, run.band, run.shown, intervals)
    columns = (*COLUMNS, *run.interval_columns)
    for _, files in itertools.groupby(run.files, lambda file: (file.first, file.last)):
        batches = [batch for file in files for batch in read_file(file, columns, run.sizes)]
        if batches:
            table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
            order = pc.sort_indices(table, sort_keys=[("tick_start", "ascending")])
            table = table.take(order)  # stable; of a range in several files each has every tick
            if wanted is not None:
                table = table.filter(pc.is_in(table["key"].cast(pa.string()), wanted))
            yield from wide.lines(table)


def _known(field: str, asked: Sequence[str], known: Sequence[str]) -> None:
    for one in asked:
        if one not in known:
            few = list(dict.fromkeys(known))
            remedy = nearest(one, few) if len(few) <= 20 else f"is not among the {len(few):,}."
            raise ConfigError(f"--{field}", one, remedy)
