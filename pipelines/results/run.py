"""A folder of results as a run left it: what was guaranteed, how far it came, and its rows.

Rows are read in batches, never all at once: 10,000 keys over 1,000 ticks are 10 million an output.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import ONCE
from weir.dpcore.leaves.keys import shown_key
from weir.dpcore.pricing.calibration import band_of
from weir.pipelines.results.files import (
    HELD_FOLDER,
    TYPES,
    ResultFile,
    Sizes,
    read_file,
    result_files,
)
from weir.pipelines.results.plan_file import Ruler
from weir.transforms.release.table import INTERVAL
from weir.transforms.runtime.files import SERVICES
from weir.transforms.sinks.place import as_written, json_in

SCALED, OWN = "theta", "coefficients"
"""What models release: scaled to the public ranges, and in the user's own units."""
ROLES = {SCALED: "scaled_model", OWN: "model"}
"""What they are taken for where no plan says it."""


@dataclass(frozen=True)
class ReleasedOutput:
    """One thing that is released: a name over a span.

    Attributes:
      name: as in the config. over: None = since the start, N = last N ticks.
      labels: of the components; ("",) for a single number.
      unit: of the values, for people; "" when not known.
      stddev_worst: from the plan, or NaN.
      role: as in ``dpcore.algorithm.Shown``. between: public bounds of the true value, as there.
      draws: label of the only component that is worth showing; "": all of them.
      reading: a sentence for who reads its picture, with {band} in it.
      interval: whether its margin of error is an interval of its own, as the plan says. additive:
        whether it has a standard deviation too.
      left_out: what public bounds keep out of it, as the plan says it. below: what must hold for
        the low end of its margin to lie below the true figure; None: it need not.
      part: the only component that is shown, of ``width``; None: all of them.
    """

    name: str
    over: int | None
    labels: tuple[str, ...] = ("",)
    unit: str = ""
    stddev_worst: float = math.nan
    role: str = "value"
    draws: str = ""
    reading: str = ""
    part: int | None = None
    width: int = 1
    between: tuple[float | None, float | None] = (None, None)
    left_out: str = ""
    below: str | None = None
    interval: bool = False
    additive: bool = True

    @property
    def is_model(self) -> bool:
        """Whether it is the coefficients of a model."""
        return self.role in ROLES.values()

    def shown(self) -> ReleasedOutput:
        """What a report shows of it: the component that is worth showing."""
        if self.draws not in self.labels or len(self.labels) == 1:
            return self
        part, width = self.labels.index(self.draws), len(self.labels)
        return replace(self, labels=("",), part=part, width=width)

    @property
    def span(self) -> str:
        """The span in words."""
        if self.over is None:
            return "since the start"
        return "each tick alone" if self.over == 1 else f"last {self.over:,} ticks"


