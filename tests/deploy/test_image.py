"""The images: what the Dockerfiles say, and their steps carried out without Docker."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tomllib
import uuid
from pathlib import Path

import pytest

from tests.deploy.dockerfile import Replay, Step, read

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "deploy" / "Dockerfile"
TEMPLATE = ROOT / "deploy" / "dataflow" / "Dockerfile"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BOOT_FLAGS = ("--id=1-1", "--provision_endpoint=localhost:1")


def only(steps: list[Step], word: str) -> Step:
    (found,) = [step for step in steps if step.word == word]
    return found


def test_base_is_beam_at_the_version_of_the_project() -> None:
    base = only(read(IMAGE), "FROM").rest
    (beam,) = [need for need in PROJECT["dependencies"] if need.startswith("apache-beam")]
    name, _, tag = base.partition(":")
    python = name.removeprefix("apache/beam_python").removesuffix("_sdk")
    assert beam == f"apache-beam>={tag.rpartition('.')[0]},<2.{int(tag.split('.')[1]) + 1}"
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]
    assert tag.count(".") == 2


@pytest.mark.parametrize("path", [IMAGE, TEMPLATE], ids=["image", "template"])
def test_copied_files_exist_and_hold_no_job(path: Path) -> None:
    copied = [step for step in read(path) if step.word == "COPY" and "from" not in step.flags]
    for source in [source for step in copied for source in step.words[:-1]]:
        assert (ROOT / source).exists(), source
        assert source.split("/")[0] not in {".", "tests", "examples", ".git"}


def test_runs_as_a_user_with_a_number_that_is_not_root() -> None:
    steps = read(IMAGE)
    user, _, group = only(steps, "USER").rest.partition(":")
    assert int(user) > 1000 and int(group) > 1000
    assert any(f"--uid {user}" in step.rest for step in steps if step.word == "RUN")
    assert steps.index(only(steps, "USER")) > max(
        place for place, step in enumerate(steps) if step.word in ("RUN", "COPY")
    )
    # Kubernetes refuses a name where it must see that a user is not root.
    assert not [step for step in read(TEMPLATE) if step.word == "USER"]


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Replay:
    """The image's steps in a folder, with a fresh Python of the image's version."""
    base = tmp_path_factory.mktemp("image")
    python = base / "python"
    subprocess.run([sys.executable, "-m", "venv", str(python)], check=True)
    (python / "bin" / "useradd").write_text('#!/bin/sh\necho "$@" >> "$HOME/useradd"\n')
    (python / "bin" / "useradd").chmod(0o755)
    boot = base / "boot"
    boot.write_text('#!/bin/sh\necho boot "$@"\n')
    boot.chmod(0o755)
    launcher = base / "python_template_launcher"
    launcher.write_text('#!/bin/sh\nexec python "$FLEX_TEMPLATE_PYTHON_PY_FILE" "$@"\n')
    launcher.chmod(0o755)
    made = Replay(
        base / "root",
        ROOT,
        python / "bin",
        {"/opt/google/dataflow/python_template_launcher": launcher},
    )
    (made.root / "root").mkdir(parents=True)
    # The same packages, found and unpacked in a sixth of pip's time.
    fast = f"{shlex.quote(sys.executable)} -m uv pip install --quiet --python {made.bin}/python "
    for step in read(IMAGE):
        made.step(Step(step.word, step.rest.replace("pip install --no-cache-dir ", fast)))
    made.environment["BEAM_BOOT"] = str(boot)
    return made


def entered(replay: Replay, *arguments: str) -> subprocess.CompletedProcess[str]:
    return replay.run(str(replay.there(replay.entrypoint[0])), *arguments)


def test_replayed_image_runs_weir(replay: Replay) -> None:
    done = entered(replay, "--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"weir {PROJECT['version']}")
    assert entered(replay, "algorithms", "blt").returncode == 0
    assert "Usage" in entered(replay, "--help").stdout
    assert entered(replay, "run").returncode == 2


def test_replayed_image_is_a_worker_of_beam(replay: Replay) -> None:
    for arguments in (BOOT_FLAGS, ("--worker_pool",), ("--logging_endpoint=x:1", "--id=2")):
        done = entered(replay, *arguments)
        assert done.stdout.split() == ["boot", *arguments]


def test_workers_use_the_packages_of_the_image(replay: Replay) -> None:
    assert replay.environment["RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT"] == "1"
    code = (
        "import apache_beam, weir.pipelines, sys; from google.cloud import pubsub, secretmanager; "
        "from apache_beam.runners.worker import worker_pool_main, sdk_worker_main; "
        "print(apache_beam.__version__, weir.pipelines.__file__, sys.prefix)"
    )
    done = replay.run("python", "-P", "-c", code)
    assert done.returncode == 0, done.stderr
    version, module, prefix = done.stdout.split()
    assert version == only(read(IMAGE), "FROM").rest.partition(":")[2]
    assert module.startswith(prefix)


def test_template_is_the_image_with_a_launcher(replay: Replay) -> None:
    steps = read(TEMPLATE)
    assert [step.rest for step in steps if step.word == "FROM"][-1] == "${WEIR_IMAGE}"
    name = "europe-docker.pkg.dev/acme-data/weir/weir:0.1.0"
    made = Replay(replay.root, ROOT, replay.bin, replay.outside, {"WEIR_IMAGE": name})
    for step in steps:
        made.step(step)
    assert made.environment["WEIR_IMAGE"] == name
    made.environment["FLEX_TEMPLATE_PYTHON_PY_FILE"] = str(
        made.there(made.environment["FLEX_TEMPLATE_PYTHON_PY_FILE"])
    )
    done = made.run(str(made.there(made.entrypoint[0])), "--config=/nowhere/job.yaml")
    assert done.returncode == 2
    assert "weir: refused: --config" in done.stderr


def engine() -> str | None:
    """A Docker or Podman that answers."""
    for name in ("docker", "podman"):
        found = shutil.which(name)
        if found and not subprocess.run([found, "info"], capture_output=True).returncode:
            return found
    return None


def test_image_builds_where_an_engine_answers(tmp_path: Path) -> None:
    """Builds, and starts both roles. Without an engine the context of the build is checked."""
    found = engine()
    if found is None:
        wanted = {source for s in read(IMAGE) if s.word == "COPY" for source in s.words[:-1]}
        assert {
            "pyproject.toml",
            "dpcore",
            "transforms",
            "pipelines",
            "weir",
            "deploy/entry",
        } <= wanted
        assert os.access(ROOT / "deploy" / "entry", os.X_OK)
        return
    tag = f"weir-test:{uuid.uuid4().hex[:8]}"
    try:
        subprocess.run([found, "build", "-f", str(IMAGE), "-t", tag, str(ROOT)], check=True)
        done = subprocess.run(
            [found, "run", "--rm", tag, "--version"], capture_output=True, text=True
        )
        assert done.stdout.strip() == f"weir {PROJECT['version']}"
        boot = subprocess.run(
            [found, "run", "--rm", tag, "--id=1"], capture_output=True, text=True, timeout=120
        )
        assert boot.returncode != 0 and "endpoint" in boot.stdout + boot.stderr
    finally:
        subprocess.run([found, "rmi", "-f", tag], capture_output=True)
