"""``weir predict``: the released models of a run on the events of a file."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.prediction import labels_of
from weir.dpcore.models.predictor import Predictor
from weir.pipelines.predict.shares import ShareTally
from weir.pipelines.results.events import features_of, keys_of, numbers, tables, without_numbers
from weir.pipelines.results.models import Models, models_at
from weir.pipelines.results.plan_file import model_of
from weir.pipelines.results.run import ResultFolder
from weir.transforms.formats.registry import format_of, suffixes


@dataclass
class Tally:
    """Counts of a file so far.

    Attributes:
      events: all. no_model: of keys without a model. no_features: that lack a feature.
      known, right: of predicted events those whose class is known, and those where it is right.
      options: classes; 0: numbers are predicted. shares: log loss and calibration.
      squares: target -> (n, sum of errors^2, sum of y, sum of y^2), y moved by the first of them.
      middles: target -> the middle of its public range.
    """

    events: int = 0
    no_model: int = 0
    no_features: int = 0
    known: int = 0
    right: int = 0
    options: int = 0
    shares: ShareTally = field(default_factory=ShareTally)
    middles: dict[str, float] = field(default_factory=dict)
    squares: dict[str, Floats] = field(default_factory=dict)
    _origin: dict[str, float] = field(default_factory=dict)

    @property
    def predicted(self) -> int:
        """Events with a prediction."""
        return self.events - self.no_model - self.no_features

    @property
    def accuracy(self) -> float | None:
        """Share of right classes; None where no class is known."""
        return self.right / self.known if self.known else None

    @property
    def guessed(self) -> float | None:
        """That of a guess among classes."""
        return 1 / self.options if self.known else None

    def r2_of_middle(self) -> dict[str, float]:
        """Target -> that of a public constant, the middle of its range."""
        results = {}
        for name in self.r2():
            (n, _, total, square), origin = self.squares[name], self._origin[name]
            if name in self.middles:
                middle = self.middles[name] - origin
                error = square - 2 * middle * total + n * middle * middle
                results[name] = 1 - error / (square - total * total / n)
        return results

    def r2(self) -> dict[str, float]:
        """Target -> 1 - squared error / spread, of those that vary."""
        results = {}
        for name, (n, error, total, square) in self.squares.items():
            spread = square - total * total / max(n, 1.0)
            if n >= 2 and spread > 0:
                results[name] = 1 - error / spread
        return results

    def classes(
        self,
        table: pa.Table,
        target: str,
        predicted: pa.Array,
        classes: Sequence[Any],
        shares: Floats | None,
    ) -> None:
        """Compares classes with a column of the file, where it has one of them.

        Args:
          shares: (n, classes); None: the loss has none.
        """
        if target not in table.schema.names:
            return
        actual = table[target].combine_chunks()
        try:
            actual = pc.cast(actual, predicted.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return
        declared = pc.is_in(actual, pa.array(list(classes), predicted.type))
        both = pc.and_(declared, pc.is_valid(predicted))
        self.options = len(classes)
        if shares is not None:
            places = pc.index_in(actual, pa.array(list(classes), predicted.type))
            self.shares.add(shares, pc.fill_null(places, -1).to_numpy().astype(np.int64))
        self.known += int(pc.sum(both).as_py() or 0)
        self.right += int(pc.sum(pc.equal(actual, predicted)).as_py() or 0)

    def labels(
        self,
        table: pa.Table,
        target: str,
        predicted: NDArray[Any],
        ends: tuple[float, float],
        upper: Floats | None,
    ) -> None:
        """Compares labels with a column of numbers, where the file has one: which half of its range
        each lies in is its class, as the loss reads it. upper: (n,) shares of the upper one."""
        if target not in table.schema.names:
            return
        actual = numbers(table, target, "DATA")
        both = np.isfinite(actual) & np.isfinite(predicted)
        self.known += int(both.sum())
        self.right += int(np.sum(predicted[both] == labels_of(actual[both], ends)))
        self.options = 2
        if upper is not None:
            places = np.where(both, labels_of(actual, ends) == ends[1], -1).astype(np.int64)
            self.shares.add(np.stack([1 - upper, upper], axis=1), places)

    def values(self, table: pa.Table, target: str, predicted: NDArray[Any]) -> None:
        """Compares numbers with a column of the file, where it has one."""
        if target not in table.schema.names:
            return
        actual = numbers(table, target, "DATA")
        fine = np.isfinite(actual) & np.isfinite(predicted)
        if not fine.any():
            return
        origin = self._origin.setdefault(target, float(actual[fine][0]))
        y, error = actual[fine] - origin, actual[fine] - predicted[fine]
        sums = [fine.sum(), math.fsum(error * error), math.fsum(y), math.fsum(y * y)]
        self.squares[target] = self.squares.get(target, np.zeros(4)) + np.asarray(sums, dtype=float)


TICK = "predicted.tick"


@dataclass(frozen=True)
class PredictionSummary:
    """What was predicted. out: the file. tick: of the models; None: their plan has no clock. tally:
    of its events."""

    out: Path
    tick: int | None
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
            "log_loss": tally.shares.log_loss,
            "calibration": {
                "error": tally.shares.calibration_error,
                "bins": tally.shares.table(),
            },
            "baseline": {
                "accuracy": tally.guessed,
                "log_loss": tally.shares.guess,
                "r2": tally.r2_of_middle(),
            },
        }


def predict(directory: Path, data: Path, out: Path, tick: int | None) -> PredictionSummary:
    """Predicts for every event of a file with the model of its key.

    Args:
      directory: results of a run with a model. data: CSV with a header, NDJSON, Parquet, Arrow or
        Avro, with the features and the columns of the key. out: a file that is not there yet, of
        any format.
      tick: whose models; None: the last that was released.

    Raises:
      ConfigError: a run without models, a file that cannot be read or written, a column that is
        missing or taken, a tick that was not released.
    """
    run = ResultFolder.open(directory)
    model = predictor(run)
    form = format_of(out)
    if form is None:
        raise ConfigError("--out", str(out), f"must end in one of {suffixes()}.")
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
    with _whole(out) as part, part.open("wb") as file:
        writer = form.writer(file)
        numeric = (*model.sources, *model.targets)
        for table in tables(data, wanted, "DATA", model.listed, numeric):
            built = predictions(table, run, model, models, at, tally).combine_chunks()
            for batch in built.to_batches() or [pa.RecordBatch.from_pylist([], built.schema)]:
                writer.write(batch)
        writer.close()
    return PredictionSummary(out, None if run.once else at, tally)


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
    n, value = len(table), features_of(table, model, "DATA")
    keys = keys_of(table, run.key_columns)
    void = without_numbers(value)
    # Made with any model, so that the columns are there where no key has one.
    trial = model.predict({name: item[:0] for name, item in value.items()}, _any(models))
    filled = {
        name: np.full(n, -1 if column.dtype.kind == "i" else np.nan, dtype=column.dtype)
        for name, column in trial.columns.items()
    }
    known = np.zeros(n, dtype=bool)
    for key in dict.fromkeys(keys.tolist()):
        if key not in models:
            continue
        mine = np.flatnonzero(keys == key) if run.key_columns else np.arange(n)
        known[mine] = True
        result = model.predict({name: item[mine] for name, item in value.items()}, models[key])
        for name, values in result.columns.items():
            filled[name][mine] = values
    tally.events += n
    tally.no_model += int(np.count_nonzero(~known))
    tally.no_features += int(np.count_nonzero(known & void))
    arrays: dict[str, pa.Array] = {}
    for place, (name, values) in enumerate(filled.items()):
        if place == 0 and trial.classes:
            arrays[name] = pa.array(list(trial.classes)).take(pa.array(values, mask=values < 0))
            own = _shares(filled, len(trial.classes))
            tally.classes(table, model.targets[0], arrays[name], trial.classes, own)
        else:
            arrays[name] = pa.array(values, mask=np.isnan(values))
            target = name.removeprefix("predicted.")
            if target in trial.ends:
                upper = filled.get(f"share.{trial.ends[target][1]:g}")
                tally.labels(table, target, values, trial.ends[target], upper)
            elif target in model.targets:
                low, high = model.public_ranges[target]
                tally.middles[target] = (low + high) / 2
                tally.values(table, target, values)
    arrays[TICK] = pa.array(np.full(n, tick), mask=~known | void | run.once)
    for name, array in arrays.items():
        if name in table.schema.names:
            raise ConfigError("DATA", name, "is a column already; rename it.")
        table = table.append_column(name, array)
    return table


def _shares(filled: dict[str, NDArray[Any]], classes: int) -> Floats | None:
    """(n, classes), where the loss has shares; None too where two classes are spelled alike."""
    some = [values for name, values in filled.items() if name.startswith("share.")]
    return np.stack(some, axis=1) if len(some) == classes else None


def _any(models: Models) -> Any:
    return next(iter(models.values()))


@contextlib.contextmanager
def _whole(out: Path) -> Iterator[Path]:
    """A file next to ``out`` that takes its place once it is whole."""
    part = out.with_name(f".{out.name}.part")
    try:
        yield part
        os.replace(part, out)
    except OSError as error:
        raise ConfigError("--out", str(out), f"cannot be written: {error.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)


def lines(done: PredictionSummary) -> Iterator[str]:
    """A line for each fact."""
    tally = done.tally
    yield f"{done.out}: {tally.predicted:,} of {tally.events:,} events"
    if done.tick is not None:
        yield f"  with models of tick {done.tick:,}"
    if tally.no_model:
        yield f"  {tally.no_model:,} of keys without a model"
    if tally.no_features:
        yield f"  {tally.no_features:,} that lack a feature"
    if tally.accuracy is not None:
        yield (
            f"  {tally.accuracy:.2%} of {tally.known:,} known classes are right "
            f"(a guess: {tally.guessed:.2%})"
        )
    if tally.shares.log_loss is not None:
        yield (
            f"  log loss {tally.shares.log_loss:.4f} (equal shares: {tally.shares.guess:.4f}), "
            f"calibration error {tally.shares.calibration_error:.4f}"
        )
    middles = tally.r2_of_middle()
    for target, value in tally.r2().items():
        middle = f" (the middle of its range: {middles[target]:.4f})" if target in middles else ""
        yield f"  R² of {target}: {value:.4f}{middle}"
