"""A synthetic stream that fits a config: the same synthetic events for the same seed, everywhere.

Nothing here looks at data, and nothing is private: values are a public hash of (seed, column, row).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from weir.dpcore.config.key import Key
from weir.dpcore.config.schema import ListColumn, TimeColumn
from weir.dpcore.config.section import nearest
from weir.dpcore.config.ticks import show_ticks
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.predictor import Predictor
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.feed.shape import Shape
from weir.transforms.decode.schema import EPOCH_MICROSECONDS, EventSchema

CHUNK = 1 << 16
LIST_NUMBERS = 50
"""Numbers of a list that are not 0, at most."""
USERS = 10_000
OPEN_TICKS = 100
"""Ticks that the events span when the clock has no end."""

_TEXTS = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Shares:
    """Which share of the events is spoiled on purpose: late, delivered twice, malformed."""

    late: float = 0.0
    duplicate: float = 0.0
    malformed: float = 0.0

    def __post_init__(self) -> None:
        for name in ("late", "duplicate", "malformed"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ConfigError(f"--{name}", value, "must be a share from 0 to 1, like 0.1.")


def uniforms(seed: int, column: str, rows: NDArray[np.uint64]) -> NDArray[np.float64]:
    """SplitMix64 hash of (seed, column, row) as numbers in (0, 1): rows (n,) -> (n,)."""
    salt = np.uint64(int.from_bytes(column.encode()[:64].ljust(8, b"\0"), "big") % (1 << 64))
    start = np.uint64((seed * 0x9E3779B97F4A7C15) % (1 << 64))
    with np.errstate(over="ignore"):
        z = (rows + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ start
        for add in (salt, np.uint64(0)):
            z = z + add
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z = z ^ (z >> np.uint64(31))
    return np.asarray(((z >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)


def batches(
    config: PlanConfig,
    events: int,
    seed: int,
    shares: Shares,
    now: int | None = None,
    first: int = 0,
    shape: Shape | None = None,
) -> Iterator[pa.RecordBatch]:
    """Events in the order of their delivery, in batches of at most 65,536 rows.

    Args:
      config: which columns to make.
      events: how many events, before duplicates are added.
      seed: of the hash.
      shares: how many are late or come twice. Malformed ones are made when they are written.
      now: microseconds since 1970 of all these events; None spreads them over the clock.
      first: number of the first event; no two events of a stream share a number.
      shape: what is known of sizes and values.

    Raises:
      ConfigError: the shape speaks of a column or key that the config has not.
    """
    shape = shape or Shape()
    _check_shape(config, shape)
    clock = config.release_clock
    length = clock.tick_start(clock.ticks or OPEN_TICKS) - clock.start
    keep: pa.RecordBatch | None = None
    for start in range(0, events, CHUNK):
        stop = min(events, start + CHUNK)
        rows = np.arange(first + start, first + stop, dtype=np.uint64)
        if now is None:
            place = (rows.astype(np.float64) + uniforms(seed, "@place", rows)) / events
            moments = clock.start + (place * length).astype(np.int64)
        else:
            moments = np.full(len(rows), now, dtype=np.int64)
        late = uniforms(seed, "@late", rows) < shares.late
        behind = clock.delay + 1 + (uniforms(seed, "@behind", rows) * clock.period).astype(np.int64)
        batch = _batch(
            config, seed, rows, moments, np.where(late, behind, 0), now is not None, shape
        )
        yield batch
        if shares.duplicate > 0:
            again = uniforms(seed, "@again", rows) < shares.duplicate
            repeated = batch.filter(pa.array(again))
            if keep is not None and keep.num_rows:
                yield keep
            keep = repeated
    if keep is not None and keep.num_rows:
        yield keep


def _batch(
    config: PlanConfig,
    seed: int,
    rows: NDArray[np.uint64],
    moments: NDArray[np.int64],
    behind: NDArray[np.int64],
    live: bool,
    shape: Shape,
) -> pa.RecordBatch:
    schema = config.schema_
    columns: dict[str, pa.Array] = {}
    event_times = moments - behind if live else moments
    if schema.time is not None:
        columns[schema.time.column] = write_times(event_times, schema.time)
    if schema.arrival is not None:
        columns[schema.arrival.column] = write_times(event_times + behind, schema.arrival)
    if schema.id is not None:
        columns[schema.id] = pa.array([f"e{seed:x}-{row:x}" for row in rows.tolist()])
    if schema.unit is not None and schema.unit not in columns:
        users = (uniforms(seed, schema.unit, rows) * (shape.users or USERS)).astype(np.int64)
        columns[schema.unit] = pa.array([f"u{user}" for user in users.tolist()])
    if config.key is not None:
        built = _keys(config.key, seed, rows, shape)
        columns.update({name: column for name, column in built.items() if name not in columns})
    gates = [one.where for one in config.aggregates.values()]
    asked = " ".join(text for text in (config.where, *gates) if text is not None)
    ranges = number_ranges(config)
    model = config.model
    explained = {} if model is None else targets(model, seed, rows)
    for name, some in ({} if model is None else model.declared).items():
        u = explained[name] if name in explained else uniforms(seed, name, rows)
        place = (u * len(some)).astype(int)
        columns[name] = pa.array([some[i] for i in place.tolist()])
    schema_of_events = EventSchema.from_config(config, tuple(ranges))
    if schema_of_events.listed is not None:
        listed = schema_of_events.listed
        columns |= made_lists(listed, *ranges[listed.name], seed, rows)
    for name, kind in schema_of_events.columns.items():
        if name in columns:
            continue
        u = explained[name] if name in explained else uniforms(seed, name, rows)
        if name in shape.values:
            columns[name] = pa.array(np.round(shape.values[name].values(u), 6))
        elif kind == "text":
            words = [one or two for one, two in _TEXTS.findall(asked)] + ["other"]
            columns[name] = pa.array([words[i] for i in (u * len(words)).astype(int)])
        elif kind == "boolean":
            columns[name] = pa.array(u < 0.5)
        else:
            columns[name] = pa.array(_values(u, *ranges.get(name, (0.0, 100.0))))
    return pa.RecordBatch.from_pydict(columns)


def _check_shape(config: PlanConfig, shape: Shape) -> None:
    """Raises where a shape speaks of what the config has not."""
    numbers = EventSchema.from_config(config, tuple(number_ranges(config))).columns
    for name in shape.values:
        if numbers.get(name) != "number":
            known = sorted(column for column, kind in numbers.items() if kind == "number")
            raise ConfigError(
                "like.values", name, f"is no column of numbers; {nearest(name, known)}"
            )
    if shape.keys is None:
        return
    if config.key is None:
        raise ConfigError("like.keys", list(shape.keys), "is not for a config without a key.")
    declared = config.key.texts
    for text in shape.keys:
        if declared is not None and text not in declared:
            raise ConfigError("like.keys", text, f"is no declared key; {nearest(text, declared)}")
        if len(config.key.names) != len(_parts(text, config.key)):
            item = json.dumps(list(config.key.names))
            raise ConfigError("like.keys", text, f"must have a value for each column, like {item}.")


def _parts(text: str, key: Key) -> list[str]:
    """The values of a key's columns, of its name in releases."""
    if len(key.names) == 1:
        return [text]
    try:
        result = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [str(item) for item in result] if isinstance(result, list) else []


