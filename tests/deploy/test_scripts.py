"""Shell scripts: sound to bash and to shellcheck, and strict about errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted([*(ROOT / "deploy").rglob("*.sh"), ROOT / "deploy" / "entry"])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_script_is_sound(path: Path) -> None:
    text = path.read_text()
    shell = text.splitlines()[0].rpartition("/")[2].removeprefix("env ")
    assert shell in {"bash", "sh"}
    assert os.access(path, os.X_OK)
    checked = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert shell == "sh" or "set -euo pipefail" in text
    linter = Path(sys.executable).parent / "shellcheck"
    found = subprocess.run([str(linter), str(path)], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_script_tells_what_it_needs(path: Path) -> None:
    """Without arguments and variables a script that asks for some says so, and does nothing."""
    if path.name == "entry":
        return
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere"}
    done = subprocess.run(
        ["bash", str(path)], capture_output=True, text=True, env=environment, timeout=20
    )
    assert done.returncode != 0
    assert "give" in done.stderr or "set " in done.stderr
