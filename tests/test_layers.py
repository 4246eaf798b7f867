"""Holds the direction of imports, and keeps files, time and randomness where they belong."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dpcore", "transforms", "pipelines")
MAY_IMPORT = {
    "dpcore": {"dpcore"},
    "transforms": {"dpcore", "transforms"},
    "pipelines": {"dpcore", "transforms", "pipelines"},
}
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]

IMPURE = {
    "apache_beam": "Beam",
    "asyncio": "an event loop",
    "datetime.datetime.now": "the time",
    "glob": "files",
    "os": "the environment",
    "pathlib": "files",
    "shutil": "files",
    "socket": "the network",
    "subprocess": "processes",
    "tempfile": "files",
    "threading": "threads",
    "time": "the time",
    "urllib": "the network",
}
"""What dpcore must not import, and what it would get by it."""

PRINTS = {"benchmarks/fit_tables.py"}
"""Run by hand to print the tables again."""

RANDOM_MODULES = {"random", "secrets", "uuid", "numpy.random", "randomgen"}
RANDOM_CALLS = {"urandom", "getrandom", "default_rng", "RandomState", "SeedSequence", "token_bytes"}
EXCEPT = {
    "transforms/runtime/secret.py": {"secrets", "secrets.token_bytes", "secrets.token_hex"},
    "transforms/sinks/place.py": {"uuid"},
    "transforms/sources/pubsub/source.py": {"uuid"},
    "transforms/tick/heartbeats.py": {"uuid"},
}
"""What may ask the system for random bytes: a fresh secret, and names of files and of runs."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every imported module, as (line, dotted name)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative imports hide the layer"
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def calls(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every called name, as (line, dotted name as written)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


def within(module: str, parent: str) -> bool:
    return module == parent or module.startswith(parent + ".")


def layer_faults(package: str, tree: ast.AST) -> list[str]:
    ours = {*PACKAGES, "tests", "benchmarks"} - MAY_IMPORT[package]
    return [
        f"line {line}: {package} imports {module}"
        for line, module in imports(tree)
        if module.split(".")[0] in ours
    ]


def purity_faults(tree: ast.AST, prints: bool = False) -> list[str]:
    found = [
        f"line {line}: imports {module} ({what})"
        for line, module in imports(tree)
        for impure, what in IMPURE.items()
        if within(module, impure)
    ]
    for line, call in calls(tree):
        last = call.split(".")[-1]
        if call in {"open", "input", "exec", "eval"} or last in {"getenv", "now", "today"}:
            found.append(f"line {line}: calls {call}")
        if call == "print" and not prints:
            found.append(f"line {line}: calls {call}")
        if call in {"np.load", "np.save", "np.fromfile", "np.loadtxt", "np.genfromtxt"}:
            found.append(f"line {line}: calls {call}")
    for node in ast.walk(tree):
        of_sys = isinstance(node, ast.Attribute) and ast.unparse(node.value) == "sys"
        if of_sys and node.attr not in {"byteorder", "maxsize"}:
            found.append(f"line {node.lineno}: reads sys.{node.attr}")
    return found


def randomness_faults(tree: ast.AST, allowed: set[str] | None = None) -> list[str]:
    allowed = allowed or set()
    found = [
        f"line {line}: imports {module}"
        for line, module in imports(tree)
        for source in RANDOM_MODULES - allowed
        if within(module, source)
    ]
    for line, call in calls(tree):
        parts = call.split(".")
        drawn = parts[-1] in RANDOM_CALLS or "random" in parts[:-1] or "rvs" in parts
        if drawn and call not in allowed:
            found.append(f"line {line}: calls {call}")
    return found


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_never_point_back(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert layer_faults(package, ast.parse(path.read_text())) == []


@pytest.mark.parametrize("path", [p for p in FILES if "dpcore" in p.parts], ids=name_of)
def test_dpcore_knows_no_beam_no_files_no_time(path: Path) -> None:
    assert purity_faults(ast.parse(path.read_text()), name_of(path) in PRINTS) == []


@pytest.mark.parametrize("path", [p for p in FILES if "noise" not in p.parts], ids=name_of)
def test_only_dpcore_noise_makes_randomness(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert randomness_faults(tree, EXCEPT.get(name_of(path))) == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_leans_on_pandas(path: Path) -> None:
    """It is no dependency of ours, and Arrow imports it behind some of its names."""
    tree = ast.parse(path.read_text())
    names = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    assert not [name for name in names if "pandas" in name]
    assert not [module for _, module in imports(tree) if within(module, "pandas")]


@pytest.mark.parametrize(
    "code",
    [
        "import transforms.tick.tick",
        "from pipelines.cli import main as cli",
        "def f():\n    from transforms.tick.tick import Tick",
    ],
)
def test_a_backward_import_is_seen(code: str) -> None:
    assert layer_faults("dpcore", ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "import os",
        "from time import time",
        "open('x')",
        "datetime.now()",
        "import os.path",
        "sys.argv",
        "print(1)",
    ],
)
def test_impurity_is_seen(code: str) -> None:
    assert purity_faults(ast.parse(code))


@pytest.mark.parametrize(
    "code",
    [
        "import random",
        "from numpy.random import default_rng",
        "x = np.random.default_rng(0)",
        "np.random.normal()",
        "os.urandom(32)",
        "norm.rvs(3)",
    ],
)
def test_a_generator_is_seen(code: str) -> None:
    assert randomness_faults(ast.parse(code))
