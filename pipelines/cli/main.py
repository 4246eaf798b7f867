"""The command line: ``weir init | plan | rehearse | run | status | report | predict | feed | ...``.

Exit 0 when all is well, 2 for a refused config (one sentence on stderr), 1 for a run that failed.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import click

from weir.dpcore.errors import ConfigError
from weir.pipelines.cli.base import (
    AS_JSON,
    CONFIG,
    SETS,
    Group,
    completion,
    man,
    print_json,
    version,
)
from weir.pipelines.cli.estimate import estimate
from weir.pipelines.cli.feed import feed
from weir.pipelines.cli.ledger import ledger
from weir.pipelines.cli.rehearse import advise, audit, rehearse
from weir.pipelines.cli.run import predict, run
from weir.pipelines.cli.status import doctor, status, top, watch
from weir.pipelines.cli.verify import keygen, verify


@click.group(
    "weir",
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `weir init FILE`, read `weir plan`, then `weir run`.",
)
@click.version_option(version(), "--version", prog_name="weir", message="%(prog)s %(version)s")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only; `run` prints no summary.")
@click.option("-v", "--verbose", is_flag=True, help="Print notes of progress too, on stderr.")
@click.option("--debug", is_flag=True, help="Print Python tracebacks too (they may be long).")
def main(quiet: bool, verbose: bool, debug: bool) -> None:
    """Differentially private releases from a stream of sensitive events.

    One YAML file says which events, which releases and which guarantee. Every command reads it.

    \b
      weir init purchases.csv > shop.yaml   a config to fill in
      weir plan shop.yaml                   the guarantee and the error, before any data are read
      weir advise shop.yaml --target "..."  what would make it as exact as you need
      weir rehearse shop.yaml               the same on synthetic events, next to the truth
      weir audit shop.yaml                  what an attacker proves of the guarantee
      weir run shop.yaml                    the releases
      weir report out/                      a page with pictures
      weir estimate out/                    less noise, at no cost in privacy
    """
    if quiet and verbose:
        raise ConfigError("--quiet", True, "contradicts --verbose. Leave one of them out.")


@main.command(short_help="Write a config from the columns of a file or a table.")
@click.argument("file", metavar="FILE|URL#TABLE")
@click.option("--out", "-o", type=click.Path(path_type=Path), help="Write here, not to stdout.")
@click.option("--force", is_flag=True, help="Overwrite the file named by --out.")
@click.option("--no-header", is_flag=True, help="The first line of this CSV is an event.")
@click.option(
    "--columns",
    metavar="A,B,C",
    help="Names to use: with --no-header of all fields, else of some columns of FILE (NDJSON needs "
    "them said, because keys of objects may be data).",
)
@click.option("--encoding", default="utf-8", show_default=True, help="How this CSV is written.")
@click.option(
    "--model", metavar="COLUMN", help="A model that predicts this column, from the others."
)
@click.option("--once", is_flag=True, help="One release of all rows: no clock, no times.")
@click.option(
    "--schema",
    "with_schema",
    is_flag=True,
    help="Write the schema that editors check the config with next to it, too: weir.schema.json.",
)
@AS_JSON
def init(
    file: str,
    out: Path | None,
    force: bool,
    no_header: bool,
    columns: str | None,
    encoding: str,
    model: str | None,
    once: bool,
    with_schema: bool,
    as_json: bool,
) -> None:
    """Write a config from the header of FILE, or from the columns of a table of a database.

    Only names and types of columns are used. Bounds (clip) are left for you to fill in from what
    you know: bounds that are read off the data would reveal the data. The config says at its end
    what was not decided, and why.

    \b
      weir init purchases.csv > shop.yaml
      weir init events.parquet -o events.yaml --schema
      weir init 'days/*.csv' -o days.yaml
      weir init events.ndjson --columns at,user,item
      weir init plain.csv --no-header --encoding latin-1
      weir init rides.csv --model count
      weir init survey.csv --once
      weir init duckdb:///shop.db#orders
      weir init postgresql://weir@db.acme.example/shop#sales.orders
    """
    from weir.pipelines.init import init as command

    if with_schema and out is None:
        raise ConfigError(
            "--schema", None, "needs --out: the schema is written next to the config."
        )
    names = None if columns is None else [item.strip() for item in columns.split(",")]
    if names is not None and (not all(names) or len(set(names)) < len(names)):
        raise ConfigError("--columns", columns, "must be different names with commas between them.")
    text = command.config_text(file, out, names, not no_header, encoding, model, once)
    if out is None:
        click.echo(text, nl=False) if not as_json else print_json(_begun(text, None))
        return
    if out.exists() and not force:
        raise ConfigError("--out", str(out), "exists already; choose another name or add --force.")
    try:
        out.write_text(text, encoding="utf-8")
        if with_schema:
            command.write_schema(out.parent)
    except OSError as error:
        raise ConfigError("--out", str(out), f"cannot be written: {error.strerror}.") from None
    if as_json:
        print_json(_begun(text, out))
        return
    fill = (
        "fill in what is marked with <...>, then run" if _begun(text, out)["to_fill_in"] else "run"
    )
    click.echo(f"wrote {out}; {fill}: weir plan {out}", err=True)


def _begun(text: str, out: Path | None) -> dict[str, Any]:
    """A config of ``weir init`` as facts: what it says, what is left to be filled in, and what was
    not decided."""
    from weir.dpcore.config import yaml
    from weir.pipelines.config.job import placeholders
    from weir.pipelines.init.init import UNDECIDED

    left = [path for path, _ in placeholders(yaml.parse_mapping(text, {}))]
    block = text.partition(f"{UNDECIDED}\n")[2].replace("\n#   ", " ").splitlines()
    return {
        "config": text,
        "out": None if out is None else str(out),
        "to_fill_in": left,
        "undecided": [line.removeprefix("# - ") for line in block],
    }


@main.command(short_help="Show the guarantee, the error and the cost. Reads no data.")
@CONFIG
@SETS
@click.option("--full", is_flag=True, help="Everything: also what the last line lists.")
@AS_JSON
def plan(config: Path, sets: tuple[str, ...], full: bool, as_json: bool) -> None:
    """Show the guarantee and the errors of CONFIG. Reads no data.

    Shows the guarantee in numbers, the error of every release, what is not covered, and warnings.
    With --full also the guarantee in words, the privacy loss over time, the price of every
    mechanism and of other contribution bounds, and which records are refused.

    \b
      weir plan shop.yaml
      weir plan shop.yaml --full
      weir plan shop.yaml --set privacy.epsilon=0.5
      weir plan shop.yaml --json | jq .releases
    """
    from weir.pipelines.config.job import load, refuse_mixed
    from weir.pipelines.graph.checks import plan_of
    from weir.pipelines.show import plan as page
    from weir.pipelines.terminal import console

    job = load(config, sets)
    built = plan_of(job)
    refuse_mixed(job.dead_letters, job.sink)
    more: tuple[str, ...] = ()
    if job.sink is not None and not job.sink.holds(True):
        from weir.pipelines.run.run import as_they_go

        more = as_they_go(job.source, job.sink)
    budget = None
    if job.ledger is not None:
        from weir.pipelines.ledger.reservations import look

        budget = look(job.ledger, built)
    if as_json:
        facts = built.to_json()
        reported = {} if budget is None else {"ledger": budget.to_json()}
        print_json({**facts, **reported, "warnings": [*facts["warnings"], *more]})
    else:
        page.render(built, console(), more, budget, full)


@main.command(short_help="Draw the releases in a folder.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--out", "-o", type=click.Path(path_type=Path), help="Folder for the report.")
@click.option("--key", "keys", multiple=True, help="Draw this key. May be repeated.")
@click.option("--name", "names", multiple=True, help="Draw this release. May be repeated.")
@click.option("--png-only", is_flag=True, help="The picture without the page.")
@click.option(
    "--wide",
    is_flag=True,
    help="Draw nothing: print a row for each key and tick, with a column for each release.",
)
@click.option(
    "--holdout",
    type=click.Path(path_type=Path),
    help="Public events (csv, ndjson, parquet, arrow, avro): draw how well models predict them.",
)
@click.option(
    "--statement", is_flag=True, help="Also write a page to sign: what is protected, in words."
)
def report(
    directory: Path,
    out: Path | None,
    keys: tuple[str, ...],
    names: tuple[str, ...],
    png_only: bool,
    wide: bool,
    holdout: Path | None,
    statement: bool,
) -> None:
    """Draw the releases in DIRECTORY: a PNG and one self-contained HTML page.

    Error margins come from the noise, which is known; no data are read but the releases, and what
    --holdout names.

    \b
      weir report out/
      weir report out/ --out pages/
      weir report out/ --key north --name purchases
      weir report out/ --holdout public.csv
      weir report out/ --statement
      weir report out/ --wide --key north
    """
    if wide:
        from weir.pipelines.show.export import lines

        drawing = {"--out": out, "--png-only": png_only, "--holdout": holdout}
        for name, value in {**drawing, "--statement": statement}.items():
            if value:
                raise ConfigError(name, value, "is for pictures, and --wide draws none: drop one.")
        for line in lines(directory, keys or None, names or None):
            click.echo(line, nl=False)
        return
    from rich.text import Text

    from weir.pipelines.report.report import report as draw
    from weir.pipelines.terminal import console, heading

    built = draw(directory, out, keys or None, names or None, png_only, holdout, statement)
    shown = console()
    shown.print(heading(built.caption))
    shown.print(built.table)
    for line in built.left_out:
        shown.print(Text(line, style="dim"))
    for path in (built.png, built.html, built.statement):
        if path is not None:
            click.echo(path)
    if built.note:
        logging.getLogger(__name__).warning(built.note)


@main.command(short_help="Show what changes between two configs.")
@click.argument("a", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("b", type=click.Path(dir_okay=False, path_type=Path))
@AS_JSON
def diff(a: Path, b: Path, as_json: bool) -> None:
    """Show what changes from config A to config B, and what that means.

    Field by field, then noise, guarantee and state: whether B can go on where A stopped, and what
    running both costs.

    \b
      weir diff shop.yaml shop-new.yaml
    """
    from weir.pipelines.config.job import load
    from weir.pipelines.show import diff as command
    from weir.pipelines.terminal import console

    result = command.compare(load(a), load(b))
    if as_json:
        print_json(result)
    else:
        command.render(result, (str(a), str(b)), console())


@main.command(short_help="List what this build can run.")
@click.argument("name", required=False)
@AS_JSON
@click.option("--markdown", is_flag=True, help="Tables of all that Weir itself brings.")
def algorithms(name: str | None, as_json: bool, markdown: bool) -> None:
    """List the algorithms of this build, or tell more about NAME.

    For each: what it is, where it comes from, which noise it can use, and the fields of the config
    that it reads. The plan chooses among the mechanisms by itself unless you name one.

    \b
      weir algorithms
      weir algorithms blt
      weir algorithms --json
    """
    from weir.pipelines.show import algorithms as command
    from weir.pipelines.terminal import console

    if markdown:
        if name is not None or as_json:
            raise click.UsageError("--markdown goes with neither NAME nor --json.")
        click.echo(command.markdown())
        return
    if name is not None:
        entry = command.one(name)
        print_json(entry) if as_json else command.render_one(entry, console())
        return
    entries = command.catalogue()
    print_json(entries) if as_json else command.render_list(entries, console())


@main.command(short_help="Print the JSON Schema of a config.")
@click.option(
    "--dbt",
    is_flag=True,
    help="Of the results instead: a file of sources for dbt, with a description of each column.",
)
@click.argument("config", required=False, type=click.Path(dir_okay=False, path_type=Path))
def schema(dbt: bool, config: Path | None) -> None:
    """Print the JSON Schema of a config, with a description and an example of every field.

    Editors complete and check YAML with it:

    \b
      weir schema > weir.schema.json
      # first line of shop.yaml:
      # yaml-language-server: $schema=weir.schema.json

    With --dbt the columns of results instead, as dbt reads its sources; CONFIG names the table, its
    outputs and its place:

    
      weir schema --dbt shop.yaml > models/weir.yml
    """
    if dbt:
        from weir.pipelines.config.job import load
        from weir.pipelines.graph.checks import plan_of
        from weir.pipelines.show.export import source_file

        job = None if config is None else load(config)
        built = None if job is None else plan_of(job)
        click.echo(source_file(built, None if job is None else job.sink), nl=False)
        return
    if config is not None:
        raise click.UsageError("CONFIG goes with --dbt: the schema is that of every config.")
    from weir.pipelines.config.job import json_schema

    print_json(json_schema())


main.add_command(advise)
main.add_command(rehearse)
main.add_command(audit)
main.add_command(run)
main.add_command(estimate)
main.add_command(status)
main.add_command(watch)
main.add_command(feed)
main.add_command(doctor)
main.add_command(predict)
main.add_command(top)
main.add_command(ledger)
main.add_command(verify)
main.add_command(keygen)
main.add_command(completion)
main.add_command(man)


if __name__ == "__main__":
    sys.exit(main())
