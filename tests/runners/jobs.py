"""Runs ``weir run`` as a user does, in a process of its own, and reads back what it released."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from click.testing import CliRunner

from tests.forked import TRACE, Forked
from tests.pipelines.result_rows import result_rows
from tests.runners.fitting import Fitting
from tests.runners.optimizing import Optimizing
from tests.runners.recording import SECRET, Cells, Recording, cells_of
from weir.pipelines.cli.main import main
from weir.pipelines.engines.flink import FlinkCluster
from weir.transforms.sinks.place import release_files

Stream = Recording | Fitting | Optimizing
"""What runs."""
ROOT = Path(__file__).resolve().parents[2]
NOT_COMPARED = frozenset(
    {"bytes", "files", "messages", "releases", "source_files", "ticks_released"}
)
"""Counters of how the work was cut, and not of what became of events."""


@dataclass(frozen=True)
class Job:
    """A folder with a config, a secret, and what the job writes.

    Attributes:
      folder: absolute. recording: what runs. source: the config's ``source``, as YAML.
      extra: further sections of the config. every: ticks a file of releases covers.
      name: of the sink's folder, for several runs of one job.
      published: a sink in place of the folder, as YAML.
    """

    folder: Path
    recording: Stream
    source: str
    extra: str = ""
    every: int = 16
    name: str = "out"
    published: str | None = None

    @property
    def out(self) -> Path:
        """Folder of the releases."""
        return self.folder / self.name

    @property
    def dead(self) -> Path:
        """Folder of the dead letters."""
        return self.folder / f"{self.name}-dead"

    @property
    def secret(self) -> Path:
        """File of the secret."""
        return self.folder / "secret.key"

    def prepare(self) -> Path:
        """Writes the secret and the config; returns the config's path."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.secret.exists():
            self.secret.write_text(SECRET.hex())
            self.secret.chmod(0o600)
        config = self.folder / f"{self.name}.yaml"
        config.write_text(
            f"{self.recording.config}source: {self.source}\n"
            f"secret: {{file: {self.secret}}}\n"
            f"sink: {{{self._sink}}}\n"
            f"dead_letters: {{ndjson: {self.dead}}}\n"
            # Of a recording a tenth is late.
            f"limits: {{refused: 0.5}}\n{self.extra}"
        )
        return config

    @property
    def _sink(self) -> str:
        if self.published is not None:
            return self.published
        return f"parquet: {self.out}, every: {self.every}"

    def start(self, runner: str, *flags: str, env: Mapping[str, str] | None = None) -> Running:
        """Starts ``weir run`` and does not wait."""
        return launch(self.prepare(), runner, *flags, env=env, job=self)

    def run(self, runner: str, *flags: str, deadline: float = 400) -> Outcome:
        """Runs to the end, which must be a good one."""
        with self.start(runner, *flags) as running:
            return running.finish(deadline)

    def cells(self) -> Cells:
        """What is in the sink by now; a cell that is there twice is an error."""
        return cells_of(result_rows(self.out))

    def letters(self) -> list[dict[str, Any]]:
        """The dead letters by now."""
        return [
            json.loads(line)
            for path in sorted(self.dead.glob("*.ndjson"))
            for line in path.read_bytes().splitlines()
        ]


