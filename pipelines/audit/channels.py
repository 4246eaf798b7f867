"""What a run leaves and tells besides releases: for neighbours it must be the same.

Counts of events are exact, hence private: they stay with the operator (docs/reference/counters.md).
What they are is listed here, and every other counter is compared, so that one that is new is
private or equal. Everything in the folder of releases is public, and so is what is not a count in
a run's own summary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq

from weir.pipelines.audit.once import Done
from weir.pipelines.results.result import COUNTERS
from weir.transforms.runtime.reasons import REASONS, by_field

PRIVATE = frozenset({*COUNTERS, *REASONS, "bytes", "messages"}) - {"divergent"}
"""Counters of the operator's that may tell of events, besides those by column."""
OWN = ("operator", "refused", "seconds", "sink")
"""Of a run's summary: the operator's counts, time, and where this run of an audit lies."""
_VARIES = re.compile(r"/\S*weir-audit-\S*|0x[0-9a-f]+|\d+\.\d+ ?m?s\b")
"""What of a log line is no fact about events: places of this run, and times."""


def public(counters: Mapping[str, int]) -> dict[str, int]:
    """The counters that may not tell of events: how much was released, what went wrong."""
    of_columns = {name for name in counters if by_field({name: 1})}
    return {name: n for name, n in counters.items() if name not in PRIVATE | of_columns}


def outside(done: Done, alone: bool) -> dict[str, Any]:
    """What leaves the operator's side besides releases, by what it is.

    Files, their rows, row groups and metadata; the plan; lines of the log. Of a run that is alone
    in its process every other file of the folder too, counters and summary: on a cluster they tell
    of starts, leases and repeats as well, whose number is its timing.
    """
    rows: dict[str, int] = {}
    groups: dict[str, list[int]] = {}
    facts: dict[str, tuple[Any, ...]] = {}
    found: dict[str, Any] = {"file names": sorted(path.name for path in done.folder.iterdir())}
    for path in sorted(done.folder.glob("ticks-*")):
        if path.suffix == ".parquet":
            held = pq.read_metadata(path)
            rows[path.name] = held.num_rows
            groups[path.name] = [held.row_group(i).num_rows for i in range(held.num_row_groups)]
            facts[path.name] = (str(held.schema.to_arrow_schema()), held.metadata, held.created_by)
        else:
            rows[path.name] = path.read_bytes().count(b"\n")
    found |= {"rows of files": rows, "row groups": groups, "metadata of files": facts}
    plan = done.folder / "_plan.json"
    found[plan.name] = plan.read_bytes() if plan.exists() else b""
    found["log lines"] = [_VARIES.sub("_", line) for line in done.log]
    if not alone:
        return found
    for path in sorted(done.folder.iterdir()):
        if path.is_file() and not path.name.startswith("ticks-"):
            found[path.name] = path.read_bytes()
    found["counters"] = public(done.result.counters)
    summary = done.result.to_json()
    found["summary"] = {name: value for name, value in summary.items() if name not in OWN}
    return found


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """What of the one is not in the other, or otherwise; of counters, which."""
    found = []
    for name in sorted({*one, *other}):
        mine, theirs = one.get(name), other.get(name)
        if mine == theirs:
            continue
        if name == "counters":
            assert mine is not None and theirs is not None
            which = sorted(at for at in {*mine, *theirs} if mine.get(at) != theirs.get(at))
            name = f"counters ({', '.join(which)})"
        found.append(f"{name} differ")
    return found
