"""What all commands share: exit codes, refusals in one sentence, and common options."""

from __future__ import annotations

import json
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from weir.dpcore.errors import ConfigError, WeirError
from weir.pipelines.cli.logs import discreet

REFUSED, FAILED, STOPPED = 2, 1, 130


class Group(click.Group):
    """Turns refusals and failures into one sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with discreet(bool(ctx.params.get("debug"))):
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
        from weir.dpcore.config.section import nearest

        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.commands:
            ctx.fail(f"no command {name!r}; {nearest(name, list(self.commands))}")
        return super().resolve_command(ctx, args)


def _say(ctx: click.Context, text: str, error: BaseException) -> None:
    click.echo(text, err=True)
    if ctx.params.get("debug"):
        traceback.print_exception(error)


def version() -> str:
    try:
        return metadata.version("weir-dp")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"


def print_json(value: Any) -> None:
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
