"""Reference pages: algorithms, fields of the config, commands."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from weir.dpcore.aggregates.algorithm import known_fields
from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError
from weir.dpcore.registry import AGGREGATES, CONTINUAL_SUMS, MODELS, SOLVERS, describe
from weir.pipelines.config.job import json_schema
from weir.pipelines.terminal import heading, indent, table

SECTIONS = {
    "algorithm": "aggregates.NAME",
    "model": "model",
    "solver": "model",
    "continual_sum": "mechanism",
}
"""Kind -> the section of a config whose fields are told."""


def catalogue() -> list[dict[str, Any]]:
    """Every algorithm, JSON-able: name, kind, title, about, source, noises, fields."""
    results: list[dict[str, Any]] = [
        {
            "name": "aggregates",
            "kind": "algorithm",
            "title": "running and sliding aggregates",
            "about": f"{', '.join(AGGREGATES)} per key and tick, from one joint noisy sum.",
            "source": "",
            "noises": ["gaussian", "discrete_gaussian", "k_norm", "laplace"],
            "fields": known_fields(),
        }
    ]
    for name, model in MODELS.items():
        results.append(
            {
                "name": name,
                "kind": "model",
                "title": model.title,
                "about": model.about,
                "source": model.source,
                "noises": list(model.noises),
                "fields": {
                    field: info.description or "" for field, info in model.model_fields.items()
                },
            }
        )
    for name, solver in SOLVERS.items():
        results.append(
            {
                "name": name,
                "kind": "solver",
                "title": solver.title,
                "about": _paragraph(solver),
                "source": solver.source,
                "noises": ["gaussian", "discrete_gaussian"],
                "fields": {"solver": f"{name}: fit with it, in a model that keeps rows"},
            }
        )
    for name in CONTINUAL_SUMS:
        about = describe(name)
        results.append(
            {
                "name": about.name,
                "kind": "continual_sum",
                "title": about.title,
                "about": about.about,
                "source": about.source,
                "noises": list(about.noises),
                "fields": dict(about.settings),
            }
        )
    return results


def one(name: str) -> dict[str, Any]:
    """The algorithm of that name.

    Raises:
      ConfigError: there is none, with the nearest name.
    """
    results = {entry["name"]: entry for entry in catalogue()}
    if name not in results:
        raise ConfigError("NAME", name, f"is not an algorithm here; {nearest(name, list(results))}")
    return results[name]


def markdown() -> str:
    """Tables of what this project brings: docs/reference/algorithms.md, a table a registry."""
    sums = [describe(name) for name in CONTINUAL_SUMS.own]
    models = [(name, MODELS[name]) for name in MODELS.own]
    solvers = [(name, SOLVERS[name]) for name in SOLVERS.own]
    return "\n".join(
        [
            "# Algorithms",
            "Written by `weir algorithms --markdown` from the classes themselves.",
            "",
            "## Continual sums",
            "`mechanism.continual_sum: NAME`; the plan takes the best where none is named.",
            "",
            *_rows("name", "what it is", "noise", "source"),
            *(_row(item.name, item.title, _noises(item.noises), item.source) for item in sums),
            "",
            "## Aggregates",
            "`aggregates: {OUTPUT: {NAME: ...}}`, any number of them from one joint noisy sum.",
            "",
            *_rows("name", "what it is"),
            *(_row(name, _summary(AGGREGATES[name])) for name in AGGREGATES.own),
            "",
            "## Models",
            "`model: {algorithm: NAME}`",
            "",
            *_rows("name", "what it is", "noise", "source"),
            *(
                _row(name, model.title, _noises(model.noises), model.source)
                for name, model in models
            ),
            "",
            "## Solvers",
            "`model: {solver: NAME}`, of `regression.erm` and `regression.naive`.",
            "",
            *_rows("name", "what it is", "source"),
            *(_row(name, solver.title, solver.source) for name, solver in solvers),
        ]
    )


def _rows(*titles: str) -> tuple[str, str]:
    """The head of a table."""
    return f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"


def _row(name: str, *cells: str) -> str:
    return f"| {' | '.join([f'`{name}`', *cells])} |"


def _paragraph(of: type) -> str:
    return (inspect.getdoc(of) or "").partition("\n\n")[0].replace("\n", " ")


def _summary(of: type) -> str:
    return (inspect.getdoc(of) or "").partition("\n")[0].rstrip(".")


def _noises(kinds: Sequence[str]) -> str:
    return ", ".join(f"`{kind}`" for kind in kinds)


def render_list(entries: list[dict[str, Any]], out: Console) -> None:
    """All of them, a line each."""
    for kind, title, hint in (
        ("algorithm", "Algorithms", "a section of the config of the same name"),
        ("model", "Models that learn online", "model.algorithm: NAME"),
        ("solver", "Private batch solvers", "model.solver: NAME"),
        ("continual_sum", "Mechanisms for running sums", "mechanism.continual_sum: NAME"),
    ):
        rows = table("name", "what it is", "noise")
        for entry in entries:
            if entry["kind"] == kind:
                noises = ", ".join(noise.replace("_", " ") for noise in entry["noises"])
                rows.add_row(entry["name"], entry["title"], noises)
        out.print(Text.assemble(heading(title), (f"  ({hint})", "dim")))
        out.print(indent(rows))
    out.print(Text("\n`weir algorithms NAME` tells more.", style="dim"))


def render_one(entry: dict[str, Any], out: Console) -> None:
    """One of them, with its fields."""
    out.print(Text.assemble((entry["name"], "bold"), f"  {entry['title']}"))
    if entry["about"] and entry["about"] != entry["title"]:
        out.print(Padding(Text(entry["about"]), (1, 0, 0, 2), expand=False))
    if entry["source"]:
        out.print(indent(Text(f"Source: {entry['source']}")))
    rows = table("field", "what it does")
    section = SECTIONS[entry["kind"]]
    for name, about in entry["fields"].items():
        rows.add_row(f"{section}.{name}", Text(about))  # brackets in it are no markup
    out.print(heading("Fields"))
    out.print(indent(rows))


def fields_page() -> str:
    """Markdown: a table for the top, and one for each section that has fields, by its YAML key."""
    schema = json_schema()
    titles = _titles(schema)
    parts = ["# Config\n", f"{schema['description']}\n", *_table(schema, titles)]
    for name, title in titles.items():
        section = schema["$defs"][name]
        parts += [
            f"\n## {title}\n",
            f"{_line(section.get('description', ''))}\n",
            *_table(section, titles),
        ]
    return "\n".join(parts) + "\n"


def _titles(schema: Mapping[str, Any]) -> dict[str, str]:
    """Section -> where it stands in a config: its path, and what tells it from its alternatives."""
    known = schema["$defs"]
    titles: dict[str, str] = {}

    def walk(section: Mapping[str, Any], path: str, model: str) -> None:
        for name, field in section.get("properties", {}).items():
            kinds = [kind for kind in _refs(field) if known[kind].get("properties")]
            here = f"{path}{name}.NAME" if "additionalProperties" in field else f"{path}{name}"
            fresh = [kind for kind in kinds if kind not in titles]
            for kind in fresh:
                mark = f" with `{_mark(kind, kinds, known)}`" if len(kinds) > 1 else ""
                title = f"`{here}`{mark}"
                titles[kind] = f"{title} for `{model}`" if title in titles.values() else title
            for kind in fresh:
                algorithm = known[kind]["properties"].get("algorithm", {})
                walk(known[kind], f"{here}.", _mark(kind, kinds, known) if algorithm else model)

    walk(schema, "", "")
    return titles


def _mark(kind: str, kinds: Sequence[str], known: Mapping[str, Any]) -> str:
    """The field that one of several sections has and the others lack, or its algorithm."""
    fields = known[kind]["properties"]
    algorithm = fields.get("algorithm", {})
    named = algorithm.get("const") or (algorithm.get("enum") or [None])[0]
    if named is not None:
        return f"algorithm: {named}"
    others = {name for other in kinds if other != kind for name in known[other]["properties"]}
    own = [name for name in known[kind].get("required", ()) if name not in others]
    return str(own[0] if own else next(name for name in fields if name not in others))


def _table(section: Mapping[str, Any], titles: Mapping[str, str]) -> Iterator[str]:
    yield "| field | what it holds | example |"
    yield "|---|---|---|"
    required = section.get("required", ())
    for name, field in section["properties"].items():
        about = _line(field.get("description", ""))
        kinds = [f"[{titles[k]}](#{anchor(titles[k])})" for k in _refs(field) if k in titles]
        if kinds:
            about = f"{about} {'One of ' if len(kinds) > 1 else 'See '}{', '.join(kinds)}."
        if name in required:
            about += " Required."
        examples = field.get("examples", ())
        shown = f"`{_line(json.dumps(examples[0], ensure_ascii=False))}`" if examples else ""
        yield f"| `{name}` | {about.strip()} | {shown} |"


def _refs(field: Any) -> list[str]:
    """Sections that a field may hold."""
    if isinstance(field, list):
        return [name for item in field for name in _refs(item)]
    if not isinstance(field, dict):
        return []
    own = [field["$ref"].rpartition("/")[2]] if "$ref" in field else []
    inner = [name for key, item in field.items() if key in ("anyOf", "oneOf", "items", "allOf",
             "additionalProperties") for name in _refs(item)]  # fmt: skip
    return list(dict.fromkeys([*own, *inner]))


def anchor(title: str) -> str:
    """The anchor that a heading has on the site."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _line(text: str) -> str:
    """In one cell of a table, and never HTML."""
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")


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
    options = [param for param in command.get_params(ctx) if isinstance(param, click.Option)]
    rows = [record for option in options if (record := option.get_help_record(ctx))]
    usage = " ".join(command.collect_usage_pieces(ctx))
    yield Told(name, usage, tuple(_paragraphs(command.help or "")), tuple(rows))
    if isinstance(command, click.Group):
        for below in command.list_commands(ctx):
            result = command.get_command(ctx, below)
            if result is not None and not result.hidden:
                yield from told(result, f"{name} {below}", ctx)


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs; one that click is told to leave alone begins with a line feed."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        retained = part.removeprefix("\b\n")
        yield f"\n{retained}" if retained != part else " ".join(part.split())


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
    for item in rest:
        lines += [f".SS {_roff(f'{item.name} {item.usage}'.strip())}", *_body(item.paragraphs)]
        lines += _options(item)
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


def _options(item: Told) -> Iterator[str]:
    for written, about in item.options:
        yield from (".TP", rf"\fB{_roff(written)}\fR", _roff(about) or r"\&")


def _roff(text: str) -> str:
    """Text that roff prints as it stands."""
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def commands_markdown(command: click.Command, name: str) -> str:
    """The whole as a page of the site."""
    parts = ["# Commands\n"]
    for item in told(command, name):
        parts.append(f"{'##' if item.name.count(' ') < 2 else '###'} `{item.name}`\n")
        parts.append(f"```\n{item.name} {item.usage}".rstrip() + "\n```\n")
        for text in item.paragraphs:
            parts.append(
                f"```\n{inspect.cleandoc(text[1:])}\n```\n" if text[:1] == "\n" else f"{text}\n"
            )
        if item.options:
            parts.append("| option | |\n|---|---|")
            parts += [f"| `{_cell(written)}` | {_cell(about)} |" for written, about in item.options]
            parts.append("")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")
