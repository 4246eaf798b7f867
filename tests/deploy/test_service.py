"""The systemd unit, and that no file of deploy/ is without a check."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path

from tests.deploy.dockerfile import read
from weir.pipelines.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((DEPLOY / "weir.service").read_text())
    return parser


def test_unit_runs_a_command_that_weir_takes() -> None:
    program, command, config, *options = shlex.split(unit()["Service"]["ExecStart"])
    assert program.endswith("/bin/weir") and config.endswith(".yaml")
    known = {option for p in main.commands[command].params for option in p.opts}
    assert {word for word in options if word.startswith("--")} <= known


def test_unit_keeps_the_secret_to_itself() -> None:
    service = unit()["Service"]
    name, _, place = service["LoadCredential"].partition(":")
    assert f"--secret-file %d/{name}" in service["ExecStart"] and place.startswith("/")
    assert (service["DynamicUser"], service["NoNewPrivileges"], service["UMask"]) == (
        "yes",
        "yes",
        "0077",
    )
    # 2 is what `weir` exits with for a config that it refuses.
    assert service["RestartPreventExitStatus"] == "2"


def test_every_file_has_a_test() -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests" / "deploy").glob("*.py"))
    covered = {".tf": "*.tf", ".sh": "*.sh", ".yaml": "kustomization.yaml"}
    for path in DEPLOY.rglob("*"):
        if not path.is_file() or path.name.startswith("README") or "__pycache__" in path.parts:
            continue
        assert path.name in tests or covered.get(path.suffix, "nowhere") in tests, path.name


def test_build_context_is_what_the_image_copies() -> None:
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    steps = read(DEPLOY / "Dockerfile")
    copied = {word for s in steps if s.word == "COPY" for word in s.words[:-1]}
    assert "*" in lines and kept == copied


def test_examples_name_one_version_and_one_project() -> None:
    texts = [p.read_text() for p in DEPLOY.rglob("*") if p.suffix in {".yaml", ".sh", ".tf"}]
    images = re.findall(r"docker\.pkg\.dev/([\w-]+)/weir/[\w-]+:([\d.]+)", "\n".join(texts))
    assert images and len(set(images)) == 1
