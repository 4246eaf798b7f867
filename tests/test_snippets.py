"""What the pages show is run: configs are planned, commands called, Python and SQL executed.

In the pages of ``RUN`` every fenced block with a language runs, top to bottom, in one folder: a
config whose first line is ``# file: NAME`` is written there, one without is laid over the last such
config and planned. The first hour leaves its folder to the pages behind it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from mkdocs.commands.build import build
from mkdocs.config import load_config

from weir.dpcore.config import yaml
from weir.dpcore.registry import AGGREGATES
from weir.pipelines.cli.main import main
from weir.pipelines.config.job import JobConfig, loads
from weir.pipelines.graph.checks import plan_of

ROOT = Path(__file__).resolve().parents[1]
RUN = (
    "tutorial/first-release",
    "how-to/results-in-sql",
    "how-to/choose-epsilon",
    "how-to/choose-bounds",
    "tutorial/notebook",
    "how-to/beam-and-notebooks",
    "how-to/one-table",
    "how-to/read-data-in-place",
)
"""Pages that are run, in an order in which each finds what it needs."""
ELSEWHERE = {
    "contributors/extending": "tests/contracts/test_extending.py",
    "how-to/ledger": "tests/test_docs.py",
    "reference/commands": "tests/test_docs.py",
}
"""Pages whose blocks another file runs."""
BLOCK = re.compile(r"^```([a-z]+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
WEIR = re.compile(r"weir ")


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of the fenced blocks of a page that name one."""
    return BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text())


class Reader:
    """Somebody who types what a page shows."""

    def __init__(self) -> None:
        first = Path("visits.yaml")  # of the tutorial, once it has been read
        self.config: dict[str, Any] = {}
        if first.exists():
            self.config = yaml.parse_mapping(first.read_text(), {})
        self.names: dict[str, Any] = {"__name__": "a page"}

    def yaml(self, text: str) -> None:
        named = re.match(r"# file: (\S+)\n", text)
        if named:
            Path(named[1]).write_text(text)
            self.config = yaml.parse_mapping(text, {})
            plan_of(loads(text))
            return
        given = yaml.parse_mapping(text, {})
        whole = given if "name" in given else {**self.config, **given}
        plan_of(JobConfig.from_dict({k: v for k, v in whole.items() if v is not None}))

    def sh(self, text: str) -> None:
        for line in text.replace("\\\n", " ").splitlines():
            if not WEIR.match(line):
                subprocess.run(["bash", "-euc", line], check=True)
                continue
            words = shlex.split(line, comments=True)[1:]
            out = words.index(">") if ">" in words else len(words)
            done = CliRunner().invoke(main, words[:out])
            assert done.exit_code == 0, (line, done.output)
            if out < len(words):
                Path(words[out + 1]).write_text(done.stdout)

    def python(self, text: str) -> None:
        exec(compile(text, "a page", "exec"), self.names)

    def sql(self, text: str) -> None:
        for query in filter(str.strip, text.split(";")):
            assert duckdb.sql(query).fetchall(), query


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    here = Path.cwd()
    place = tmp_path_factory.mktemp("reader")
    os.chdir(place)
    yield place
    os.chdir(here)


@pytest.mark.slow
def test_every_block_of_the_pages_that_are_run_runs(folder: Path) -> None:
    for page in RUN:
        reader = Reader()
        found = blocks(page)
        assert found
        for language, text in found:
            getattr(reader, language)(text)
    plan = json.loads((folder / "out" / "_plan.json").read_text())
    assert plan["name"] == "visits" and (folder / "out" / "_COMPLETE").exists()
    assert "read_parquet" in (folder / "weir_sources.yml").read_text()


def test_one_table_has_an_example_of_each_aggregate_with_its_output() -> None:
    page = (ROOT / "docs/how-to/one-table.md").read_text()
    pairs = re.findall(r"^```python\n([^`]*print[^`]*)^```\n^```\n([^`]+)^```", page, re.MULTILINE)
    for name in AGGREGATES.own:
        assert any(f'{{"{name}": ' in code for code, _ in pairs), name
    for code, shown in pairs:
        fields = code[code.index("config = {\n") :].partition("\n}\n")[0].splitlines()[1:]
        assert sum(re.match(r'    "', line) is not None for line in fields) <= 6 and shown.strip()
    assert len(pairs) == page.count("weir.release(table")


@pytest.mark.slow
def test_every_page_with_blocks_is_run_or_its_configs_are_planned() -> None:
    for path in sorted((ROOT / "docs").rglob("*.md")):
        page = path.relative_to(ROOT / "docs").with_suffix("").as_posix()
        if page in (*RUN, *ELSEWHERE):
            continue
        reader = Reader()
        for language, text in blocks(page):
            assert language == "yaml", (path.name, language)
            if "name" in yaml.parse_mapping(text, {}):  # else it is a file of another sort
                reader.yaml(text)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(place)))  # strict: a warning fails it
    return place


@pytest.mark.slow
def test_the_site_has_every_page_and_a_reference_of_the_code(site: Path) -> None:
    for path in (ROOT / "docs").rglob("*.md"):
        page = path.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / page).exists(), page
    commands = (site / "reference" / "commands.html").read_text()
    assert all(f"weir {name}" in commands for name in main.commands)
    config = (site / "reference" / "config.html").read_text()
    assert all(f"<code>{name}</code>" in config for name in ("epsilon", "protect_for", "declared"))
    assert "conditional_gradient" in (site / "reference" / "algorithms.html").read_text()
    assert not (site / "hooks.py").exists()


@pytest.mark.slow
def test_search_works_on_pages_that_are_opened_as_files(site: Path) -> None:
    """A browser starts no worker from a file, so the index is a script and the worker a frame."""
    index = (site / "search" / "search_index.js").read_text()
    assert "What the margin of error does not contain" in index
    for page in ("index.html", "how-to/troubleshoot.html"):
        assert "assets/iframe-worker.js" in (site / page).read_text()
    assert (site / "assets" / "iframe-worker.js").exists()


@pytest.mark.slow
def test_the_site_asks_nobody_else_for_anything(site: Path) -> None:
    for path in site.rglob("*.html"):
        text = path.read_text()
        for found in re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="([^"]+)"', text):
            assert not found.startswith(("http:", "https:", "//")), (path.name, found)
