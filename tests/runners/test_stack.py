"""``make stack``, as a user starts and ends it: releases come, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.components import needed
from weir.pipelines.engines import flink_config, kafka, servers
from weir.pipelines.results.files import result_files
from weir.pipelines.results.run import ResultFolder

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 400.0
"""Seconds for the machines to start and for releases to come."""

WANTED = 3
"""Ticks that must be there, one after the other."""

SEEN = 250.0
"""Purchases that are no noise."""


def marked(mark: str) -> list[str]:
    """Commands of all processes that carry a mark in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if mark.encode() in (folder / "environ").read_bytes():
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    found.append(command.decode()[:200])
            except OSError:
                continue
    return [command for command in found if command]


def eventually(true: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def in_order(out: Path) -> int:
    """How many ticks are there from the first on, without a hole."""
    there = {file.first for file in result_files(out)} if out.is_dir() else set()
    return next(tick for tick in range(len(there) + 1) if tick not in there)


def purchases(out: Path) -> float:
    """How many there were in the last minute, all shops together; the noise has a stddev of 37."""
    whole = in_order(out)
    if not whole:
        return 0.0
    rows = ResultFolder.open(out).table(["tick", "name", "over", "value"]).to_pylist()
    wanted = (whole - 1, "purchases", 60)
    return sum(r["value"][0] for r in rows if (r["tick"], r["name"], r["over"]) == wanted)


@pytest.fixture
def installed(job_server_jar: Path) -> None:
    """What the stack needs is there."""
    needed(flink_config.home)
    needed(servers.pubsub_binary)
    needed(kafka.jars)


@pytest.mark.alone
@pytest.mark.parametrize(("end", "stream"), [("Ctrl-C", "pubsub"), ("time", "kafka")])
def test_a_live_stack_releases_and_ends_without_a_trace(
    end: str, stream: str, installed: None, tmp_path: Path
) -> None:
    mark = f"weir-test-{uuid.uuid4().hex}"
    out = tmp_path / "out"
    options = [stream, "--rate", "300", "--out", str(out)]
    picture = tmp_path / "screen.svg"
    options += ["--seconds", "6", "--picture", str(picture)] if end == "time" else []
    environment = {**os.environ, "WEIR_TEST_MARK": mark, "TMPDIR": str(tmp_path)}
    log = tmp_path / "stack.log"
    with log.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "examples.stack.stack", *options],
            cwd=ROOT, env=environment, stdout=said, stderr=said,
        )  # fmt: skip
    try:
        if end == "Ctrl-C":
            assert eventually(
                lambda: (
                    process.poll() is not None
                    or (in_order(out) >= WANTED and purchases(out) > SEEN)
                ),
                DEADLINE,
            ), log.read_text()
            assert len(marked(mark)) > 6, "the parts of the stack were not found"
            process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE) == 0, log.read_text()
    finally:
        process.kill()
    assert eventually(lambda: not marked(mark), 20), marked(mark)
    rows = ResultFolder.open(out).table(["key", "tick", "name", "over", "value"]).to_pylist()
    # Ticks that wait together are written side by side: behind the first hole a sudden end shows.
    whole = in_order(out)
    assert whole >= WANTED
    rows = [row for row in rows if row["tick"] < whole]
    assert {row["key"] for row in rows} == {"north", "east", "south", "west"}
    assert len(rows) == whole * 4 * 3
    assert purchases(out) > SEEN, "no event was counted"
    assert "everything is stopped" in log.read_text()
    assert picture.exists() == (end == "time")
    assert end != "time" or "purchases" in picture.read_text()
    left = {path.name for path in tmp_path.iterdir()} - {"out", "stack.log"}
    assert not [name for name in left if name.startswith("weir-")], left


def test_a_stack_refuses_a_folder_that_holds_something(installed: None, tmp_path: Path) -> None:
    (tmp_path / "here").write_text("something")
    done = subprocess.run(
        [sys.executable, "-m", "examples.stack.stack", "--out", str(tmp_path), "--seconds", "1"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert "is not empty" in done.stderr
