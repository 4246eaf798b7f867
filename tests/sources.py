"""The Python files of the repository, and what they import, call and read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dpcore", "transforms", "pipelines", "weir")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
SOURCES = [
    *FILES,
    *(
        path
        for folder in ("tests", "benchmarks", "examples", "deploy")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ),
]
"""Every Python file of the repository, each once: links are not followed."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    """The name by which a file of ours is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts if parts[0] == "weir" else ("weir", *parts))


def within(module: str, parent: str) -> bool:
    return module == parent or module.startswith(parent + ".")


class Code:
    """What a text of Python imports, calls and reads, each with its line. Walked once."""

    def __init__(self, text: str) -> None:
        self.imports: list[tuple[int, str]] = []
        """Every imported module, as (line, dotted name)."""
        self.calls: list[tuple[int, str]] = []
        """Every called name, as (line, dotted name as written)."""
        self.attributes: list[tuple[int, str, str]] = []
        """Every attribute, as (line, that of which it is as written, name)."""
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                self.imports += [(node.lineno, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"line {node.lineno}: relative imports hide the layer"
                self.imports += [
                    (node.lineno, f"{node.module}.{alias.name}") for alias in node.names
                ]
            elif isinstance(node, ast.Call):
                self.calls.append((node.lineno, ast.unparse(node.func)))
            elif isinstance(node, ast.Attribute):
                self.attributes.append((node.lineno, _name(node.value), node.attr))


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


@cache
def code_of(path: Path) -> Code:
    return Code(path.read_text())


def faults_of(files: Iterable[Path], rule: Callable[[Path], Sequence[str]]) -> dict[str, Any]:
    """What a rule says of each file of which it says something."""
    return {name_of(path): faults for path in files if (faults := rule(path))}
