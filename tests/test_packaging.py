"""Builds the wheel, and uses it as a user does: in an environment and a folder of one's own."""

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
from tests.wheel import FOLDERS, FOREIGN, ROOT, Installed, installed

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONFIG = """name: visits
source: {csv: visits.csv}
schema: {time: at}
key: {column: city, declared: [Bern]}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-03T00:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
aggregates: {visits: {count: events}}
sink: {csv: out/}
"""
EVENTS = "at,city\n2025-01-01T10:00:00Z,Bern\n2025-01-02T10:00:00Z,Bern\n"


@pytest.fixture(scope="module")
def user() -> Installed:
    """The wheel in a fresh environment, and a user's folder with a job."""
    found = installed()
    (found.folder / "job.yaml").write_text(CONFIG)
    (found.folder / "visits.csv").write_text(EVENTS)
    return found


def shipped_name(path: Path) -> str:
    """Name in an archive of a file of the repository."""
    name = path.relative_to(ROOT).as_posix()
    return name if name.startswith("weir/") else f"weir/{name}"


def names_of(user: Installed) -> set[str]:
    return set(zipfile.ZipFile(user.wheel).namelist())


def test_wheel_holds_one_package_with_every_module(user: Installed) -> None:
    names = names_of(user)
    modules = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    assert {shipped_name(path) for path in modules} <= names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"weir"}
    (top,) = (name for name in names if name.endswith(".dist-info/top_level.txt"))
    assert zipfile.ZipFile(user.wheel).read(top).split() == [b"weir"]


def test_wheel_holds_the_data_files_of_the_package(user: Installed) -> None:
    data = {
        shipped_name(path)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc", ".c", ".h", ".so"}
    }
    assert data <= names_of(user)


def test_kernels_are_built_for_every_python(user: Installed) -> None:
    """With a compiler at hand; without one the wheel lacks them, and nothing else."""
    built = [name for name in names_of(user) if name.endswith(".so")]
    if shutil.which("cc") or shutil.which("gcc"):
        assert built == ["weir/dpcore/native/_kernels.abi3.so"]
        assert "-cp311-abi3-" in user.wheel.name


def test_wheel_builds_without_a_compiler(user: Installed, tmp_path: Path) -> None:
    environment = {**os.environ, "CC": "/nowhere/cc"}
    command = [sys.executable, "setup.py", "-q", "build", "--build-base", str(tmp_path / "build")]
    done = subprocess.run(command, cwd=user.tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.rglob("*.so"))
    assert list(tmp_path.rglob("weir/dpcore/native/__init__.py"))


def test_what_ships_to_workers_holds_the_sources_of_kernels(
    user: Installed, tmp_path: Path
) -> None:
    command = [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", str(tmp_path)]
    subprocess.run(command, cwd=user.tree, check=True, capture_output=True)
    (shipped,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(shipped) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    native = (path for path in (ROOT / "dpcore" / "native").iterdir())
    sources = {f"dpcore/native/{path.name}" for path in native if path.suffix in {".c", ".h"}}
    assert sources and sources <= names
    assert "weir/dpcore/__init__.py" in names


def test_a_copy_without_links_is_refused_in_words(user: Installed, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(user.tree, tree, symlinks=True)
    (tree / "weir" / "dpcore").unlink()
    (tree / "weir" / "dpcore").write_text("../dpcore")  # what a zip or a copy makes of a link
    command = [sys.executable, "setup.py", "--version"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    assert done.returncode == 1 and "git clone" in done.stderr


def test_wheel_carries_licence_and_version(user: Installed) -> None:
    assert [name for name in names_of(user) if name.endswith("LICENSE")]
    assert user.wheel.name.startswith(f"weir_dp-{PROJECT['version']}-")


def test_every_public_name_comes_from_the_wheel(user: Installed) -> None:
    printed = user.script(
        "import sys, weir\n"
        "for name in weir.__all__: getattr(weir, name)\n"
        f"print(weir.__file__, *({set(FOREIGN)!r} & set(sys.modules)))\n"
    )
    assert Path(printed.strip()).is_relative_to(user.python.parents[1])


@pytest.mark.parametrize("command", [("weir",), ("python", "-m", "weir")], ids=" ".join)
def test_the_command_runs_among_packages_of_the_same_names(
    user: Installed, command: tuple[str, ...]
) -> None:
    shutil.rmtree(user.folder / "out", ignore_errors=True)
    done = user.run(*command, "--version")
    assert done.returncode == 0 and PROJECT["version"] in done.stdout, done.stderr
    done = user.run(*command, "run", "job.yaml")
    assert done.returncode == 0, done.stderr
    assert (user.folder / "out" / "_COMPLETE").exists()


def test_a_notebook_runs_among_packages_of_the_same_names(user: Installed) -> None:
    import nbformat

    cell = (
        "import weir\n"
        'events = [{"at": "2025-01-01T10:00:00Z", "city": "Bern"}]\n'
        'weir.release(events, "memory.yaml").to_arrow().num_rows'
    )
    lines = [line for line in CONFIG.splitlines(True) if not line.startswith(("source", "sink"))]
    (user.folder / "memory.yaml").write_text("".join(lines))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbformat.write(book, user.folder / "book.ipynb")
    printed = user.script(
        "import nbclient, nbformat\n"
        "book = nbclient.NotebookClient(nbformat.read('book.ipynb', 4)).execute()\n"
        "print(book.cells[0].outputs[-1]['data']['text/plain'])\n"
    )
    assert printed.strip() == "2"


def test_a_beam_pipeline_runs_in_worker_processes(user: Installed) -> None:
    printed = user.script(
        "import apache_beam as beam\n"
        "from apache_beam.options.pipeline_options import PipelineOptions\n"
        "import weir\n"
        "if __name__ == '__main__':\n"
        "    flags = ['--runner=DirectRunner', '--direct_running_mode=multi_processing']\n"
        "    flags += ['--direct_num_workers=2']\n"
        "    plan = weir.Plan.from_yaml(open('job.yaml').read())\n"
        "    open('secret.key', 'w').write('07' * 32)\n"
        "    events = [{'at': '2025-01-01T10:00:00Z', 'city': 'Bern'}]\n"
        "    with beam.Pipeline(options=PipelineOptions(flags)) as pipeline:\n"
        "        events = pipeline | beam.Create(events)\n"
        "        secret = weir.Secret(file='secret.key')\n"
        "        found = events | weir.PrivateReleases(plan, secret)\n"
        "        found.releases | weir.FlatReleases(plan) | beam.io.WriteToText(\n"
        "            'releases', shard_name_template='', coder=beam.coders.PickleCoder())\n"
        "    print('done')\n"
    )
    assert printed.split()[-1] == "done"
    assert (user.folder / "releases").stat().st_size > 0


def test_no_library_stands_in_the_place_of_tests() -> None:
    """Some ship a package of that name, and tests import helpers from here."""
    assert tests.__file__ == str(ROOT / "tests" / "__init__.py")
