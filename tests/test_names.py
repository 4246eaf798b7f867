"""Holds that a class name stands for one class in the product."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.sources import FILES, name_of

SHARED: Mapping[str, int] = {
    "Bag": 2,
    "Cell": 2,
    "Deduplicate": 2,
    "Entry": 2,
    "Head": 2,
    "Held": 3,
    "PrivateReleases": 2,
    "Progress": 2,
    "Released": 2,
    "_Held": 2,
}
"""Names that still stand for several classes, and for how many. It only shrinks: anyone who renames
one removes its line."""


def classes(files: Iterable[Path]) -> dict[str, list[str]]:
    """Class name -> files that define one of that name."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name_of(path))
    return places


@pytest.mark.slow
def test_class_names_are_unique() -> None:
    several = {name: files for name, files in classes(FILES).items() if len(files) > 1}
    new = {name: files for name, files in several.items() if len(files) > SHARED.get(name, 1)}
    assert new == {}
    assert {name: len(files) for name, files in several.items()} == SHARED, "shrink SHARED"


def test_a_second_class_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.sources.ROOT", tmp_path)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("class Same:\n    pass\n")
    assert classes(sorted(tmp_path.glob("*.py"))) == {"Same": ["a.py", "b.py"]}
