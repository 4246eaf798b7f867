"""Folders of results as a run would leave them, without a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weir.dpcore.algorithm import Role, Shown
from weir.pipelines.results.files import TYPES

DAY = 86_400_000_000
START = 852_076_800_000_000  # 1997-01-01T00:00:00Z
LABELS = ("[1, 2)", "[2, 3)", "[3, 5)", "[5, 10)", "[10, inf)")

ValueOf = Callable[[str, int | None, int, int], tuple[Any, Any]]
"""(name, over, key number, tick) -> (value list, stddev list or None)."""


def plan(ticks: int | None, releases: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """What ``_plan.json`` holds."""
    return {
        "name": "shop",
        "digest": "5f" * 32,
        "algorithm": "aggregates",
        "guarantee": {
            "epsilon": 1.0,
            "delta": 1e-6,
            "relation": "add_remove",
            "unit": "event",
            "window": 365,
            "statement": "Whether any one event is in the stream or not changes the probability "
            "of what is released within 365 ticks (365 days) of its arrival by a factor of at most "
            "2.72 (epsilon = 1), but for a slack of 0.000001.",
        },
        "expiration": [
            {"ticks": 365, "epsilon": 1.0, "delta": 1e-6},
            {"ticks": 730, "epsilon": 1.13, "delta": 1e-6},
            {"ticks": 3650, "epsilon": 1.85, "delta": 1e-6},
            {"ticks": 36500, "epsilon": None, "delta": None},
        ],
        "releases": list(releases),
        "alternatives": [
            {
                "mechanism": "blt",
                "chosen": True,
                "score": 1.0,
                "noise": "gaussian",
                "state_bytes_per_key": 144,
                "epsilon_10w": 1.85,
                "note": "",
            },
            {
                "mechanism": "window_tree",
                "chosen": False,
                "score": 3.2,
                "noise": "gaussian",
                "state_bytes_per_key": 320,
                "epsilon_10w": None,
                "note": "no protection after the window",
            },
        ],
        "state_bytes_per_key": 144,
        "keys": 1,
        "blocks": 16,
        "ticks": ticks,
        "warnings": [],
        "reading": {
            "lines": "Every line is what was released.",
            "banded": "The margin holds 95 % of the noise ({band} standard deviations).",
            "bare": "",
        },
        **more,
    }


WORDS = {
    "purchases": "events",
    "dollars": "sum of dollar_value",
    "basket": "mean of dollar_value",
    "sizes": "events by number_of_cds",
}


def release(
    name: str, over: int | None, labels: Sequence[str] = ("",), shown: Shown | None = None
) -> dict[str, Any]:
    """One entry of ``releases``; without ``shown``, of the shop."""
    words = WORDS.get(name, "")
    role: Role = "bins" if name == "sizes" else "value"
    shown = Shown(words, words, role) if shown is None else shown
    return {
        "name": name,
        "over": over,
        "dimension": len(labels),
        "sensitivity": 1.0,
        "stddev_worst": 20.0,
        "labels": list(labels),
        **shown._asdict(),
    }


def rows(
    keys: Sequence[str],
    ticks: range,
    outputs: Sequence[tuple[str, int | None]],
    value_of: ValueOf,
    period: int = DAY,
) -> pa.Table:
    """Every row of a range of ticks."""
    columns: dict[str, list[Any]] = {name: [] for name in TYPES}
    for tick in ticks:
        for k, key in enumerate(keys):
            for name, over in outputs:
                value, stddev = value_of(name, over, k, tick)
                row = {
                    "release": "shop",
                    "key": key,
                    "tick": tick,
                    "tick_start": START + tick * period,
                    "tick_end": START + (tick + 1) * period,
                    "name": name,
                    "over": over,
                    "value": value,
                    "stddev": stddev,
                    "epsilon": 1.0,
                    "delta": 1e-6,
                    "window": 365,
                    "plan": "5f" * 32,
                }
                for column, item in row.items():
                    columns[column].append(item)
    schema = pa.schema(list(TYPES.items()))
    arrays = {
        name: pa.array(items, pa.int64()).cast(TYPES[name])
        if name.startswith("tick_")
        else pa.array(items, TYPES[name])
        for name, items in columns.items()
    }
    return pa.table(arrays, schema=schema)


def write(table: pa.Table, path: Path) -> None:
    """One file in the format that its name says."""
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return
    items = table.to_pylist()
    for item in items:
        for name in ("tick_start", "tick_end"):
            item[name] = item[name].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if path.suffix == ".ndjson":
        path.write_text("".join(json.dumps(item) + "\n" for item in items))
        return
    lines = [",".join(TYPES)]
    for item in items:
        cells = []
        for name in TYPES:
            cell = item[name]
            if isinstance(cell, list):
                cell = '"' + json.dumps(cell) + '"'
            cells.append("" if cell is None else str(cell))
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n")


def folder(
    base: Path,
    keys: Sequence[str],
    ticks: int,
    outputs: Sequence[tuple[str, int | None]],
    value_of: ValueOf,
    *,
    suffix: str = "parquet",
    every: int = 128,
    complete: bool = True,
    planned: dict[str, Any] | None = None,
) -> Path:
    """A folder of results."""
    base.mkdir(parents=True, exist_ok=True)
    for first in range(0, ticks, every):
        last = min(first + every, ticks) - 1
        name = f"ticks-{first:012d}-{last:012d}.{suffix}"
        write(rows(keys, range(first, last + 1), outputs, value_of), base / name)
    if planned is None:
        releases = [
            release(name, over, LABELS if name == "sizes" else ("",)) for name, over in outputs
        ]
        planned = plan(ticks, releases, keys=len(keys))
    (base / "_plan.json").write_text(json.dumps(planned))
    if complete:
        (base / "_COMPLETE").write_text("")
    return base


SHOP = (
    ("purchases", None),
    ("purchases", 7),
    ("dollars", None),
    ("dollars", 7),
    ("basket", None),
    ("sizes", None),
)


def shop_values(seed: int = 1) -> ValueOf:
    """Values like those of a shop, with noise; the same for the same arguments."""

    def value_of(name: str, over: int | None, k: int, tick: int) -> tuple[Any, Any]:
        rng = np.random.default_rng([seed, k, tick, len(name), over or 0])
        n = 120.0 * (tick + 1) / (k + 1) if over is None else 840.0 / (k + 1)
        noise = 14.0 if over is None else 18.0
        if name == "purchases":
            return [n + noise * rng.normal()], [noise]
        if name == "dollars":
            return [36 * n + 2000 * rng.normal()], [2000.0]
        if name == "basket":
            return [36 + 2000 / n * rng.normal()], [2000.0 / n]
        share = np.array([0.45, 0.23, 0.2, 0.1, 0.02])
        return list(n * share + noise * rng.normal(size=5)), [noise] * 5

    return value_of
