"""``weir rehearse``, ``weir advise``, ``weir audit``: dry runs of a config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from weir.dpcore.errors import ConfigError, WeirError
from weir.pipelines.cli.base import AS_JSON, CONFIG, SETS, print_json


@click.command(short_help="Run a config on synthetic or public events, and show how far it errs.")
@CONFIG
@SETS
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="A new folder for the releases.  [default: one among the temporary files]",
)
@click.option(
    "--on",
    metavar="FILES",
    help="Public events (a file, folder or glob) instead of synthetic ones. The files of the "
    "source are refused, and what holds the same.",
)
@click.option(
    "--like",
    type=click.Path(dir_okay=False, path_type=Path),
    help="YAML with what is known in public of synthetic events: events or keys, users, values.",
)
@click.option(
    "--within",
    type=float,
    default=0.2,
    show_default=True,
    help="An output is useful if 19 of 20 of its values err by this share of their size, or less.",
)
@click.option(
    "--events",
    type=click.IntRange(min=1),
    help="How many to make up.  [default: by --like or expect, else 10,000]",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--late", type=float, default=0.0, help="Share of late events, like 0.1.")
@click.option("--duplicate", type=float, default=0.0, help="Share of events that come twice.")
@click.option("--malformed", type=float, default=0.0, help="Share of unreadable records.")
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw errors under other epsilons and longer ticks into this file (.png, .svg, .pdf).",
)
@click.option("--wide", is_flag=True, help="Summary with one column per release.")
@AS_JSON
def rehearse(
    config: Path,
    sets: tuple[str, ...],
    out: Path | None,
    on: str | None,
    like: Path | None,
    within: float,
    events: int | None,
    seed: int,
    late: float,
    duplicate: float,
    malformed: float,
    picture: Path | None,
    wide: bool,
    as_json: bool,
) -> None:
    """Run CONFIG on synthetic or public events, before any real one, and compare with the truth.

    Neither the source nor the secret of CONFIG is touched, and no budget is spent: a run over known
    events under the real secret would give the real noise away. For each output: how far it lies
    off the truth, how much of that is noise and how much the clip and the caps, whether it is
    useful, and what would make it so.

    \b
      weir rehearse shop.yaml
      weir rehearse shop.yaml --on last-years-public.csv --picture errors.png
      weir rehearse shop.yaml --like counts.yaml --within 0.05
      weir rehearse shop.yaml --events 1000000 --late 0.01 --malformed 0.001 --out dry run/
    """
    from weir.pipelines import vega
    from weir.pipelines.cli.base import discreet
    from weir.pipelines.config.job import load
    from weir.pipelines.feed.shape import Shape, load_shape
    from weir.pipelines.feed.synthetic import Shares
    from weir.pipelines.rehearse.explore import chart
    from weir.pipelines.rehearse.rehearse import SyntheticEvents
    from weir.pipelines.rehearse.rehearse import rehearse as command
    from weir.pipelines.show import rehearsal, summary
    from weir.pipelines.terminal import console

    job = load(config, sets)
    shares = Shares(late, duplicate, malformed)
    if on is not None:
        built = {"--like": like, "--events": events, "--late": late, "--duplicate": duplicate,
                "--malformed": malformed}  # fmt: skip
        for name, value in built.items():
            if value:
                raise ConfigError(
                    name, str(value), "is of synthetic events, and --on names others: leave one."
                )
    shape = Shape() if like is None else load_shape(like)
    if picture is not None:
        vega.check(picture)
    debug = bool(click.get_current_context().find_root().params.get("debug"))
    with discreet(debug):
        result = command(job, out, SyntheticEvents(events, seed, shares, shape), on, within)
    drawn = None
    if picture is not None and result.grid is not None and result.grid.shares:
        drawn = vega.save(chart(result.grid, result.result.plan.name, result.within), picture)
    if as_json:
        print_json(result.to_json() | ({} if drawn is None else {"picture": str(drawn)}))
    else:
        shown = console(wide=wide)
        summary.render(result.result, shown, wide=wide)
        rehearsal.render(result, shown)
        if drawn is not None:
            click.echo(f"  drew {drawn}")
    if result.result.fails:
        raise summary.failure(result.result)


@click.command(short_help="Say what would make outputs exact enough. Reads no data.")
@CONFIG
@SETS
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="TEXT",
    help='How exact an output has to be, like "total: 5% of 2000 a day" or "basket: 0.5". May be '
    "repeated: all of them are to be reached.",
)
@AS_JSON
def advise(config: Path, sets: tuple[str, ...], targets: tuple[str, ...], as_json: bool) -> None:
    """Say which epsilon, period or outputs make CONFIG as exact as the targets ask.

    Makes and prices plans, and nothing else: no data are read and no budget is spent. A target
    names an output, its span where it has several, and half of its 95 % margin: a number in its own
    unit, or a share of a value that you know. Behind it may stand "a day" or "per 12h": then the
    number is of such a time, and longer ticks have more of it. Exits with 1 where nothing reaches
    all targets.

    \b
      weir advise shop.yaml --target "purchases over 7: 5% of 2000"
      weir advise shop.yaml --target "total: 5% of 2000 a day" --target "basket: 0.5" --json
    """
    from weir.pipelines.config.job import load
    from weir.pipelines.rehearse.remedies import advise as command
    from weir.pipelines.show.rehearsal import render_advice as render
    from weir.pipelines.terminal import console

    result = command(load(config, sets).plan_config(), targets)
    if as_json:
        print_json(result.to_json())
    else:
        render(result, console())
    if not result.reached:
        click.get_current_context().exit(1)


def refuse_with_replay(**options: Any) -> None:
    """Raises ConfigError for an option that a replay does not take."""
    for name, value in options.items():
        if value:
            raise ConfigError(
                f"--{name}", str(value), "does not go with --replay. Leave one of the two out."
            )


@click.command(short_help="Attack the guarantee of a config, on synthetic streams.")
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
    type=click.Choice(["local", "direct", "flink"]),
    default="local",
    show_default=True,
    help="What runs the trials: local or direct over files, or flink, the live job over messages "
    "from a Pub/Sub server of this machine.",
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
    "--replay",
    is_flag=True,
    help="Compare what noise primitives are given with what they pay for, on neighbouring streams "
    "under the same answers. --trials is then the number of pairs.  [default: 120]",
)
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
    replay: bool,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Attack CONFIG: its complete output, from bytes to the sink.

    Thousands of keys carry copies of one small stream, half of them with one event (or user)
    changed where that moves most. How well they can be distinguished is a lower bound of the
    privacy loss; it is printed next to the claim, for every row of the table of losses. Then
    streams are driven whose next event depends on what was released before. Another part writes
    records that are malformed in every way, and looks at what they move of other keys.

    Source, sink and secret of CONFIG are not touched. Exit 1: a claim is broken.

    On flink the streams are fed as messages to the unbounded job, through a topic of their own on
    the server of PUBSUB_EMULATOR_HOST, or on one that is started for it (make pubsub flink).

    With --replay nothing is attacked. Every call of a noise primitive is recorded in one run and
    gives the same answer in the run of a neighbour. What differs in its input is compared with the
    sensitivity that was paid for, and all calls together with the claim.

    \b
      weir audit shop.yaml
      weir audit shop.yaml --replay
      weir audit shop.yaml --trials 100000 --only "all releases"
      weir audit shop.yaml --only bytes
      weir audit stream.yaml --runner flink
      weir audit shop.yaml --json --picture audit.png
    """
    from weir.pipelines import vega
    from weir.pipelines.audit.attack import attack, chart
    from weir.pipelines.cli.base import discreet
    from weir.pipelines.config.job import load
    from weir.pipelines.show import rehearsal as page
    from weir.pipelines.terminal import console

    if picture is not None:
        vega.check(picture)
    job = load(config, sets)
    out = console(stderr=True)

    def progress(text: str) -> None:
        if out.is_terminal:
            out.print(f"weir: {text}")

    debug = bool(click.get_current_context().find_root().params.get("debug"))
    if replay:
        from weir.pipelines.audit.replay import replay_audit
        from weir.pipelines.show.replay import render_replay

        refuse_with_replay(only=only, picture=picture, runner=runner != "local" and runner)
        with discreet(debug):
            replayed = replay_audit(job, trials, ticks, progress=progress)
        if as_json:
            print_json(replayed.to_json())
        else:
            render_replay(replayed, console())
        if replayed.broken:
            raise WeirError(f"a claim is broken: {'; '.join(replayed.broken)}.")
        return
    with discreet(debug):
        report = attack(job, trials, only, runner, ticks, rounds=rounds, progress=progress)
    if picture is not None:
        vega.save(chart(report), picture)
    if as_json:
        print_json(report.to_json())
    else:
        page.render_audit(report, console())
    if report.broken:
        raise WeirError(f"a claim is broken: {'; '.join(report.broken)}.")
