"""The page of proofs leads to every docstring with a guarantee, and to tests that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "contributors" / "proofs.md").read_text()
NAMED = set(re.findall(r"`((?:dpcore|transforms)/[\w/]+\.py)`", PAGE))
REPLAYS = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", PAGE)))


def test_every_guarantee_has_a_row() -> None:
    stated = {
        path.relative_to(ROOT).as_posix()
        for package in ("dpcore", "transforms")
        for path in (ROOT / package).rglob("*.py")
        if "Formal guarantees" in path.read_text()
    }
    assert len(stated) > 70
    assert sorted(stated - NAMED) == []


def test_every_row_leads_somewhere() -> None:
    assert sorted(path for path in NAMED if not (ROOT / path).is_file()) == []


@cache
def names_in(path: str) -> set[str]:
    """The functions of a file."""
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("replay", REPLAYS)
def test_every_test_that_is_named_is_there(replay: str) -> None:
    path, _, name = replay.partition("::")
    there = names_in(path)
    assert name in there if name else any(each.startswith("test_") for each in there)


def test_rows_are_whole() -> None:
    for line in PAGE.splitlines():
        if line.startswith("|"):
            cells = line.replace("\\|", "").strip("|").split("|")
            assert len(cells) == 5, line
