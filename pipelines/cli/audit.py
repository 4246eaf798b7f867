"""``weir audit``: the options of an attack on a config's promise."""

from __future__ import annotations

from pathlib import Path

import click

from weir.dpcore.errors import WeirError
from weir.pipelines.cli.base import AS_JSON, CONFIG, SETS, print_json


@click.command(short_help="Attack the promise of a config, on made-up streams.")
@CONFIG
@SETS
@click.option(
    "--trials",
    type=click.IntRange(min=40),
    help="Trials of one run, half of them with the change.  [default: 20,000, or what fits]",
)
@click.option("--only", metavar="WHAT", help="Only audits whose name holds this, or `bytes`.")
@click.option(
    "--runner",
    type=click.Choice(["direct", "flink"]),
    default="direct",
    show_default=True,
    help="What runs the trials: direct over files, or flink, the live job over messages from a "
    "Pub/Sub server of this machine.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Ticks of adaptive streams whose event is chosen by earlier releases; each costs a run.",
)
@click.option("--ticks", type=click.IntRange(min=1), help="Length of the clock, where it is long.")
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw hits against false alarms into this file (.png, .svg, .pdf).",
)
@AS_JSON
def audit(
    config: Path,
    sets: tuple[str, ...],
    trials: int | None,
    only: str | None,
    runner: str,
    rounds: int,
    ticks: int | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Attack CONFIG: its complete output, from bytes to the sink.

    Thousands of keys carry copies of one small stream, half of them with one event (or user)
    changed where that moves most. What tells them apart is a lower bound of what the plan loses;
    it is printed beside the claim, for every row of the table of losses. Then streams are driven
    whose next event depends on what was released before. Another part writes
    records that are malformed in every way, and looks at what they move besides their own key.

    Source, sink and secret of CONFIG are not touched. Exit 1: a claim is broken.

    On flink the streams are fed as messages to the unbounded job, through a topic of their own on
    the server of PUBSUB_EMULATOR_HOST, or on one that is started for it (make pubsub flink).

    \b
      weir audit shop.yaml
      weir audit shop.yaml --trials 100000 --only "all releases"
      weir audit shop.yaml --only bytes
      weir audit stream.yaml --runner flink
      weir audit shop.yaml --json --picture audit.png
    """
    from weir.pipelines.audit.attack import attack
    from weir.pipelines.audit.picture import draw
    from weir.pipelines.cli.logs import discreet
    from weir.pipelines.config.job import load
    from weir.pipelines.show import audit as page
    from weir.pipelines.terminal import console

    job = load(config, sets)
    out = console(stderr=True)

    def told(text: str) -> None:
        if out.is_terminal:
            out.print(f"weir: {text}")

    debug = bool(click.get_current_context().find_root().params.get("debug"))
    with discreet(debug):
        report = attack(job, trials, only, runner, ticks, rounds=rounds, told=told)
    if picture is not None:
        draw(report, picture)
    if as_json:
        print_json(report.to_json())
    else:
        page.render(report, console())
    if report.broken:
        raise WeirError(f"a claim is broken: {'; '.join(report.broken)}.")
