"""What the pages for operators tell them to type and to open is there."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from weir.pipelines.cli.main import main
from weir.pipelines.config.job import json_schema

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    DOCS / "how-to" / "flink.md",
    DOCS / "how-to" / "dataflow.md",
    DOCS / "how-to" / "run-over-files.md",
    DOCS / "how-to" / "upgrade.md",
    DOCS / "how-to" / "troubleshoot.md",
    DOCS / "how-to" / "report.md",
    DOCS / "reference" / "counters.md",
    DOCS / "reference" / "config.md",
    DOCS / "explanation" / "threat-model.md",
]
PAGE = "\n".join(page.read_text() for page in PAGES)
ALERTS = (ROOT / "deploy" / "alerts" / "weir.rules.yaml").read_text()
SAID = re.findall(r"`([^`\n]+)`", PAGE)
SECTIONS = {"source", "secret", "sink", "dead_letters", "schema", "clock", "engine", "deduplicate",
            "limits"}  # fmt: skip
BEAMS = {
    "--environment_type",
    "--experiments",
    "--max_cache_memory_usage_mb",
    "--max_parallelism",
    "--operator_chaining",
    "--update",
}


def fields() -> set[str]:
    """Dotted paths of the config's fields, as its JSON Schema has them."""
    schema = json_schema()
    known = schema["$defs"]
    found: set[str] = set()

    def walk(node: object, path: str) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                walk(known[node["$ref"].rpartition("/")[2]], path)
            for name, inner in node.get("properties", {}).items():
                found.add(f"{path}.{name}".lstrip("."))
                walk(inner, f"{path}.{name}")
            for part in ("anyOf", "oneOf", "allOf"):
                for inner in node.get(part, []):
                    walk(inner, path)

    walk(schema, "")
    return found


@pytest.mark.parametrize("text", sorted({t for t in SAID if re.match(r"weir \w", t)}))
def test_weir_is_called_as_it_is(text: str) -> None:
    words = text.split()
    command = main.commands[words[1]]
    assert isinstance(command, click.Command)
    options = {option for p in command.params for option in p.opts} | BEAMS
    for word in words[2:]:
        if word.startswith("--"):
            assert word.partition("=")[0] in options, text


def test_options_that_are_named_alone_exist() -> None:
    options = {o for c in main.commands.values() for p in c.params for o in p.opts} | BEAMS
    for text in SAID:
        for option in re.findall(r"(?:^|(?<= ))--[a-z][a-z_-]+", text):
            if text.startswith("--"):
                assert option in options, text


def test_files_that_are_named_exist() -> None:
    named = set(re.findall(r"\b(?:deploy|benchmarks|docs)/[\w./-]*\w", PAGE))
    assert named
    for name in named:
        assert (ROOT / name).exists(), name


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z ]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    known = {name for line in targets for name in line.split()}
    assert set(re.findall(r"`make ([a-z]+)`", PAGE)) <= known


def test_fields_that_are_named_exist() -> None:
    known = fields()
    for text in SAID:
        if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", text) and text.partition(".")[0] in SECTIONS:
            assert text in known, text


def test_every_alert_is_told() -> None:
    told = set(re.findall(r"^\| `Weir.*$", PAGE, re.MULTILINE))
    assert set(re.findall(r"`(Weir\w+)`", "\n".join(told))) == set(
        re.findall(r"alert: (\w+)", ALERTS)
    )


def test_what_was_asked_for_is_there() -> None:
    titles = set(re.findall(r"^## (.+)$", PAGE, re.MULTILINE))
    assert titles >= {
        "Start",
        "Stop and go on",
        "Upgrade",
        "Rotate the secret",
        "Rescale",
        "When it lags",
        "Kill drill",
        "Capacity",
        "What an operator can see and must protect",
    }
