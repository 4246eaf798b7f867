"""One config, one secret, one stream: every runner gives simulate's bits and counts the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runners.jobs import Job, check, on
from tests.runners.recording import Recording
from weir.pipelines.engines.flink import FlinkCluster

PROGRAMS = ["sums", "learner"]


def over_files(folder: Path, recording: Recording) -> Job:
    return Job(folder, recording, f"{{ndjson: '{recording.write(folder / 'in')}'}}")


def test_the_stream_holds_everything_that_goes_wrong() -> None:
    counts = Recording().counters
    events, seen = counts["events"], counts["duplicate"] + counts["late"]
    assert 0.08 * events < counts["late"] < 0.12 * events
    assert seen > 0.15 * events
    for name in ("malformed", "missing_time", "before_start", "after_end", "unknown_key"):
        assert counts[name] > 5
    assert Recording("learner").counters["over_capacity"] > 100


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_blocks_of_a_plan_change_no_release(program: str) -> None:
    assert Recording(program, blocks=2).plan.layout != Recording(program).plan.layout
    assert Recording(program, blocks=2).releases == Recording(program).releases


@pytest.mark.parametrize("blocks", [None, 2])
@pytest.mark.parametrize("program", PROGRAMS)
def test_direct(program: str, blocks: int | None, tmp_path: Path) -> None:
    recording = Recording(program, blocks=blocks)
    check(over_files(tmp_path, recording).run("direct"), recording)


@pytest.mark.parametrize("program", PROGRAMS)
def test_prism(program: str, prism_location: Any, tmp_path: Path) -> None:
    recording = Recording(program)
    check(over_files(tmp_path, recording).run("prism"), recording)


@pytest.mark.parametrize("program", PROGRAMS)
def test_embedded_flink(program: str, job_server_jar: Any, tmp_path: Path) -> None:
    recording = Recording(program)
    check(over_files(tmp_path, recording).run("flink", "--parallelism=2"), recording)


@pytest.mark.parametrize("program", PROGRAMS)
def test_flink_cluster(program: str, flink_cluster: FlinkCluster, tmp_path: Path) -> None:
    recording = Recording(program)
    check(over_files(tmp_path, recording).run("flink", *on(flink_cluster)), recording)
