"""``weir predict``: a file of events and the models of a run -> the file with predictions.

A model is a release: using it costs nothing, whatever the events are. What is written holds the
events themselves, and is as private as they are.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from weir.dpcore.errors import ConfigError
from weir.dpcore.models.predictor import Predictor
from weir.pipelines.predict.models import Models, models_at
from weir.pipelines.predict.tally import Tally
from weir.pipelines.results.events import features_of, keys_of, tables, without_numbers
from weir.pipelines.results.plan_file import model_of
from weir.pipelines.results.run import ResultFolder

TICK = "predicted.tick"
WRITERS = {".parquet": pq.ParquetWriter, ".csv": pyarrow.csv.CSVWriter}


@dataclass(frozen=True)
class Done:
    """What was predicted. out: the file. tick: of the models. tally: of its events."""

    out: Path
    tick: int
    tally: Tally

    def to_json(self) -> dict[str, Any]:
        """For ``weir predict --json``."""
        tally = self.tally
        return {
            "out": str(self.out),
            "tick": self.tick,
            "events": tally.events,
            "predicted": tally.predicted,
            "no_model": tally.no_model,
            "no_features": tally.no_features,
            "accuracy": tally.accuracy,
            "r2": tally.r2(),
        }


def predict(directory: Path, data: Path, out: Path, tick: int | None) -> Done:
    """Predicts for every event of a file with the model of its key.

    Args:
      directory: results of a run with a model. data: CSV with a header, NDJSON, Parquet, Arrow or
        Avro, with the features and the columns of the key. out: a Parquet or CSV file that is not
        there yet.
      tick: whose models; None: the last that was released.

    Raises:
      ConfigError: a run without models, a file that cannot be read or written, a column that is
        missing or taken, a tick that was not released.
    """
    run = ResultFolder.open(directory)
    model = predictor(run)
    if out.suffix.lower() not in WRITERS:
        raise ConfigError("--out", str(out), f"must end in one of {', '.join(WRITERS)}.")
    if out.exists():
        raise ConfigError("--out", str(out), "exists already; choose another name.")
    at = run.last_tick if tick is None else tick
    if not run.first_tick <= at <= run.last_tick:
        raise ConfigError(
            "--tick", at, f"was not released: ticks are {run.first_tick:,} to {run.last_tick:,}."
        )
    models = models_at(run, model.predicts_by, at)
    if not models:
        raise ConfigError("--tick", at, "has no model yet; take a later tick.")
    tally = Tally()
    wanted = list(dict.fromkeys((*model.sources, *run.key_columns)))
    with _whole(out) as part, contextlib.ExitStack() as open_files:
        writer: Any = None
        numeric = (*model.sources, *model.targets)
        for table in tables(data, wanted, "DATA", model.listed, numeric):
            made = predictions(table, run, model, models, at, tally)
            if writer is None:
                make = WRITERS[out.suffix.lower()]
                writer = open_files.enter_context(make(str(part), made.schema))
            writer.write_table(made)
    return Done(out, at, tally)


def predictor(run: ResultFolder) -> Predictor:
    """The model's section of a run.

    Raises:
      ConfigError: the run has no model.
    """
    model = model_of(run.plan)
    if model is not None:
        return model
    raise ConfigError(
        "directory", str(run.directory), "is of no use here: this run released no models."
    )


def predictions(
    table: pa.Table, run: ResultFolder, model: Predictor, models: Models, tick: int, tally: Tally
) -> pa.Table:
    """Events with a column for each thing predicted, and the tick of the model; null without one.

    Raises:
      ConfigError: a column of that name is there, or a feature holds no numbers.
    """
    n, given = len(table), features_of(table, model, "DATA")
    keys = keys_of(table, run.key_columns)
    void = without_numbers(given)
    # Made with any model, so that the columns are there where no key has one.
    trial = model.predict({name: one[:0] for name, one in given.items()}, _any(models))
    filled = {
        name: np.full(n, -1 if one.dtype.kind == "i" else np.nan, dtype=one.dtype)
        for name, one in trial.columns.items()
    }
    known = np.zeros(n, dtype=bool)
    for key in dict.fromkeys(keys.tolist()):
        if key not in models:
            continue
        mine = np.flatnonzero(keys == key) if run.key_columns else np.arange(n)
        known[mine] = True
        found = model.predict({name: one[mine] for name, one in given.items()}, models[key])
        for name, values in found.columns.items():
            filled[name][mine] = values
    tally.events += n
    tally.no_model += int(np.count_nonzero(~known))
    tally.no_features += int(np.count_nonzero(known & void))
    arrays: dict[str, pa.Array] = {}
    for place, (name, values) in enumerate(filled.items()):
        if place == 0 and trial.classes:
            arrays[name] = pa.array(list(trial.classes)).take(pa.array(values, mask=values < 0))
            tally.classes(table, model.targets[0], arrays[name], trial.classes)
        else:
            arrays[name] = pa.array(values, mask=np.isnan(values))
            target = name.removeprefix("predicted.")
            if target in trial.ends:
                tally.labels(table, target, values, trial.ends[target])
            elif target in model.targets:
                tally.values(table, target, values)
    arrays[TICK] = pa.array(np.full(n, tick), mask=~known | void)
    for name, array in arrays.items():
        if name in table.schema.names:
            raise ConfigError("DATA", name, "is a column already; rename it.")
        table = table.append_column(name, array)
    return table


def _any(models: Models) -> Any:
    return next(iter(models.values()))


@contextlib.contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """A file beside ``out`` that takes its place once it is whole."""
    part = out.with_name(f".{out.name}.part")
    try:
        yield part
        os.replace(part, out)
    except OSError as error:
        raise ConfigError("--out", str(out), f"cannot be written: {error.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)
