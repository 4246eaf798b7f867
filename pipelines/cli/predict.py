"""``weir predict``: the options of the command line."""

from __future__ import annotations

from pathlib import Path

import click

from weir.pipelines.cli.base import AS_JSON, print_json


@click.command(short_help="Use released models on a file of events.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.argument("data", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--out",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write here (.parquet or .csv); without it beside DATA, as NAME.predicted.parquet.",
)
@click.option("--tick", type=click.IntRange(min=0), help="Models of this tick, not of the last.")
@AS_JSON
def predict(directory: Path, data: Path, out: Path | None, tick: int | None, as_json: bool) -> None:
    """Predict for every event of DATA with the models that a run released to DIRECTORY.

    DATA is CSV with a header, NDJSON, Parquet, Arrow or Avro, with the model's features and the
    columns of its key. It is written again with columns behind: predicted.TARGET, share.CLASS where
    there are classes, and predicted.tick. An event whose key has no model, or that lacks a feature,
    has nulls there. Where DATA has the target too, it says how good the predictions are.

    Models are releases: using them costs no budget. What is written holds your events.

    \b
      weir predict out/ new.parquet
      weir predict out/ new.csv --out scored.csv --tick 100
    """
    from weir.pipelines.predict import predict as command
    from weir.pipelines.predict.predict import lines

    target = data.with_name(f"{data.stem}.predicted.parquet") if out is None else out
    done = command.predict(directory, data, target, tick)
    if as_json:
        print_json(done.to_json())
        return
    for line in lines(done):
        click.echo(line)
