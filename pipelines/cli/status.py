"""``weir status``, ``weir top``, ``weir watch`` and ``weir doctor``."""

from __future__ import annotations

from pathlib import Path

import click

from weir.pipelines.cli.base import AS_JSON, FAILED, SETS, print_json


@click.command(short_help="Show the status of a job.")
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
    """Show the status of a job.

    PLACE is a folder of results, or of checkpoints (engine.checkpoints).

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
    result = command.look(place, master)
    if as_json:
        print_json(result)
    else:
        command.render(result, console())


@click.command(short_help="Show the largest keys of a release.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--of", "name", metavar="NAME", help="The release; needed where there are several.")
@click.option("-k", default=10, show_default=True, type=click.IntRange(min=1), help="How many.")
@click.option(
    "--over", metavar="SPAN", help="Its span in ticks or as a duration, 7 or 7d; or all, the total."
)
@click.option("--tick", type=click.IntRange(min=0), help="Of this tick, not of the last.")
@click.option("--by", metavar="COLUMNS", help="Of this grouping, like city,product.")
@AS_JSON
def top(
    directory: Path,
    name: str | None,
    k: int,
    over: str | None,
    tick: int | None,
    by: str | None,
    as_json: bool,
) -> None:
    """Show the largest keys of a release in DIRECTORY, and how sure their order is.

    Of a count, sum or mean: each key with its margin, and with the ranks that it can have, all keys
    together at 95 %. It reads releases only, so it costs no budget. Keys are those that the config
    declares, or that were found; of several groupings those of one, the finest unless --by says.

    \b
      weir top out/
      weir top out/ --of views -k 20 --over 7d
      weir top out/ --of views --json
    """
    from weir.pipelines.show import top as command
    from weir.pipelines.terminal import console

    result = command.top(directory, k, name, over, tick, by)
    print_json(result.to_json()) if as_json else command.render(result, console())


@click.command(short_help="Serve a live page of releases on this machine.")
@click.argument("place", required=False)
@click.option(
    "--subscription",
    metavar="NAME",
    help="Instead of PLACE: projects/P/subscriptions/S of the topic that a sink publishes to. Its "
    "messages are taken and acknowledged: give it one of its own.",
)
@click.option(
    "--plan", type=click.Path(path_type=Path), help="For --subscription: from weir plan --json."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True)
@click.option(
    "--private", is_flag=True, help="Also a page for the operator: lag, dead letters, health."
)
@click.option(
    "--private-port",
    type=click.IntRange(0, 65535),
    default=8766,
    show_default=True,
    help="Of the operator's page, which asks for the token that is printed.",
)
@click.option(
    "--flink-master", "master", metavar="HOST:PORT", help="Flink's REST interface, for --private."
)
@click.option(
    "--every",
    type=click.FloatRange(min=0.2),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks.",
)
def watch(
    place: str | None,
    subscription: str | None,
    plan: Path | None,
    port: int,
    private: bool,
    private_port: int,
    master: str | None,
    every: float,
) -> None:
    """Serve the page of weir report over HTTP, renewed as ticks come.

    PLACE is a folder of results, which need not be there yet. Only releases are served, and only to
    this machine (127.0.0.1). Ctrl-C ends it.

    \b
      weir watch out/
      weir watch --subscription projects/acme-data/subscriptions/page --plan plan.json
      weir watch out/ --private --flink-master localhost:8081
    """
    from weir.pipelines.watch import watch as command

    ports = (port, private_port)
    command.watch(place, subscription, plan, master, ports, private, every, click.echo)


@click.command(short_help="Check what this machine lacks to run a job.")
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
    """Check what this machine has and lacks: Python, packages, memory, disk, engines, their tools.

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
    result = command.examine(job, runner, master)
    if as_json:
        print_json(command.to_json(result))
    else:
        command.render(result, console())
    if not command.healthy(result):
        click.get_current_context().exit(FAILED)
