"""``weir estimate``."""

from __future__ import annotations

from pathlib import Path

import click

from weir.dpcore.errors import ConfigError
from weir.pipelines.cli.base import AS_JSON, print_json


@click.command(short_help="Estimate what noise hides, from releases alone.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--hindsight", is_flag=True, help="Of every tick, from all releases up to the last one."
)
@click.option(
    "--reconcile",
    is_flag=True,
    help="Releases of several groupings as figures that add up, not filtered.",
)
@click.option("--name", "names", multiple=True, help="Of this release. May be repeated.")
@AS_JSON
def estimate(
    directory: Path, hindsight: bool, reconcile: bool, names: tuple[str, ...], as_json: bool
) -> None:
    """Estimate counts and sums from the releases in DIRECTORY, and write them into it.

    The law of the noise is public, so filters remove much of it where it is larger than what a tick
    adds. It reads releases and the plan only, so it costs no budget. An estimate is not a release:
    it is revised in hindsight, and it lags behind a sudden change.

    Live estimates go to DIRECTORY/_estimates/live.csv. The next call goes on with the ticks that
    came since. With --hindsight all ticks are estimated again, in hindsight.csv.

    With --reconcile the releases of several groupings (key.groups) are moved onto their sums by
    least squares, in reconciled.csv: cities add up to the total. Counts stay at 0 or more.

    \b
      weir estimate out/
      weir estimate out/ --hindsight
      weir estimate out/ --name dollars --json
      weir estimate out/ --reconcile
    """
    from weir.pipelines.estimates import estimate as command
    from weir.pipelines.estimates import reconciled
    from weir.pipelines.terminal import console

    if reconcile and hindsight:
        raise ConfigError(
            "--reconcile", True, "is of releases, not of estimates; leave --hindsight out."
        )
    if reconcile:
        added_up = reconciled.reconcile(directory, names or None)
        if as_json:
            print_json(added_up.to_json())
        else:
            reconciled.render(added_up, console())
        return
    result = command.estimate(directory, names or None, hindsight)
    print_json(result.to_json()) if as_json else command.render(result, console())
