"""``weir advise``: the options of a search for what is exact enough."""

from __future__ import annotations

from pathlib import Path

import click

from weir.pipelines.cli.base import AS_JSON, CONFIG, SETS, print_json


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
    names an output, its span where it has several, and half of its 95 % band: a number in its own
    unit, or a share of a value that you know. Behind it may stand "a day" or "per 12h": then the
    number is of such a time, and longer ticks have more of it. Exits with 1 where nothing reaches
    all targets.

    \b
      weir advise shop.yaml --target "purchases over 7: 5% of 2000"
      weir advise shop.yaml --target "total: 5% of 2000 a day" --target "basket: 0.5" --json
    """
    from weir.pipelines.config.job import load
    from weir.pipelines.rehearse.advise import advise as command
    from weir.pipelines.show.advice import render
    from weir.pipelines.terminal import console

    found = command(load(config, sets).plan_config(), targets)
    if as_json:
        print_json(found.to_json())
    else:
        render(found, console())
    if not found.reached:
        click.get_current_context().exit(1)