@dataclass(frozen=True)
class ResultFolder:
    """A folder of results.

    Attributes:
      directory: where it is.
      plan: what ``_plan.json`` holds; {} when it is missing.
      complete: whether the run finished.
      files: in order of ticks.
    """

    directory: Path
    plan: Mapping[str, Any]
    complete: bool
    files: tuple[ResultFile, ...]

    @classmethod
    def open(cls, directory: Path | str) -> ResultFolder:
        """Looks at a folder; reads no rows.

        Raises:
          ConfigError: there is no such folder, or no results in it.
        """
        directory = Path(directory)
        if not directory.is_dir():
            remedy = "must be a folder that a run wrote to."
            if str(directory).partition(":/")[0] in SERVICES:  # pathlib has dropped a slash
                remedy = (
                    "lies in a bucket, and this reads folders of a disk. Copy it first: gcloud "
                    "storage cp -r, or aws s3 cp --recursive."
                )
            raise ConfigError("directory", str(directory), remedy)
        result = result_files(directory)
        plan_file = directory / "_plan.json"
        held = directory if directory.name == HELD_FOLDER else directory / HELD_FOLDER
        if (held == directory or not result) and result_files(held):
            raise ConfigError(
                "directory",
                str(directory),
                f"holds releases back in {held}: they are not published, and cost nothing as long "
                "as nobody sees them. A stopped run goes on with weir run CONFIG; one that "
                "refused too much is published with weir run CONFIG --publish.",
            )
        if not result:
            waiting = (
                "has no ticks yet; wait for its run to release some."
                if plan_file.exists()
                else ("holds no results; give the folder that `sink` names in the config.")
            )
            raise ConfigError("directory", str(directory), waiting)
        plan: Mapping[str, Any] = {}
        if plan_file.exists():
            stored = json_in(plan_file.read_bytes())
            if stored is None:
                raise ConfigError(
                    "directory", str(plan_file), "is not JSON; it was changed after the run."
                )
            plan = stored
        run = cls(directory, plan, (directory / "_COMPLETE").exists(), result)
        if plan:
            run._check_plan()
        return run

    def _check_plan(self) -> None:
        """Reads what commands read of the plan. Raises ConfigError where somebody edited it."""
        with as_written("directory", str(self.directory)):
            if self.plan.get("releases"):
                self.outputs  # noqa: B018 - kept for who asks next
            facts = (self.key_columns, self.groupings, self.once, self.band, self.ticks_planned)
            tuple((*facts, self.sizes, Ruler.of_plan(self.plan)))

    @property
    def name(self) -> str:
        """Name of the release."""
        return str(self.plan.get("name") or self._first_row["release"][0].as_py() or "")

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the key, by the plan; several make it a JSON array."""
        named = (self.plan.get("canonical") or {}).get("key")
        return (named,) if isinstance(named, str) else tuple(named or ())

    def values_of(self, key: str) -> tuple[str | None, ...]:
        """The values of a key of several columns; None: of a column that its grouping lacks.

        Raises:
          ConfigError: it is none, so that somebody changed the files.
        """
        with as_written("directory", str(self.directory)):
            values = json.loads(key)
            if len(values) != len(self.key_columns) or not isinstance(values, list):
                raise ValueError
            return tuple(values)

    def shown(self, key: str) -> str:
        """A key as people read it."""
        return shown_key(key) if len(self.key_columns) > 1 or self.groupings else key

    @property
    def groupings(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each of several groupings, by the plan; empty where there is one."""
        named = (self.plan.get("canonical") or {}).get("groups")
        return tuple(map(tuple, named or ()))

    @cached_property
    def is_empty(self) -> bool:
        """Whether there is not a single row: no key was live at any tick."""
        return not any(batch.num_rows for file in self.files for batch in read_file(file, ["tick"]))

    def _no_rows(self) -> ConfigError:
        result = (self.plan.get("canonical") or {}).get("discovery") is not None
        why = "; keys are found where enough users have them, as weir plan says" if result else ""
        return ConfigError(
            "directory",
            str(self.directory),
            f"holds no row to show: no key was live at any tick{why}.",
        )

    @cached_property
    def _first_row(self) -> pa.Table:
        columns = ["release", "tick", "tick_start", "tick_end", "epsilon", "delta", "window"]
        for file in self.files:
            for batch in read_file(file, columns):
                if batch.num_rows:
                    return pa.table(batch.slice(0, 1).columns, names=batch.schema.names)
        raise self._no_rows()

    @cached_property
    def once(self) -> bool:
        """Whether its plan has no clock: one release of all rows."""
        if self.plan:
            return bool((self.plan.get("clock") or {}).get("once"))
        return self._first_row["tick_start"][0].as_py() is None

    @cached_property
    def ruler(self) -> Ruler:
        """Where ticks lie in time."""
        calendar = Ruler.of_plan(self.plan)
        if calendar is not None:
            return calendar
        if self.once:
            return Ruler(ONCE.start, ONCE.period)
        row = self._first_row
        start, end = (
            int(pc.cast(row[c], pa.int64())[0].as_py()) for c in ("tick_start", "tick_end")
        )
        period = max(1, end - start)
        ruler = Ruler(start - int(row["tick"][0].as_py()) * period, period)
        if not self.plan and self._last_end != ruler.at(self.last_tick + 1):
            raise ConfigError(
                "directory",
                str(self.directory),
                "has no _plan.json, and its ticks differ in length: put that file back, which says "
                "of what calendar they are.",
            )
        return ruler

    @property
    def period(self) -> int:
        """Length of a tick in microseconds; about, where ticks are of the calendar."""
        return self.ruler.period

    @property
    def start(self) -> int:
        """First microsecond of tick 0, as ``tick_start``."""
        return self.ruler.start

    @property
    def promise(self) -> tuple[float, float, int | None]:
        """epsilon, delta, window as the rows themselves carry them."""
        row = self._first_row
        return row["epsilon"][0].as_py(), row["delta"][0].as_py(), row["window"][0].as_py()

    @property
    def band(self) -> float:
        """Half the width of a 95 % margin in standard deviations of the noise that the plan
        chose."""
        chosen = (item for item in self.plan.get("alternatives") or [] if item.get("chosen"))
        return band_of(next((item.get("noise") for item in chosen), "gaussian"))

    @property
    def ticks_planned(self) -> int | None:
        """How many ticks the clock has; None without end or without a plan."""
        ticks = self.plan.get("ticks")
        return int(ticks) if ticks else None

    @cached_property
    def last_tick(self) -> int:
        """Last tick that was released."""
        for file in reversed(self.files):
            last = -1
            for batch in read_file(file, ["tick"]):
                if batch.num_rows:
                    last = max(last, int(pc.max(batch["tick"]).as_py()))
            if last >= 0:
                return last
        return self.files[-1].last  # no key was live, and the tick was released

    @cached_property
    def first_tick(self) -> int:
        """First tick of which there is a row: before it no key was live."""
        for file in self.files:
            results = [
                int(pc.min(batch["tick"]).as_py())
                for batch in read_file(file, ["tick"])
                if batch.num_rows
            ]
            if results:
                return min(results)
        raise self._no_rows()

    def tick_start(self, tick: int) -> int:
        """First microsecond of a tick since 1970; on the clocks of its zone, if it has one."""
        return self.ruler.at(tick)

    @property
    def last_end(self) -> int:
        """The moment at which the last tick ended, in microseconds since 1970Z."""
        if self.ruler.calendar is None:  # of a plan without a clock nobody asks
            return self.tick_start(self.last_tick + 1)
        return self._last_end

    @cached_property
    def _last_end(self) -> int:
        """The same, from the rows."""
        for file in reversed(self.files):
            results = [
                int(pc.max(pc.cast(batch["tick_end"], pa.int64())).as_py())
                for batch in read_file(file, ["tick_end"])
                if batch.num_rows
            ]
            if results:
                return max(results)
        raise self._no_rows()

    @cached_property
    def outputs(self) -> tuple[ReleasedOutput, ...]:
        """What was released, in the plan's order; from the rows of the last tick without a plan."""
        listed = self.plan.get("releases")
        if listed:
            return tuple(output_of(item) for item in listed)
        seen: dict[tuple[str, int | None], int] = {}
        for batch in read_file(self.files[-1], ["tick", "name", "over", "value"]):
            latest = batch.filter(pc.equal(batch["tick"], self.last_tick))
            sizes = pc.list_value_length(latest["value"]).to_pylist()
            names, overs = latest["name"].to_pylist(), latest["over"].to_pylist()
            for name, over, size in zip(names, overs, sizes, strict=True):
                seen.setdefault((name, over), size or 1)
        return tuple(
            output_of({"name": name, "over": over, "dimension": size})
            for (name, over), size in seen.items()
        )

    @property
    def sizes(self) -> Sizes:
        """Coordinates of the vectors that may be written without their zeros, by the plan."""
        results = {}
        for item in self.plan.get("releases") or []:
            if item.get("sparse"):
                entry = output_of(item)
                results[entry.name, entry.over] = len(entry.labels)
        return results

    @property
    def interval_columns(self) -> tuple[str, ...]:
        """Columns of the ends of margins, where one of them is an interval of its own."""
        return INTERVAL if any(output.interval for output in self.outputs) else ()

    def batches(self, columns: Sequence[str], first: int = 0) -> Iterator[pa.RecordBatch]:
        """All rows from tick ``first`` on, in batches of at most about a million."""
        for file in self.files:
            if file.last >= first:
                yield from read_file(file, columns, self.sizes)

    def table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Everything at once; for small runs and notebooks."""
        names = list(columns or TYPES)
        batches = [
            pa.RecordBatch.from_arrays(
                [pc.cast(batch[name], TYPES[name]) for name in names], names=names
            )
            for batch in self.batches(names)
        ]
        return pa.Table.from_batches(batches, pa.schema([(name, TYPES[name]) for name in names]))


def output_of(item: Mapping[str, Any]) -> ReleasedOutput:
    """An entry of the plan's ``releases`` -> Output."""
    size = int(item.get("dimension") or 1)
    labels = tuple(str(label) for label in item.get("labels") or ())
    if len(labels) != size:
        labels = ("",) if size == 1 else tuple(str(i + 1) for i in range(size))
    worst = item.get("stddev_worst")
    over = item.get("over")
    name = str(item["name"])
    low, high = item.get("between") or (None, None)
    role = str(item.get("role") or ROLES.get(name, "value"))
    return ReleasedOutput(
        name=name,
        over=None if over in (None, "all") else int(over),
        labels=labels,
        unit=str(item.get("unit") or ""),
        stddev_worst=float(worst) if isinstance(worst, (int, float)) else math.nan,
        role=role,
        draws=str(item.get("part") or ""),
        reading=str(item.get("reading") or ""),
        between=(None if low is None else float(low), None if high is None else float(high)),
        left_out=". ".join(str(item[k]) for k in ("left_out", "caveat") if item.get(k)),
        below=None if item.get("below") is None else str(item["below"]),
        interval=bool(item.get("interval")),
        additive=bool(item.get("additive", not item.get("interval"))),
    )
