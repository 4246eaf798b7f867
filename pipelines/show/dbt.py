"""``weir schema --dbt``: releases as a source of dbt, their columns described and tested."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any

from ruamel.yaml import YAML

from weir.dpcore.plan import Plan
from weir.pipelines.sinks.sink import Sink

COLUMNS: Mapping[str, str] = {
    "release": "Name of the release: `name` in the config.",
    "key": "What the number is for; of several columns a JSON array; empty where there is one key.",
    "tick": "Number of the tick of the public clock, from 0.",
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
    "epsilon": "Epsilon of the promise.",
    "delta": "Delta of the promise.",
    "window": "Ticks for which an event is protected; null: for ever.",
    "plan": "Digest of the plan that made the number.",
}
"""Every column of flat results, in order."""

FILLED = ("release", "key", "tick", "tick_start", "tick_end", "name", "label", "index", "epsilon",
          "delta", "plan")  # fmt: skip
"""Columns that are never null."""


def source_file(plan: Plan | None = None, sink: Sink | None = None) -> str:
    """A file for dbt's ``models`` folder.

    Args:
      plan: names the table, its outputs and its promise; None: a table called releases.
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
    table["columns"] = [_column(name, plan) for name in COLUMNS]
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
    column: dict[str, Any] = {"name": name, "description": COLUMNS[name]}
    tests: list[Any] = ["not_null"] if name in FILLED else []
    if plan is not None and name == "name":
        names = list(dict.fromkeys(one.name for one in plan.outputs))
        tests.append({"accepted_values": {"arguments": {"values": names}}})
    return column | ({"data_tests": tests} if tests else {})


__all__ = ["COLUMNS", "place_of", "source_file"]
