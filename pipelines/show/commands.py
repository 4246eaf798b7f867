"""What the command line can do, read off its own definitions: for the man page and for the site."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

import click


@dataclass(frozen=True)
class Told:
    """One command.

    Attributes:
      name: with all that stands before it, like "weir ledger add". usage: what follows the name.
      paragraphs: what it does; one that begins with a line feed is kept as it stands.
      options: (how it is written, what it does).
    """

    name: str
    usage: str
    paragraphs: tuple[str, ...]
    options: tuple[tuple[str, str], ...]


def told(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[Told]:
    """A command, then those below it, by name."""
    short = name.rpartition(" ")[2]
    ctx = click.Context(command, parent=parent, info_name=short, **command.context_settings)
    options = [one for one in command.get_params(ctx) if isinstance(one, click.Option)]
    rows = [record for one in options if (record := one.get_help_record(ctx))]
    usage = " ".join(command.collect_usage_pieces(ctx))
    yield Told(name, usage, tuple(_paragraphs(command.help or "")), tuple(rows))
    if isinstance(command, click.Group):
        for below in command.list_commands(ctx):
            found = command.get_command(ctx, below)
            if found is not None and not found.hidden:
                yield from told(found, f"{name} {below}", ctx)


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs; one that click is told to leave alone begins with a line feed."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        kept = part.removeprefix("\b\n")
        yield f"\n{kept}" if kept != part else " ".join(part.split())


def man(command: click.Command, name: str, version: str) -> str:
    """The whole as one page for man(1)."""
    first, *rest = told(command, name)
    about, *more = first.paragraphs
    lines = [
        f'.TH {_roff(name.upper())} 1 "" "{_roff(f"{name} {version}")}" "User Commands"',
        ".SH NAME",
        rf"{_roff(name)} \- {_roff(about.rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_roff(name)}",
        _roff(first.usage),
        ".SH DESCRIPTION",
        *_body(more),
        ".SH OPTIONS",
        *_options(first),
        ".SH COMMANDS",
    ]
    for one in rest:
        lines += [f".SS {_roff(f'{one.name} {one.usage}'.strip())}", *_body(one.paragraphs)]
        lines += _options(one)
    lines += [
        ".SH EXIT STATUS",
        "0 when all is well, 2 for a refused config, 1 for a run that failed.",
    ]
    return "\n".join(lines) + "\n"


def _body(paragraphs: tuple[str, ...] | list[str]) -> Iterator[str]:
    for text in paragraphs:
        if text.startswith("\n"):
            yield from (".PP", ".nf", *(_roff(line) for line in text[1:].splitlines()), ".fi")
        else:
            yield from (".PP", _roff(text))


def _options(one: Told) -> Iterator[str]:
    for written, about in one.options:
        yield from (".TP", rf"\fB{_roff(written)}\fR", _roff(about) or r"\&")


def _roff(text: str) -> str:
    """Text that roff prints as it stands."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def markdown(command: click.Command, name: str) -> str:
    """The whole as a page of the site."""
    parts = ["# Commands\n"]
    for one in told(command, name):
        parts.append(f"{'##' if one.name.count(' ') < 2 else '###'} `{one.name}`\n")
        parts.append(f"```\n{one.name} {one.usage}".rstrip() + "\n```\n")
        for text in one.paragraphs:
            parts.append(
                f"```\n{inspect.cleandoc(text[1:])}\n```\n" if text[:1] == "\n" else f"{text}\n"
            )
        if one.options:
            parts.append("| option | |\n|---|---|")
            parts += [f"| `{_cell(written)}` | {_cell(about)} |" for written, about in one.options]
            parts.append("")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


__all__ = ["man", "markdown", "told"]