def verify(job: Job, lines: Iterable[bytes]) -> dict[str, Any]:
    """What ``weir verify`` says of a job's folder, given the events that were sent as a file."""
    source = job.folder / "sent.ndjson"
    source.write_bytes(b"".join(line + b"\n" for line in lines))
    config = job.folder / f"{job.name}.yaml"
    words = ["verify", str(job.out), "--config", str(config), "--source", str(source), "--json"]
    done = CliRunner().invoke(main, words)
    assert done.stdout, done.output
    result: dict[str, Any] = json.loads(done.stdout)
    assert done.exit_code == (result["faults"][0]["code"] if result["faults"] else 0)
    return result


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
      cells: its releases. counters: what became of events; those of zero are left out.
      text: what it said on standard error.
    """

    cells: Cells
    counters: Mapping[str, int]
    text: str


@dataclass
class Running:
    """A ``weir run`` that was started. Leaving its ``with`` block ends its whole process group.

    Attributes:
      log: what it says on standard error. answer: what on standard output. job: its folders.
    """

    process: Forked
    log: Path
    answer: Path
    job: Job | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def text(self) -> str:
        """What it said on standard error by now."""
        return self.log.read_text(errors="replace")

    @property
    def account(self) -> str:
        """The end of what it said on standard error, and how it failed if it did."""
        trace = Path(f"{self.log}{TRACE}")
        failed = trace.read_text(errors="replace") if trace.exists() else ""
        return f"{self.text[-3000:]}{failed[-5000:]}"

    @property
    def told(self) -> str:
        """What it said on standard output by now."""
        return self.answer.read_text(errors="replace")

    def kill(self) -> None:
        """kill -9 of the process and of all its children."""
        self.process.kill()

    def wait(self, deadline: float = 400) -> int:
        """Waits for the end and returns the exit code."""
        try:
            return self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end after {deadline} s:\n{self.account}") from None

    def finish(self, deadline: float = 400) -> Outcome:
        """Waits for a good end."""
        code = self.wait(deadline)
        assert code == 0, f"exit {code}:\n{self.account}"
        told = json.loads(self.answer.read_text())["operator"]
        counters = {name: n for name, n in told.items() if n and name not in NOT_COMPARED}
        assert self.job is not None
        return Outcome(self.job.cells(), counters, self.text)

    def until(self, done: Callable[[], Any], deadline: float = 480) -> Any:
        """Waits until ``done`` says something true, and returns that; the run must go on."""
        end = time.monotonic() + deadline
        while True:
            found = done()
            if found:
                return found
            code = self.process.poll()
            assert code is None, f"ended with {code} too early:\n{self.account}"
            assert time.monotonic() < end, f"not after {deadline} s:\n{self.account}"
            time.sleep(0.1)


def launch(
    config: Path,
    runner: str,
    *flags: str,
    env: Mapping[str, str] | None = None,
    job: Job | None = None,
) -> Running:
    """Starts ``weir run`` on a config and does not wait. Its logs lie next to the config."""
    log = config.with_suffix(f".{time.time_ns()}.log")
    answer = log.with_suffix(".json")
    words = ["run", str(config), "--json", "--runner", runner, *flags]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    process = Forked(words, config.parent, environment, answer, log)
    return Running(process, log, answer, job)


def differences(found: Cells, expected: Cells) -> str:
    """A short account of how two sets of releases differ; empty when they are the same bits."""
    lost, more = expected.keys() - found.keys(), found.keys() - expected.keys()
    wrong = [cell for cell in expected.keys() & found.keys() if expected[cell] != found[cell]]
    if not lost and not more and not wrong:
        return ""
    shown = sorted(wrong, key=str)[:2] or sorted(lost | more, key=str)[:2]
    ticks = sorted({cell[0] for cell in [*lost, *more, *wrong]})
    return (
        f"{len(lost)} lost, {len(more)} too many, {len(wrong)} of other bits, "
        f"in ticks {ticks[:8]}, like {shown}"
    )


def check_part(found: Cells, expected: Cells) -> None:
    """Holds what a job that was stopped in the middle has released against what must come out."""
    assert found, "stopped before its first release"
    assert not differences_until(-1, found, expected)
    assert len(found) < len(expected), "stopped behind its last release"


def last_tick(job: Job) -> int:
    """The last one until which every tick is released by now; -1: none.

    Workers write side by side, and one may be far ahead. What a stop leaves unwritten is in its
    savepoint.
    """
    ends = {span.first: span.last for span in release_files(str(job.out)).values()}
    last = -1
    while last + 1 in ends:
        last = ends[last + 1]
    return last


def differences_until(last: int, found: Cells, expected: Cells) -> str:
    """Like ``differences``, of a job that was stopped when all ticks to ``last`` were there, and
    some of those after them."""
    some = {cell: value for cell, value in expected.items() if cell[0] <= last or cell in found}
    return differences(found, some)


def check(outcome: Outcome, recording: Recording, counters: bool = True) -> None:
    """Holds a run against what must come out: the bits, and every counter."""
    problem = differences(outcome.cells, recording.releases)
    assert not problem, problem
    if counters:
        assert outcome.counters == recording.counters, outcome.counters


def on(cluster: FlinkCluster) -> tuple[str, ...]:
    """Flags of a job on a cluster of this machine: a Python worker next to each TaskManager."""
    return f"--flink-master={cluster.master}", "--parallelism=2"
