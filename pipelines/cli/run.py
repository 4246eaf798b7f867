"""``weir run`` and ``weir predict``."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from weir.dpcore.errors import ConfigError
from weir.pipelines.cli.base import AS_JSON, CONFIG, SETS, print_json

LOG_FORMATS = ("text", "json")
_log = logging.getLogger(__name__)


@click.command(
    short_help="Read the events and write the releases.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog="Options that are not listed here go to Beam, like --checkpointing_interval=10000.",
)
@CONFIG
@click.option(
    "--runner",
    type=click.Choice(["local", "direct", "prism", "flink", "dataflow"], case_sensitive=False),
    default="local",
    show_default=True,
    help="Where it runs: local for files, prism for a stream on a laptop. All but local and direct "
    "(Beam in this process) need a secret.",
)
@click.option(
    "--secret-file",
    type=click.Path(dir_okay=False),
    help="File with the secret; overrides `secret` in the config.",
)
@SETS
@click.option(
    "--flink-master",
    "--flink_master",
    "flink_master",
    metavar="HOST:PORT",
    help="Flink's REST interface; without it a Flink inside this process.",
)
@click.option("--parallelism", type=click.IntRange(min=1), help="Workers on Flink.")
@click.option(
    "--resume",
    is_flag=False,
    flag_value="latest",
    metavar="[latest|PLACE]",
    help="Go on from the latest checkpoint or savepoint, or from the one named (on Flink).",
)
@click.option(
    "--rewind",
    metavar="SNAPSHOT",
    help="With --resume PLACE: take the subscription back to this snapshot of Pub/Sub, made right "
    "before that savepoint.",
)
@click.option("--detach", is_flag=True, help="Return once the job runs on its cluster and is safe.")
@click.option(
    "--flink-job-server-jar",
    "--flink_job_server_jar",
    "jar",
    metavar="JAR",
    help="Flink's job server; without it the one that `make flink` installed.",
)
@click.option(
    "--dry-run", is_flag=True, help="Print the complete request for Dataflow; send nothing."
)
@click.option(
    "--publish",
    is_flag=True,
    help="Publish what a run over files held back because too much of it was rejected or a file "
    "was damaged. Reads no data.",
)
@click.option(
    "--new",
    is_flag=True,
    help="If the sink's folder is taken, write next to it: OUT-2, OUT-3 and so on. Says what that "
    "costs.",
)
@click.option(
    "--wide",
    is_flag=True,
    help="A row for each key and tick, with one column per release: on stdout where that is the "
    "sink, else in the summary.",
)
@AS_JSON
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default="text",
    show_default=True,
    help="json: one object a line on stderr, for log collectors.",
)
@click.argument("beam", nargs=-1, type=click.UNPROCESSED, metavar="[BEAM OPTIONS]...")
def run(
    config: Path,
    runner: str,
    secret_file: str | None,
    sets: tuple[str, ...],
    flink_master: str | None,
    parallelism: int | None,
    resume: str | None,
    rewind: str | None,
    detach: bool,
    jar: str | None,
    dry_run: bool,
    publish: bool,
    new: bool,
    wide: bool,
    as_json: bool,
    log_format: str,
    beam: tuple[str, ...],
) -> None:
    """Run CONFIG: read its events and write its releases.

    A run over files is published when it is over, unless more of its records were rejected than
    limits.refused allows, or a file was damaged: then it exits with 1, and --publish moves its
    releases into place. What was rejected of a run that is published is a note on stderr. One
    that was stopped goes on when it is started again with the same secret; a stream on Flink goes
    on with --resume. Ctrl-C stops a stream on Flink with a savepoint. Without a secret the local
    engine draws a fresh one and says so. Make one with:

    \b
      openssl rand -hex 32 > secret.key && chmod 600 secret.key

    \b
      weir run shop.yaml
      weir run shop.yaml --secret-file secret.key --set sink.parquet=out2/
      weir run shop.yaml --publish
      weir run stream.yaml --runner prism
      weir run stream.yaml --runner flink --flink-master localhost:8081 --detach
      weir run stream.yaml --runner flink --flink-master localhost:8081 --resume latest
    """
    from weir.pipelines.cli.base import discreet, loudness
    from weir.pipelines.config.job import load
    from weir.pipelines.graph.parts import parts_of
    from weir.pipelines.run import run as command
    from weir.pipelines.runners.options import EMBEDDED, FlinkTarget
    from weir.pipelines.show import summary

    runner = runner.lower()
    argument = {
        "--flink-master": flink_master,
        "--parallelism": parallelism,
        "--resume": resume,
        "--rewind": rewind,
        "--detach": detach or None,
        "--flink-job-server-jar": jar,
    }
    for name, value in argument.items():
        if value is not None and runner != "flink":
            raise ConfigError(name, value, f"is for --runner flink, not for {runner}.")
    if publish and (new or resume is not None or detach or dry_run):
        raise ConfigError("--publish", True, "runs nothing: leave out the options of a run.")
    if dry_run and runner != "dataflow":
        raise ConfigError("--dry-run", True, f"is for --runner dataflow, not for {runner}.")
    root = click.get_current_context().find_root()
    with discreet(bool(root.params.get("debug")), log_format, loudness(root)):
        # Worker processes of Flink have a working folder of their own.
        job = load(Path(config).absolute() if runner == "flink" else config, sets)
        if wide:
            job = job.widened()
        parts = parts_of(job, None if publish else runner, secret_file, look=not dry_run)
        if dry_run:
            from weir.pipelines.runners.dataflow import dry_run as request
            from weir.pipelines.runners.pipeline import pipeline_for

            print_json(request(pipeline_for(parts, runner, beam, dry=True)))
            return
        if publish:
            from weir.pipelines.run.publish import publish as move

            result = move(parts)
        else:
            for doubt in parts.plan.doubts if parts.plan.config.model is not None else ():
                _log.warning(doubt)
            target = FlinkTarget(flink_master or EMBEDDED, parallelism, resume, detach, jar, rewind)
            result = command.run(parts, runner, list(beam), target, new=new)
        note = summary.lossy(result, job.limits.refused)
        if note is not None:
            _log.warning(note)
    from weir.pipelines.terminal import console

    if as_json:
        print_json(result.to_json())
    elif not root.params.get("quiet"):
        summary.render(result, console(wide=wide), wide=wide)
    if result.fails:
        raise summary.failure(result)


@click.command(short_help="Use released models on a file of events.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.argument("data", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--out",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write here; its ending says the format.  [default: NAME.predicted.parquet next to DATA]",
)
@click.option("--tick", type=click.IntRange(min=0), help="Models of this tick, not of the last.")
@AS_JSON
def predict(directory: Path, data: Path, out: Path | None, tick: int | None, as_json: bool) -> None:
    """Predict for every event of DATA with the models that a run released to DIRECTORY.

    DATA is CSV with a header, NDJSON, Parquet, Arrow or Avro, with the model's features and the
    columns of its key. The copy has these columns appended: predicted.TARGET, share.CLASS where
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
