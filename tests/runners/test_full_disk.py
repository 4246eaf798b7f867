"""A disk that is full: no half file, no litter, and the same bits once there is room again.

A limit on the size of files stands for the full disk: it needs no rights, and a write fails in the
same place.
"""

from __future__ import annotations

import resource
from pathlib import Path

from tests.runners.jobs import Job, check
from tests.runners.recording import Recording

ROOM = 4096
"""Bytes of a file that still fit; a file of releases is larger."""


def limit(process: int, room: int) -> None:
    """Lets a process, and what it starts, write files of so many bytes."""
    _, hard = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (room, hard))


def test_a_run_over_files_fails_in_words_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    recording = Recording("sums")
    source = f"{{ndjson: '{recording.write(tmp_path / 'in')}'}}"
    job = Job(tmp_path, recording, source)
    with job.start("direct") as running:
        running.until(lambda: (job.out / "_plan.json").exists())
        limit(running.process.pid, ROOM)
        assert running.wait() == 1
    assert "Write" in running.text and "store-" not in running.text and len(running.text) < 1000
    names = sorted(path.name for path in job.out.iterdir())
    assert names == ["_held", "_marks.json", "_plan.json"]
    assert not list((job.out / "_held").iterdir())
    check(job.run("direct"), recording)
