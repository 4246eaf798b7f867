"""What the commands share: options, JSON output, logs, the manual page, completion."""

from __future__ import annotations

import json
import logging
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from weir.dpcore.errors import ConfigError, WeirError

REFUSED, FAILED, STOPPED = 2, 1, 130


class Group(click.Group):
    """Turns refusals and failures into one sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with discreet(bool(ctx.params.get("debug")), least=loudness(ctx)):
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


def loudness(ctx: click.Context) -> int:
    """The least severe notes that go to stderr: by ``-q`` none but errors, by ``-v`` all."""
    chosen = ctx.find_root().params
    if chosen.get("quiet"):
        return logging.ERROR
    return logging.INFO if chosen.get("verbose") else logging.WARNING


_log = logging.getLogger(__name__)
OURS = "weir"


class Discreet(logging.Filter):
    """Lets our own records pass, without tracebacks, and drops everything of others."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] != OURS:
            return False
        record.exc_info = record.exc_text = record.stack_info = None
        return True


class JsonLines(logging.Formatter):
    """One JSON object a record: time (UTC), severity, logger, message; ``fields`` of the record are
    added. The names are those that Cloud Logging and most collectors understand."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as one line."""
        reported = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "severity": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            reported["exception"] = self.formatException(record.exc_info)
        return json.dumps(reported, ensure_ascii=False, default=str)


def _quietly(args: threading.ExceptHookArgs) -> None:
    """Threads of libraries end with tracebacks, which may quote events: their kind is enough."""
    name = "unknown" if args.thread is None else args.thread.name
    _log.info("thread %s ended with %s", name, args.exc_type.__name__)


@contextmanager
def discreet(
    debug: bool = False, form: str = "text", least: int = logging.WARNING
) -> Iterator[None]:
    """Inside, the log holds notes of ours only; with ``debug`` everything from INFO on.

    Args:
      form: text, for people, or json, for collectors (from INFO on).
      least: severity of text from which notes are printed.
    """
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    handler = logging.StreamHandler()
    if debug:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        root.setLevel(logging.INFO)
    else:
        handler.setFormatter(logging.Formatter("weir: note: %(message)s"))
        handler.setLevel(least)
        handler.addFilter(Discreet())
        root.setLevel(min(least, level))
    if form == "json":
        handler.setFormatter(JsonLines())
        handler.setLevel(logging.INFO)
        root.setLevel(logging.INFO)
    root.handlers[:] = [handler]
    hook = threading.excepthook
    if not debug:
        threading.excepthook = _quietly
    try:
        yield
    finally:
        threading.excepthook = hook
        root.handlers[:] = handlers
        root.setLevel(level)


SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print what makes a shell complete commands and options.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that makes SHELL complete commands, options and files.

    \b
      weir completion bash > ~/.local/share/bash-completion/completions/weir
      weir completion zsh > ~/.zfunc/_weir          # a folder of $fpath
      weir completion fish > ~/.config/fish/completions/weir.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    built = kind(root, {}, "weir", "_WEIR_COMPLETE")
    try:
        # The script alone: what click asks of the shell itself may run on another machine.
        click.echo(built.source_template % built.source_vars())
    except KeyError as error:  # a version of click whose scripts need more
        raise ConfigError("shell", shell, f"cannot be served: {error}.") from None


@click.command(short_help="Print the manual page.")
def man() -> None:
    """Print a page for man(1) with every command and option.

    It is made from the commands themselves, so that it always says what this build can do, and how.

    \b
      weir man | man -l -
      weir man > /usr/local/share/man/man1/weir.1
    """
    from weir.pipelines.show.algorithms import man as page

    root = click.get_current_context().find_root().command
    click.echo(page(root, "weir", version()), nl=False)
