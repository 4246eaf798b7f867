"""Builds the wheel and looks at it as a user's machine would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import tests

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dpcore", "transforms", "pipelines", "weir")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pip(*arguments: str, cwd: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what packages are built from, so that nothing is left behind in the real one."""
    tree = tmp_path_factory.mktemp("packaging") / "tree"
    tree.mkdir()
    for name in (*PACKAGES, "tests", "examples"):
        shutil.copytree(
            ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.so")
        )
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    return tree


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    """The wheel."""
    base = tree.parent
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(base), ".", cwd=tree)
    (built,) = base.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder with the wheel in it and nothing else of ours on the path."""
    target = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--target", str(target), str(wheel), cwd=target)
    return target


def weir(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, str(installed / "bin" / "weir"), *arguments],
        cwd=installed,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_wheel_holds_every_module_and_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    assert expected <= names
    assert not [
        name
        for name in names
        if name.split("/")[0] in {"tests", "benchmarks", "deploy", "examples"}
    ]
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == set(PACKAGES)


def test_wheel_holds_the_data_files_of_the_packages(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    data = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc", ".c", ".h", ".so"}
    }
    assert data <= names


def test_kernels_are_built_for_every_python(wheel: Path) -> None:
    """With a compiler at hand; without one the wheel lacks them, and nothing else."""
    built = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]
    if shutil.which("cc") or shutil.which("gcc"):
        assert built == ["dpcore/native/_kernels.abi3.so"]
        assert "-cp311-abi3-" in wheel.name


def test_wheel_builds_without_a_compiler(tree: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "CC": "/nowhere/cc"}
    command = [sys.executable, "setup.py", "-q", "build", "--build-base", str(tmp_path / "build")]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.rglob("*.so"))
    assert list(tmp_path.rglob("dpcore/native/__init__.py"))


def test_what_ships_to_workers_holds_the_sources_of_kernels(tree: Path, tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(tmp_path)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    (shipped,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(shipped) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "dpcore" / "native").iterdir()
        if path.suffix in {".c", ".h"}
    }
    assert sources and sources <= names


def test_wheel_carries_licence_and_version(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in names if name.endswith("LICENSE")]
    assert wheel.name.startswith(f"weir-{PROJECT['version']}-")


def test_installed_command_runs_away_from_the_tree(installed: Path) -> None:
    done = weir(installed, "--version")
    assert done.returncode == 0, done.stderr
    assert PROJECT["version"] in done.stdout


def test_installed_packages_come_from_the_wheel(installed: Path) -> None:
    code = "import dpcore, transforms, pipelines, weir; print(dpcore.__file__, weir.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=installed,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(path.startswith(str(installed)) for path in done.stdout.split())


def test_no_library_stands_in_the_place_of_tests() -> None:
    """Some ship a package of that name, and tests import helpers from here."""
    assert tests.__file__ == str(ROOT / "tests" / "__init__.py")
