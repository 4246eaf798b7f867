"""The command line: ``weir init | plan | run | report | feed | diff | algorithms | schema``.

Exit 0 when all is well, 2 for a refused config (one sentence on stderr), 1 for a run that failed.
"""

from __future__ import annotations

import json
import sys
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from dpcore.errors import ConfigError, WeirError

REFUSED, FAILED, STOPPED = 2, 1, 130


class _Group(click.Group):
    """Turns refusals and failures into one sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            _say(ctx, f"weir: refused: {error}", error)
            ctx.exit(REFUSED)
        except WeirError as error:
            _say(ctx, f"weir: failed: {error}", error)
            ctx.exit(FAILED)
        except (click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:  # a defect of ours: its text may hold anything
            _say(ctx, f"weir: failed: {type(error).__name__}; weir --debug shows where.", error)
            ctx.exit(FAILED)
        except KeyboardInterrupt:
            click.echo("weir: stopped.", err=True)
            ctx.exit(STOPPED)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from dpcore.config_errors import nearest

        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.commands:
            ctx.fail(f"no command {name!r}; {nearest(name, list(self.commands))}")
        return super().resolve_command(ctx, args)


def _say(ctx: click.Context, text: str, error: BaseException) -> None:
    click.echo(text, err=True)
    if ctx.params.get("debug"):
        traceback.print_exception(error)


def _version() -> str:
    try:
        return metadata.version("weir")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"


def _print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


CONFIG = click.argument("config", type=click.Path(dir_okay=False, path_type=Path))
SETS = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Replaces one field, like --set privacy.epsilon=0.5. The value is YAML; null removes the "
    "field. May be repeated.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")


@click.group(
    "weir",
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `weir init FILE`, read `weir plan`, then `weir run`.",
)
@click.version_option(_version(), "--version", prog_name="weir", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Print Python tracebacks too (they may be long).")
def main(debug: bool) -> None:
    """Differentially private releases from a stream of sensitive events.

    One YAML file says which events, which releases and which promise. Every command reads it.

    \b
      weir init purchases.csv > shop.yaml   a config to fill in
      weir plan shop.yaml                   the promise and the error, before any data are read
      weir run shop.yaml                    the releases
      weir report out/                      a page with pictures
    """


@main.command(short_help="Write a config from a file's header.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--out", "-o", type=click.Path(path_type=Path), help="Write here, not to stdout.")
@click.option("--force", is_flag=True, help="Overwrite the file named by --out.")
def init(file: Path, out: Path | None, force: bool) -> None:
    """Write a config from the header of FILE.

    Only names and types of columns are used. Bounds (clip) are left for you to fill in from what
    you know: bounds that are read off the data would reveal the data.

    \b
      weir init purchases.csv > shop.yaml
      weir init events.parquet -o events.yaml
    """
    from pipelines import init as command

    text = command.config_text(file, out)
    if out is None:
        click.echo(text, nl=False)
        return
    if out.exists() and not force:
        raise ConfigError("--out", str(out), "exists already; choose another name or add --force.")
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError("--out", str(out), f"cannot be written: {error.strerror}.") from None
    click.echo(
        f"wrote {out}; fill in what is marked with <...>, then run: weir plan {out}", err=True
    )


@main.command(short_help="Show the promise, the error and the cost. Reads no data.")
@CONFIG
@SETS
@AS_JSON
def plan(config: Path, sets: tuple[str, ...], as_json: bool) -> None:
    """Show the promise, the error and the cost of CONFIG. Reads no data.

    Tells who is protected from what and for how long, what that does to the exactness of every
    release, which mechanisms could keep the promise, and what will be refused.

    \b
      weir plan shop.yaml
      weir plan shop.yaml --set privacy.epsilon=0.5
      weir plan shop.yaml --json | jq .releases
    """
    from pipelines import plan as page
    from pipelines import run as command
    from pipelines.config import load
    from pipelines.terminal import console

    job = load(config, sets)
    made = command.plan_of(job)
    command.check_folders(job, made, job.secret is None)
    if as_json:
        _print_json(made.to_json())
    else:
        page.render(made, console())


@main.command(
    short_help="Read the events and write the releases.",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog="Options that are not listed here go to Beam, like --flink_master=HOST:8081.",
)
@CONFIG
@click.option(
    "--runner",
    type=click.Choice(["direct", "prism", "flink", "dataflow"], case_sensitive=False),
    default="direct",
    show_default=True,
    help="Where it runs. All but direct need a secret.",
)
@click.option(
    "--secret-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the secret; overrides `secret` in the config.",
)
@SETS
@click.option("--wide", is_flag=True, help="Summary with one column per release.")
@AS_JSON
@click.argument("beam", nargs=-1, type=click.UNPROCESSED, metavar="[BEAM OPTIONS]...")
def run(
    config: Path,
    runner: str,
    secret_file: Path | None,
    sets: tuple[str, ...],
    wide: bool,
    as_json: bool,
    beam: tuple[str, ...],
) -> None:
    """Run CONFIG: read its events and write its releases.

    A run that was stopped goes on when it is started again with the same secret. Without a secret
    the direct runner draws a fresh one and says so. Make one with:

    \b
      openssl rand -hex 32 > secret.key && chmod 600 secret.key

    \b
      weir run shop.yaml
      weir run shop.yaml --secret-file secret.key --set sink.parquet=out2/
      weir run shop.yaml --runner flink --flink_master=localhost:8081 --streaming
    """
    from pipelines import run as command
    from pipelines.config import load
    from pipelines.logs import discreet

    job = load(config, sets)
    with discreet(bool(click.get_current_context().find_root().params.get("debug"))):
        result = command.run(
            job, runner.lower(), None if secret_file is None else str(secret_file), list(beam)
        )
    if as_json:
        _print_json(result.to_json())
    else:
        from pipelines import summary
        from pipelines.terminal import console

        summary.render(result, console(wide=wide), wide=wide)


@main.command(short_help="Draw the releases in a folder.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--out", "-o", type=click.Path(path_type=Path), help="Folder for the report.")
@click.option("--key", "keys", multiple=True, help="Draw this key. May be repeated.")
@click.option("--name", "names", multiple=True, help="Draw this release. May be repeated.")
@click.option("--png-only", is_flag=True, help="The picture without the page.")
def report(
    directory: Path, out: Path | None, keys: tuple[str, ...], names: tuple[str, ...], png_only: bool
) -> None:
    """Draw the releases in DIRECTORY: a PNG and one self-contained HTML page.

    Error bands come from the noise, which is known; no data are read but the releases.

    \b
      weir report out/
      weir report out/ --out pages/
      weir report out/ --key north --name purchases
    """
    from pipelines.report import report as draw
    from pipelines.terminal import console

    made = draw(directory, out, keys or None, names or None, png_only)
    shown = console()
    shown.print(made.table)
    for path in (made.png, made.html):
        if path is not None:
            click.echo(path)
    if made.note:
        click.echo(f"weir: note: {made.note}", err=True)


@main.command(short_help="Send a rehearsal stream to a file, stdout or Pub/Sub.")
@CONFIG
@SETS
@click.option(
    "--to",
    "to",
    default="-",
    show_default=True,
    metavar="TARGET",
    help="-, a file (.csv .ndjson .parquet .arrow .avro), or projects/P/topics/T.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "ndjson", "parquet", "arrow", "avro"]),
    help="Format, where the target's name does not tell.",
)
@click.option("--from", "recorded", metavar="FILE", help="Replay this file, not made-up events.")
@click.option("--events", type=click.IntRange(min=1), help="How many events.  [default: 10,000]")
@click.option("--rate", type=float, help="Events per second.  [default: as fast as possible]")
@click.option("--speed", type=float, help="Replay at this many times real time.")
@click.option(
    "--times",
    type=click.Choice(["clock", "now"]),
    help="Event times: spread over the config's clock, or the present.  "
    "[default: clock; now for a topic without clock.end]",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The same seed makes the same events.",
)
@click.option("--late", type=float, default=0.0, help="Share of late events, like 0.1.")
@click.option("--duplicate", type=float, default=0.0, help="Share of events that come twice.")
@click.option("--malformed", type=float, default=0.0, help="Share of unreadable records.")
def feed(
    config: Path,
    sets: tuple[str, ...],
    to: str,
    form: str | None,
    recorded: str | None,
    events: int | None,
    rate: float | None,
    speed: float | None,
    times: str | None,
    seed: int,
    late: float,
    duplicate: float,
    malformed: float,
) -> None:
    """Send a stream that matches CONFIG to a file, stdout or a Pub/Sub topic.

    For rehearsals: made-up events with the config's columns and keys, or a recorded file, at a
    rate, with late, repeated and broken records mixed in as you ask.

    \b
      weir feed shop.yaml --events 1000000 --to events.parquet
      weir feed shop.yaml --rate 500 --times now --to projects/acme/topics/purchases
      weir feed shop.yaml --from yesterday.csv --speed 60 --to -
      weir feed shop.yaml --late 0.1 --duplicate 0.1 --malformed 0.01 --to bad.ndjson
    """
    from pipelines import feed as command
    from pipelines.config import load
    from pipelines.feed_targets import open_target
    from pipelines.synthetic import Shares

    job = load(config, sets)
    shares = Shares(late, duplicate, malformed)
    pace = command.Pace(rate, speed)
    if speed is not None and recorded is None:
        raise ConfigError("--speed", speed, "is for a recorded stream (--from); use --rate.")
    topic = to.startswith("projects/")
    live = times == "now" or (times is None and topic and job.clock.end is None)
    live = live and recorded is None
    for note in command.notes(job, shares, live, recorded is not None):
        click.echo(f"weir: note: {note}", err=True)
    if form is None and to == "-" and job.source is not None and job.source.kind == "csv":
        form = "csv"
    target = open_target(to, form, header=not topic)
    with command.Shown() as shown:
        sent = command.feed(
            job, target, events=events, seed=seed, shares=shares, pace=pace,
            recorded=recorded, live=live, told=shown.told,
        )  # fmt: skip
    click.echo(f"weir: sent {sent:,} events to {'stdout' if to == '-' else to}", err=True)


@main.command(short_help="Show what changes between two configs.")
@click.argument("a", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("b", type=click.Path(dir_okay=False, path_type=Path))
@AS_JSON
def diff(a: Path, b: Path, as_json: bool) -> None:
    """Show what changes from config A to config B, and what that means.

    Field by field, then noise, promise and state: whether B can go on where A stopped, and what
    running both costs.

    \b
      weir diff shop.yaml shop-new.yaml
    """
    from pipelines import diff as command
    from pipelines.config import load
    from pipelines.terminal import console

    result = command.compare(load(a), load(b))
    if as_json:
        _print_json(result)
    else:
        command.render(result, (str(a), str(b)), console())


@main.command(short_help="List what this build can run.")
@click.argument("name", required=False)
@AS_JSON
def algorithms(name: str | None, as_json: bool) -> None:
    """List the algorithms of this build, or tell more about NAME.

    For each: what it is, where it comes from, which noise it can use, and the fields of the config
    that it reads. The plan chooses among the mechanisms by itself unless you name one.

    \b
      weir algorithms
      weir algorithms blt
      weir algorithms --json
    """
    from pipelines import algorithms as command
    from pipelines.terminal import console

    if name is not None:
        entry = command.one(name)
        _print_json(entry) if as_json else command.render_one(entry, console())
        return
    entries = command.catalogue()
    _print_json(entries) if as_json else command.render_list(entries, console())


@main.command(short_help="Print the JSON Schema of a config.")
def schema() -> None:
    """Print the JSON Schema of a config, with a description and an example of every field.

    Editors complete and check YAML with it:

    \b
      weir schema > weir.schema.json
      # first line of shop.yaml:
      # yaml-language-server: $schema=weir.schema.json
    """
    from pipelines.schema import json_schema

    _print_json(json_schema())


if __name__ == "__main__":
    sys.exit(main())
