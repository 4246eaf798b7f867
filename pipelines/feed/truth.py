"""What synthetic events come to, exactly: next to releases it shows what noise and clip do to them.

Only for synthetic events. The exact numbers of real ones are what a release must not show.
"""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.feed.synthetic import Shares
from weir.transforms.columns.predicate import Predicate

ALL = ""
"""The key where there is none."""


def refuse_truth(recorded: str | None, live: bool, shares: Shares) -> None:
    """Refuses what has no simple truth.

    Raises:
      ConfigError: recorded events, or some that come twice, late or cannot be read.
    """
    if recorded is not None:
        raise ConfigError(
            "--truth", recorded, "is of synthetic events only; --from may hold real ones. Leave it."
        )
    if shares != Shares() or not live:
        raise ConfigError(
            "--truth",
            None,
            "is for --times now, without --late, --duplicate and --malformed: what of those counts "
            "is the pipeline's business, and not simple to tell. Leave one or the other.",
        )


class Truth:
    """Adds up counts and sums, unclipped, and appends a line for each tick that is over.

    A line is {"tick", "totals": {key: {name: number}}}: of that tick alone, keys and names without
    an event left out. Means, variances, histograms and models have no line.

    Args:
      config: which aggregates, keys and clock. path: of NDJSON, replaced.

    Raises:
      ConfigError: a file that cannot be written, a config without a count or sum, or with keys of
        several columns or groupings.
    """

    def __init__(self, config: PlanConfig, path: Path) -> None:
        self._config, self._clock = config, config.release_clock
        self._where = None if config.where is None else Predicate.parse(config.where)
        key = config.key
        if key is not None and (key.columns is not None or key.groups is not None):
            raise ConfigError("--truth", str(path), "is for keys of a single column, ungrouped.")
        self._gates = {
            name: Predicate.parse(aggregate.where)
            for name, aggregate in config.aggregates.items()
            if aggregate.where is not None
        }
        self._columns = {
            name: aggregate.column
            for name, aggregate in config.aggregates.items()
            if aggregate.kind in ("count", "sum") and aggregate.of_users is None
        }
        if not self._columns:
            raise ConfigError(
                "--truth", str(path), "needs a count of events or a sum under aggregates."
            )
        self._totals: dict[int, dict[str, dict[str, float]]] = {}
        try:
            self._out: TextIO = path.open("w")
        except OSError as error:
            raise ConfigError(
                "--truth", str(path), f"cannot be written: {error.strerror}."
            ) from None

    def add(self, batch: pa.RecordBatch, moments: NDArray[np.int64]) -> None:
        """Takes events in order of time. moments: (n,) microseconds since 1970."""
        if self._where is not None:
            mask = self._where.mask(batch)
            batch, moments = batch.filter(mask), moments[mask.to_numpy(zero_copy_only=False)]
        ticks = self._clock.tick_of(moments)
        key = self._config.key
        names = pa.array([ALL] * len(ticks)) if key is None else batch.column(key.column)
        table = pa.table({"tick": ticks, "key": names})
        for name, column in self._columns.items():
            value = pa.array(np.ones(len(ticks))) if column is None else batch.column(column)
            value = pc.cast(value, pa.float64())
            if name in self._gates:
                value = pc.if_else(self._gates[name].mask(batch), value, 0.0)
            table = table.append_column(name, value)
        wanted = [(name, "sum") for name in self._columns]
        for row in table.group_by(["tick", "key"]).aggregate(wanted).to_pylist():
            cell = self._totals.setdefault(row["tick"], {}).setdefault(row["key"], {})
            for name in self._columns:
                cell[name] = cell.get(name, 0.0) + (row[f"{name}_sum"] or 0.0)
        if len(ticks):
            self._tell(int(ticks.max()))

    def close(self) -> None:
        """Writes what is left."""
        self._tell(1 << 62)
        self._out.close()

    def _tell(self, before: int) -> None:
        """Writes the ticks that are over."""
        for tick in sorted(tick for tick in self._totals if tick < before):
            line = {"tick": tick, "totals": self._totals.pop(tick)}
            self._out.write(orjson.dumps(line).decode() + "\n")
        self._out.flush()
