"""How a Python worker is started: with which allocation of memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from weir.pipelines.engines.worker import ALLOCATION, environment_config


@pytest.mark.parametrize("given", [{}, {"MALLOC_ARENA_MAX": "7"}])
def test_a_worker_keeps_few_arenas_unless_its_surroundings_say_otherwise(
    given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shows = tmp_path / "shows"
    shows.write_text("#!/bin/sh\nenv\n")
    shows.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(shows))
    program = json.loads(environment_config(tmp_path / "worker"))["command"]
    told = subprocess.run([program], env=given, capture_output=True, text=True, check=True).stdout
    found = dict(line.partition("=")[::2] for line in told.splitlines())
    assert {name: found[name] for name in ALLOCATION} == {**ALLOCATION, **given}


def test_the_image_has_the_same_allocation() -> None:
    image = (Path(__file__).parents[2] / "deploy" / "Dockerfile").read_text()
    assert all(f"{name}={value}" in image for name, value in ALLOCATION.items())
