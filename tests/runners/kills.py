"""kill -9 of the parts of a running job, and what a Flink cluster says about it."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

WORKER = b"pipelines.engines.worker"


def parents() -> dict[int, int]:
    """Process -> its parent, of all processes of this machine."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            found[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def below(process: int) -> Iterator[int]:
    """All processes that a process started, and those that they started."""
    tree = parents()
    found = {process}
    grown = True
    while grown:
        more = {child for child, parent in tree.items() if parent in found} - found
        found |= more
        grown = bool(more)
    yield from sorted(found - {process})


def python_workers(process: int) -> list[int]:
    """Workers that run Python for a TaskManager."""
    found = []
    for child in below(process):
        try:
            words = (Path("/proc") / str(child) / "cmdline").read_bytes()
        except OSError:
            continue
        if WORKER in words:
            found.append(child)
    return found


def kill(process: int) -> None:
    """kill -9 of one process, not of its children."""
    os.kill(process, signal.SIGKILL)


def ask(url: str) -> Any:
    """An answer of Flink's REST, or None while it has none."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)
    except OSError:
        return None


def eventually(done: Callable[[], Any], deadline: float, what: str) -> Any:
    """Waits until ``done`` says something true, and returns that."""
    end = time.monotonic() + deadline
    while True:
        found = done()
        if found:
            return found
        assert time.monotonic() < end, f"{what}: not after {deadline} s"
        time.sleep(0.1)


def running_job(rest: str) -> str | None:
    """The job that a cluster runs, or restarts, now."""
    told = ask(f"{rest}/jobs/overview") or {"jobs": []}
    states = ("RUNNING", "RESTARTING", "CREATED", "INITIALIZING")
    live = [job["jid"] for job in told["jobs"] if job["state"] in states]
    return str(live[0]) if live else None


def completed_checkpoints(rest: str, job: str) -> int:
    """How many checkpoints of a job are complete."""
    told = ask(f"{rest}/jobs/{job}/checkpoints")
    return 0 if told is None else int(told["counts"]["completed"])
