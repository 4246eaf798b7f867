"""``weir status``: the options of the command line."""

from __future__ import annotations

import click

from weir.pipelines.cli.base import AS_JSON, print_json


@click.command(short_help="Show how a running job fares.")
@click.argument("place", required=False)
@click.option(
    "--flink-master",
    "--flink_master",
    "master",
    metavar="HOST:PORT",
    help="Flink's REST interface: shows all jobs there that weir started.",
)
@click.option(
    "--watch",
    "every",
    type=click.FloatRange(min=0.2),
    metavar="SECONDS",
    help="Look again every so many seconds, until Ctrl-C.",
)
@AS_JSON
def status(place: str | None, master: str | None, every: float | None, as_json: bool) -> None:
    """Show how a job fares: PLACE is a folder of results, or of checkpoints (engine.checkpoints).

    State, restarts, checkpoints, the last tick released, how far the watermark is behind, and the
    operator's counts. (A job on Prism shows its progress itself and keeps nothing to ask.)

    \b
      weir status --flink-master localhost:8081
      weir status .weir/shop
      weir status --flink-master localhost:8081 --watch 2
      weir status out/ --json

    With --watch a terminal shows one page that renews itself; --json, or no terminal, gives one
    answer after the other (JSON: one object a line). A job that cannot be asked for a while, as
    when its machine restarts, is said and asked again.
    """
    from weir.pipelines.show import status as command
    from weir.pipelines.terminal import console

    if every is not None:
        command.watch(place, master, every, as_json)
        return
    found = command.look(place, master)
    if as_json:
        print_json(found)
    else:
        command.render(found, console())
