"""``weir algorithms``: what this build can run, where it comes from, and which fields it reads."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from weir.dpcore.aggregates.config import known_fields
from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError
from weir.dpcore.registry import AGGREGATES, CONTINUAL_SUMS, MODELS, SOLVERS, describe
from weir.pipelines.terminal import heading, table

SECTIONS = {
    "algorithm": "aggregates.NAME",
    "model": "model",
    "solver": "model",
    "continual_sum": "mechanism",
}
"""Kind -> the section of a config whose fields are told."""


def catalogue() -> list[dict[str, Any]]:
    """Every algorithm, JSON-able: name, kind, title, about, source, noises, fields."""
    found: list[dict[str, Any]] = [
        {
            "name": "aggregates",
            "kind": "algorithm",
            "title": "running and sliding aggregates",
            "about": f"{', '.join(AGGREGATES)} per key and tick, from one joint noisy sum.",
            "source": "",
            "noises": ["gaussian", "discrete_gaussian", "k_norm"],
            "fields": known_fields(),
        }
    ]
    for name, model in MODELS.items():
        found.append(
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
        found.append(
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
        found.append(
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
    return found


def one(name: str) -> dict[str, Any]:
    """The algorithm of that name.

    Raises:
      ConfigError: there is none, with the nearest name.
    """
    found = {entry["name"]: entry for entry in catalogue()}
    if name not in found:
        raise ConfigError("NAME", name, f"is not an algorithm here; {nearest(name, list(found))}")
    return found[name]


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
            *(_row(one.name, one.title, _noises(one.noises), one.source) for one in sums),
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
            *(_row(name, one.title, _noises(one.noises), one.source) for name, one in models),
            "",
            "## Solvers",
            "`model: {solver: NAME}`, of `regression.erm` and `regression.naive`.",
            "",
            *_rows("name", "what it is", "source"),
            *(_row(name, one.title, one.source) for name, one in solvers),
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
        out.print(Padding(rows, (0, 0, 0, 2), expand=False))
    out.print(Text("\n`weir algorithms NAME` tells more.", style="dim"))


def render_one(entry: dict[str, Any], out: Console) -> None:
    """One of them, with its fields."""
    out.print(Text.assemble((entry["name"], "bold"), f"  {entry['title']}"))
    if entry["about"] and entry["about"] != entry["title"]:
        out.print(Padding(Text(entry["about"]), (1, 0, 0, 2), expand=False))
    if entry["source"]:
        out.print(Padding(Text(f"Source: {entry['source']}"), (0, 0, 0, 2), expand=False))
    rows = table("field", "what it does")
    section = SECTIONS[entry["kind"]]
    for name, about in entry["fields"].items():
        rows.add_row(f"{section}.{name}", Text(about))  # brackets in it are no markup
    out.print(heading("Fields"))
    out.print(Padding(rows, (0, 0, 0, 2), expand=False))