def _keys(key: Key, seed: int, rows: NDArray[np.uint64], shape: Shape) -> dict[str, pa.Array]:
    """The columns of the key. The first keys are the busiest ones, as in life."""
    weights = None if shape.keys is None else np.cumsum(list(shape.keys.values()))

    def spread(names: Sequence[str], salt: str) -> pa.Array:
        u = uniforms(seed, salt, rows)
        if weights is None:
            spot = (u**2 * len(names)).astype(np.int32)
        else:
            spot = np.searchsorted(weights, u * weights[-1], side="right").astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(spot), pa.array(names)).cast(pa.string())

    if shape.keys is not None:
        parts = [_parts(text, key) for text in shape.keys]
        names = key.names
        return {
            name: spread([part[at] for part in parts], names[0]) for at, name in enumerate(names)
        }
    if key.declared is None:
        result = tuple(f"key-{i}" for i in range(10))
        return {column: spread(result, column) for column in key.names}
    # One draw for all columns: what is synthetic is one of the declared combinations.
    declared = [(item,) if isinstance(item, str) else item for item in key.declared]
    return {
        column: spread([values[at] for values in declared], key.names[0])
        for at, column in enumerate(key.names)
    }


def targets(model: Predictor, seed: int, rows: NDArray[np.uint64]) -> dict[str, Any]:
    """Uniform numbers (n,) of each target of a model, half of whose variance as a normal number is
    that of a sum of its features: so that there is something to learn."""
    own = model.features
    if model.listed is not None:
        count = min(LIST_NUMBERS, model.listed.size)
        own = tuple(f"{model.listed.name}/{j}" for j in range(count))
    law = np.zeros(len(rows))
    for at, name in enumerate(own):
        law += (-1.0) ** at * ndtri(uniforms(seed, name, rows))
    law /= math.sqrt(len(own))
    return {
        name: ndtr(math.sqrt(0.5) * (law + ndtri(uniforms(seed, name, rows))))
        for name in model.targets
    }


