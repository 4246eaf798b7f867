"""``weir watch``: the options of the command line."""

from __future__ import annotations

from pathlib import Path

import click


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
