"""``weir status``: the options of the command line."""

from __future__ import annotations

import click

from pipelines.cli.base import AS_JSON, print_json


@click.command(short_help="Show how a running job fares.")
@click.argument("place", required=False)
@click.option(
    "--flink-master",
    "--flink_master",
    "master",
    metavar="HOST:PORT",
    help="Flink's REST interface: shows all jobs there that weir started.",
)
@AS_JSON
def status(place: str | None, master: str | None, as_json: bool) -> None:
    """Show how a job fares: PLACE is a folder of results, or of checkpoints (engine.checkpoints).

    State, restarts, checkpoints, the last tick released, how far the watermark is behind, and the
    operator's counts. (A job on Prism shows its progress itself and keeps nothing to ask.)

    \b
      weir status --flink-master localhost:8081
      weir status .weir/shop
      weir status out/ --json
    """
    from pipelines.show import status as command
    from pipelines.terminal import console

    found = command.look(place, master)
    if as_json:
        print_json(found)
    else:
        command.render(found, console())
