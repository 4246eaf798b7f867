"""``weir doctor``: the options of the command line."""

from __future__ import annotations

from pathlib import Path

import click

from weir.pipelines.cli.base import AS_JSON, FAILED, SETS, print_json


@click.command(short_help="Tell what this machine lacks to run a job.")
@click.argument("config", required=False, type=click.Path(dir_okay=False, path_type=Path))
@SETS
@click.option(
    "--runner",
    type=click.Choice(["local", "direct", "prism", "flink", "dataflow"]),
    help="What is to run: what it needs is wrong where it is absent.  [default: local for files]",
)
@click.option(
    "--flink-master", "--flink_master", "master", metavar="HOST:PORT",
    help="Flink's REST interface: ask this cluster for its version and free slots.",
)  # fmt: skip
@AS_JSON
def doctor(
    config: Path | None,
    sets: tuple[str, ...],
    runner: str | None,
    master: str | None,
    as_json: bool,
) -> None:
    """Tell what this machine has and lacks: Python, packages, memory, disk, engines, their tools.

    With CONFIG also what that job needs: whether the sink takes it, who can read the secret and the
    checkpoints, which extras to install. No secret is read, and no event. Exit 1 when something
    that is needed is wrong, with what to do about it.

    \b
      weir doctor
      weir doctor shop.yaml --runner flink --flink-master localhost:8081
      weir doctor --json
    """
    from weir.pipelines.config.job import load
    from weir.pipelines.show import doctor as command
    from weir.pipelines.terminal import console

    job = None if config is None else load(config, sets)
    found = command.examine(job, runner, master)
    if as_json:
        print_json(command.to_json(found))
    else:
        command.render(found, console())
    if not command.healthy(found):
        click.get_current_context().exit(FAILED)