def made_lists(
    listed: ListColumn, low: float, high: float, seed: int, rows: NDArray[np.uint64]
) -> dict[str, pa.Array]:
    """Lists of numbers, few of which are not 0: as lists of all, or as places and numbers."""
    n, count = len(rows), min(LIST_NUMBERS, listed.size)
    at = np.empty((n, count), dtype=np.int64)
    value = np.empty((n, count))
    step = listed.size / count
    for j in range(count):
        # One place in each of as many stretches: none is there twice.
        first, stop = int(j * step), int((j + 1) * step)
        width = max(1, stop - first)
        at[:, j] = first + (uniforms(seed, f"{listed.name}/at/{j}", rows) * width).astype(np.int64)
        u = uniforms(seed, f"{listed.name}/{j}", rows)
        value[:, j] = np.round(low + (high - low) * u, 4)
    if listed.column is None:
        offsets = pa.array(np.arange(n + 1) * count, pa.int32())
        places = pa.ListArray.from_arrays(offsets, pa.array(at.ravel(), pa.int32()))
        numbers = pa.ListArray.from_arrays(offsets, pa.array(value.ravel()))
        return {listed.columns[0]: places, listed.columns[1]: numbers}
    table = np.zeros((n, listed.size))
    np.put_along_axis(table, at, value, axis=1)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(table.ravel()), listed.size)
    return {listed.name: fixed.cast(pa.list_(pa.float64()))}


def _values(u: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    """Skewed values, most in [low, high] and a few above, in cents."""
    return np.asarray(np.round(low + (high - low) * -np.log1p(-u) / 3, 2))


def number_ranges(config: PlanConfig) -> dict[str, tuple[float, float]]:
    """Columns that aggregates or a model read, each with the range of its public bounds."""
    results: dict[str, tuple[float, float]] = {}
    if config.model is not None:
        results = {name: (low, high) for name, (low, high) in config.model.ranges.items()}
    for aggregate in config.aggregates.values():
        if aggregate.column is None:
            continue
        bounds = aggregate.bounds or (0.0, 1.0)
        finite = [bound for bound in bounds if np.isfinite(bound)]
        results.setdefault(aggregate.column, (min(finite, default=0.0), max(finite, default=1.0)))
    return {name: (low, high if high > low else low + 1) for name, (low, high) in results.items()}


def write_times(moments: NDArray[np.int64], column: TimeColumn) -> pa.Array:
    """Microseconds since 1970 (n,) as the config says they are written."""
    if column.format in EPOCH_MICROSECONDS:
        return pa.array(moments / EPOCH_MICROSECONDS[column.format])
    stamps = pa.array(moments, type=_TIME)
    if column.format is None and column.zone in (None, "UTC"):
        return stamps
    if column.zone not in (None, "UTC"):
        stamps = stamps.cast(pa.timestamp("us", tz=column.zone))
    if column.format is None:
        return pc.strftime(stamps, format="%Y-%m-%dT%H:%M:%S")
    if ".%f" in column.format:  # Arrow's own %S writes the fraction
        return pc.strftime(stamps, format=column.format.replace("%S.%f", "%S"))
    return pc.strftime(stamps.cast(pa.timestamp("s", stamps.type.tz), False), format=column.format)


def describe(config: PlanConfig, events: int) -> str:
    """One line about what is made."""
    clock = config.release_clock
    if clock.once:
        return f"{events:,} events"
    over = show_ticks(clock, clock.ticks or OPEN_TICKS)
    return f"{events:,} events over {over}"
