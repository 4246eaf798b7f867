"""``weir rehearse``: the options of a run on made-up or public events."""

from __future__ import annotations

from pathlib import Path

import click

from weir.dpcore.errors import ConfigError
from weir.pipelines.cli.base import AS_JSON, CONFIG, SETS, print_json


@click.command(short_help="Run a config on made-up or public events, and show how far it errs.")
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
    help="Public events (a file, folder or glob) instead of made-up ones. The files of the source "
    "are refused, and what holds the same.",
)
@click.option(
    "--like",
    type=click.Path(dir_okay=False, path_type=Path),
    help="YAML with what is known in public of made-up events: events or keys, users, values.",
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
    """Run CONFIG on made-up or public events, before any real one, and compare with the truth.

    Neither the source nor the secret of CONFIG is touched, and no budget is spent: a run over known
    events under the real secret would give the real noise away. For each output: how far it lies
    off the truth, how much of that is noise and how much the clip and the caps, whether it is
    useful, and what would make it so.

    \b
      weir rehearse shop.yaml
      weir rehearse shop.yaml --on last-years-public.csv --picture errors.png
      weir rehearse shop.yaml --like counts.yaml --within 0.05
      weir rehearse shop.yaml --events 1000000 --late 0.01 --malformed 0.001 --out rehearsal/
    """
    from weir.pipelines.cli.logs import discreet
    from weir.pipelines.config.job import load
    from weir.pipelines.feed.shape import Shape, load_shape
    from weir.pipelines.feed.synthetic import Shares
    from weir.pipelines.rehearse.rehearse import SyntheticEvents
    from weir.pipelines.rehearse.rehearse import rehearse as command
    from weir.pipelines.show import rehearsal, summary
    from weir.pipelines.terminal import console

    job = load(config, sets)
    shares = Shares(late, duplicate, malformed)
    if on is not None:
        made = {"--like": like, "--events": events, "--late": late, "--duplicate": duplicate,
                "--malformed": malformed}  # fmt: skip
        for name, value in made.items():
            if value:
                raise ConfigError(
                    name, str(value), "is of made-up events, and --on names others: leave one."
                )
    shape = Shape() if like is None else load_shape(like)
    if picture is not None:
        from weir.pipelines.rehearse.picture import check

        check(picture)
    debug = bool(click.get_current_context().find_root().params.get("debug"))
    with discreet(debug):
        found = command(job, out, SyntheticEvents(events, seed, shares, shape), on, within)
    drawn = None
    if picture is not None:
        from weir.pipelines.rehearse.picture import draw

        drawn = draw(found, picture)
    if as_json:
        print_json(found.to_json() | ({} if drawn is None else {"picture": str(drawn)}))
    else:
        shown = console(wide=wide)
        summary.render(found.result, shown, wide=wide)
        rehearsal.render(found, shown)
        if drawn is not None:
            click.echo(f"  drew {drawn}")
    if found.result.fails:
        raise summary.failure(found.result)
