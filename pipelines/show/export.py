"""Results for other tools: a wide table and a dbt source."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from ruamel.yaml import YAML

from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.results.files import read_file
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.show.summary import first_keys
from weir.pipelines.sinks.sink import Sink
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
    outputs = tuple((output.name, output.over, output.labels) for output in run.outputs)
    _known("name", names or (), [name for name, _, _ in outputs])
    if names:
        outputs = tuple(output for output in outputs if output[0] in names)
    wanted = None
    if keys:
        every = {run.shown(key): key for key in first_keys(run)}
        _known("key", [run.shown(key) for key in keys], list(every))
        wanted = pa.array([every[run.shown(key)] for key in keys])
    intervals = frozenset((output.name, output.over) for output in run.outputs if output.interval)
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
    for item in asked:
        if item not in known:
            few = list(dict.fromkeys(known))
            remedy = nearest(item, few) if len(few) <= 20 else f"is not among the {len(few):,}."
            raise ConfigError(f"--{field}", item, remedy)


DBT_COLUMNS: Mapping[str, str] = {
    "release": "Name of the release: `name` in the config.",
    "key": "What the number is for; of several columns a JSON array; empty where there is one key.",
    "tick": "Number of the tick of the public clock, from 0; null where the plan has no clock, as "
    "tick_start and tick_end are.",
    "tick_start": "When the tick begins, in UTC.",
    "tick_end": "When the tick ends, in UTC.",
    "name": "Name of the output in the config.",
    "label": "Which of several numbers: a bin, a coefficient; empty where there is one.",
    "index": "Place of that number, from 0.",
    "over": "The last so many ticks; null: since the start.",
    "value": "The released number, noise included; null where there is nothing to say yet.",
    "stddev": "Standard deviation of its noise; null where the error is not additive.",
    "low": "Lower end of the 95 % margin of error, of noise alone, within public ends.",
    "high": "Upper end of the 95 % margin of error, of noise alone, within public ends.",
    "epsilon": "Epsilon of the guarantee.",
    "delta": "Delta of the guarantee.",
    "window": "Ticks for which an event is protected; null: for ever.",
    "plan": "Digest of the plan that made the number.",
}
"""Every column of flat results, in order."""

FILLED = ("release", "key", "tick", "tick_start", "tick_end", "name", "label", "index", "epsilon",
          "delta", "plan")  # fmt: skip
"""Columns that are never null; of a plan without a clock those of ``TIMES`` are."""
TIMES = ("tick", "tick_start", "tick_end")


def source_file(plan: Plan | None = None, sink: Sink | None = None) -> str:
    """A file for dbt's ``models`` folder.

    Args:
      plan: names the table, its outputs and its guarantee; None: a table called releases.
      sink: where releases go; None: nobody knows.
    """
    table: dict[str, Any] = {"name": "releases" if plan is None else plan.name}
    about = "Differentially private releases of Weir: a row for each key, tick, output and number."
    if plan is not None:
        about = f"{about} {plan.guarantee.statement} Plan {plan.digest[:12]}."
    table["description"] = about
    place = None if sink is None else place_of(sink)
    if place is not None:
        table["config"] = {"meta": {"external_location": place}}
    table["columns"] = [_column(name, plan) for name in DBT_COLUMNS]
    schema = {"name": "weir", "description": "What Weir has released.", "tables": [table]}
    out = StringIO()
    yaml = YAML()
    yaml.width = 100
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump({"version": 2, "sources": [schema]}, out)
    return out.getvalue()


def place_of(sink: Sink) -> str | None:
    """The files of a folder as DuckDB reads them; None: it is no such folder."""
    readers = {
        "parquet": "read_parquet('{}/*.parquet')",
        "csv": "read_csv('{}/*.csv')",
        "ndjson": "read_json('{}/*.ndjson')",
    }
    reader = readers.get(sink.kind)
    return None if reader is None or sink.place is None else reader.format(sink.place.rstrip("/"))


def _column(name: str, plan: Plan | None) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "description": DBT_COLUMNS[name]}
    empty = () if plan is None or not plan.clock.once else TIMES
    tests: list[Any] = ["not_null"] if name in FILLED and name not in empty else []
    if plan is not None and name == "name":
        names = list(dict.fromkeys(output.name for output in plan.outputs))
        tests.append({"accepted_values": {"arguments": {"values": names}}})
    return column | ({"data_tests": tests} if tests else {})
