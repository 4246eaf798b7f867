"""Temporary folders of a killed process are removed by the next, and those of a living one stay."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from weir.pipelines.engines.processes import Workplace, sweep

PREFIX = "weir-test-"
OWNER = """
import sys, time
from weir.pipelines.engines.processes import Workplace
place = Workplace(sys.argv[1])
(place.folder / "state").mkdir()
print(place.folder, flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_killed_owner_leaves_what_the_next_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, PREFIX], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert (folder / "state").is_dir() and folder.parent == tmp_path
        assert sweep(PREFIX) == [], "a living owner lost its folder"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert folder.exists()
    assert sweep("other-") == [] and sweep(PREFIX) == [folder]
    assert not folder.exists()


def test_ones_own_folder_and_those_of_others_stay(tmp_path: Path) -> None:
    own, bare = Workplace(PREFIX), tmp_path / f"{PREFIX}bare"
    bare.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(own.folder)
    assert sweep(PREFIX) == []
    assert own.folder.exists() and bare.exists()
    own.remove()
    assert not own.folder.exists()
