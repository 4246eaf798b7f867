"""Words of the pages, of what commands print and of names are those of the field (language.txt)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sources import FILES, faults_of, name_of
from tests.test_docs import README, ROOT, TEXT

BANNED = [
    line.split("\t")
    for line in (ROOT / "tests" / "language.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
"""(pattern, what to write instead)."""
ANY = re.compile("|".join(pattern for pattern, _ in BANNED), re.IGNORECASE)
FOREIGN = {"reference/algorithms"}
"""The page whose words are those of the code."""
LOCAL = {"told", "found", "kept", "made", "given"}
"""Names of no local variable: they do not say what it holds."""
PAGES = [
    ROOT / "pipelines" / "report" / "page.js",
    *sorted((ROOT / "pipelines").rglob("templates/*.html")),
]
"""What the pages of reports are made from."""
APART = [
    ROOT / "SECURITY.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "deploy").rglob("*.md")),
    *sorted((ROOT / "benchmarks").rglob("*.md")),
]
"""Pages outside of the documentation; the change log says what was as it was called then."""
SCOPES = ast.FunctionDef | ast.AsyncFunctionDef


def running(text: str) -> str:
    """Text without code, and without where its links lead."""
    without = re.sub(r"^( *)```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", without)


def strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text) of the strings of a module that people may read: of several words, and no
    docstrings."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in bare:
            continue
        if isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def banned(text: str) -> list[str]:
    """Which banned words a text has."""
    if ANY.search(text) is None:
        return []
    return [
        f"{match[0]!r}: write {better}"
        for pattern, better in BANNED
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]


@pytest.mark.parametrize("page", ["README", *sorted(set(TEXT) - FOREIGN)])
def test_words_are_those_of_the_field(page: str) -> None:
    text = running(README if page == "README" else TEXT[page])
    assert banned(text) == []


@pytest.mark.parametrize("page", APART, ids=name_of)
def test_words_of_other_pages_are_those_of_the_field(page: Path) -> None:
    """Of those on security, on contributing, on operation and on measurements."""
    assert banned(running(page.read_text())) == []


@pytest.mark.parametrize(
    "words",
    [
        *[
            "promise",
            "caps",
            "bands",
            "beside",
            "told",
            "anew",
            "dear",
            "rehearsal",
            "twin",
            "leaf",
            "lattice",
            "whoever",
        ],
        *(
            "second look",
            "made-up events",
            "protected for",
            "nobody's events",
            "private keys",
        ),
    ],
)
def test_a_banned_word_is_found(words: str) -> None:
    assert any(re.search(pattern, words, re.IGNORECASE) for pattern, _ in BANNED)


def test_terms_of_the_field_are_not_banned() -> None:
    fine = "private key discovery, dead-letter output, capacity, leaves out, bandwidth, dry run"
    assert not any(re.search(pattern, fine, re.IGNORECASE) for pattern, _ in BANNED)


CODE = re.compile(r"`[^`]*`|\{\w+\}|\w+[./]\w+|\w+/|weir rehearse|--[\w-]+")


@pytest.mark.slow
def test_words_that_commands_print_and_locals_are_those_of_the_field() -> None:
    """Messages, help, plans and reports; names of fields, of commands and of folders are code."""

    def rule(path: Path) -> list[Any]:
        tree = ast.parse(path.read_text())
        said = ((line, banned(CODE.sub("", text))) for line, text in strings(tree))
        return [*((line, words) for line, words in said if words), *vague(tree)]

    assert len(FILES) > 400
    assert faults_of(FILES, rule) == {}


def vague(tree: ast.Module) -> set[tuple[int, str]]:
    """(line, name) of local variables that do not say what they hold."""
    outermost = [
        node
        for body in (
            tree.body,
            *(item.body for item in tree.body if isinstance(item, ast.ClassDef)),
        )
        for node in body
        if isinstance(node, SCOPES)
    ]
    return {
        (node.lineno, node.id)
        for scope in outermost
        for node in ast.walk(scope)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in LOCAL
    }


def test_a_vague_name_is_found() -> None:
    assert vague(ast.parse("class A:\n def f(self):\n  found = 1")) == {(3, "found")}


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_words_of_pages_of_reports_are_those_of_the_field(path: Path) -> None:
    text = path.read_text()
    if path.suffix == ".js":
        shown = [
            part for part in re.findall(r'"[^"\n]*"|`[^`\n]*`', text) if " " in part.strip('"` ')
        ]
        text = "\n".join(re.sub(r"\$\{[^}]*\}", "", part) for part in shown)
    assert banned(re.sub(r"\{[{%].*?[%}]\}|<[^>]*>", "", text)) == []


def test_a_banned_word_of_a_message_is_found() -> None:
    tree = ast.parse('raise ConfigError("a.b", 1, f"cannot stand beside {a}.")')
    assert [banned(text) for _, text in strings(tree)] == [
        ["'beside': write next to; compared with; in addition to"]
    ]
