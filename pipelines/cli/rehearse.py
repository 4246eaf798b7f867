"""``weir rehearse``: the options of a run on made-up events."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines.cli.base import AS_JSON, CONFIG, SETS, print_json


@click.command(short_help="Run a config on made-up events, with a secret of its own.")
@CONFIG
@SETS
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="A new folder for the releases.  [default: one among the temporary files]",
)
@click.option("--events", type=click.IntRange(min=1), default=10_000, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--late", type=float, default=0.0, help="Share of late events, like 0.1.")
@click.option("--duplicate", type=float, default=0.0, help="Share of events that come twice.")
@click.option("--malformed", type=float, default=0.0, help="Share of unreadable records.")
@click.option("--wide", is_flag=True, help="Summary with one column per release.")
@AS_JSON
def rehearse(
    config: Path,
    sets: tuple[str, ...],
    out: Path | None,
    events: int,
    seed: int,
    late: float,
    duplicate: float,
    malformed: float,
    wide: bool,
    as_json: bool,
) -> None:
    """Run CONFIG on made-up events, before any real one.

    Neither the source nor the secret of CONFIG is touched: a run over made-up events under the real
    secret would give the real noise away. What comes out looks like the releases to come, and may
    be shown to anyone.

    \b
      weir rehearse shop.yaml
      weir rehearse shop.yaml --events 1000000 --late 0.01 --malformed 0.001 --out rehearsal/
    """
    from pipelines.cli.logs import discreet
    from pipelines.config.job import load
    from pipelines.feed.synthetic import Shares
    from pipelines.run import rehearse as command
    from pipelines.show import summary
    from pipelines.terminal import console

    job = load(config, sets)
    debug = bool(click.get_current_context().find_root().params.get("debug"))
    with discreet(debug):
        result = command.rehearse(job, out, events, seed, Shares(late, duplicate, malformed))
    if as_json:
        print_json(result.to_json())
    else:
        summary.render(result, console(wide=wide), wide=wide)
    if result.fails:
        raise summary.failure(result)
