"""``weir top``: the options of the command line."""

from __future__ import annotations

from pathlib import Path

import click

from weir.pipelines.cli.base import AS_JSON, print_json


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

    Of a count, sum or mean: each key with its band, and with the ranks that it can have, all keys
    together at 95 %. It reads releases only, so it costs no budget. Keys are those that the config
    declares, or that were found; of several groupings those of one, the finest unless --by says.

    \b
      weir top out/
      weir top out/ --of views -k 20 --over 7d
      weir top out/ --of views --json
    """
    from weir.pipelines.show import top as command
    from weir.pipelines.terminal import console

    found = command.top(directory, k, name, over, tick, by)
    print_json(found.to_json()) if as_json else command.render(found, console())
