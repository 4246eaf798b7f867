"""What ``weir doctor`` looks at for one job: its places, its secret, and who may read them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weir.dpcore.errors import WeirError
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import JobConfig
from weir.pipelines.config.places import refuse_mixed
from weir.pipelines.config.sections import SecretPlace, needed
from weir.pipelines.graph.checks import check_runner, plan_of
from weir.pipelines.runners.state_folder import StateFolder
from weir.pipelines.show.finding import Finding, judged, space
from weir.pipelines.sources.files import Files
from weir.pipelines.terminal import bytes_text, count
from weir.transforms.sinks.place import is_remote

SECRET_BYTES = {32, 44, 45, 46, 64, 65, 66}
"""How long a file of a secret may be: raw, base64 or hexadecimal, with or without a line's end."""


def findings_of(job: JobConfig, runner: str | None) -> Iterator[Finding]:
    """Whether it can be planned and run, and who can read and write what it names.

    Raises:
      ConfigError: the job cannot be planned.
    """
    plan = plan_of(job)
    yield Finding("Job", "plan", "good", plan.digest[:12])
    if runner is not None:
        yield _tried("Job", f"runner {runner}", lambda: _runs(job, runner))
    yield _tried("Job", "sink", lambda: _writes(job, plan))
    if job.sink is not None and job.sink.place is not None and not is_remote(job.sink.place):
        yield space("Job", "releases", Path(job.sink.place))
    if job.source is not None and isinstance(job.source, Files):
        yield _readable(job.source)
    for what, place in _written(job):
        yield space("Job", what, Path(place))
    if job.secret is None:
        yield _no_secret(runner)
    else:
        yield _secret("secret", job.secret)
        for at, later in enumerate(job.secret.rotate):
            yield _secret(f"secret.rotate[{at}]", later)
    if job.engine is not None and job.engine.checkpoints is not None:
        yield _checkpoints(job.engine.checkpoints)
    host = os.environ.get("PUBSUB_EMULATOR_HOST")
    if host is not None:
        yield Finding("Job", "Pub/Sub", "good", f"the emulator at {host}, as the environment says")


def _runs(job: JobConfig, runner: str) -> None:
    needed("sink", job.sink)
    check_runner(needed("source", job.source), job.secret, runner)


def _writes(job: JobConfig, plan: Plan) -> None:
    refuse_mixed(job.dead_letters, job.sink)
    if job.sink is not None:
        job.sink.check(plan, () if job.secret is None else job.secret.references(plan.clock))


def _tried(group: str, what: str, check: Any) -> Finding:
    try:
        check()
    except WeirError as error:
        return Finding(group, what, "wrong", str(error), "see what it says")
    return Finding(group, what, "good", "accepted")


def _written(job: JobConfig) -> Iterator[tuple[str, str]]:
    """Folders of this machine that a run writes to, beside that of its releases."""
    letters = None if job.dead_letters is None else job.dead_letters.place
    if letters is not None and not is_remote(letters):
        yield "dead letters", letters
    if job.ledger is not None and job.ledger.kind == "sqlite":
        yield "ledger", str(Path(job.ledger.value).absolute().parent)


def _readable(source: Files) -> Finding:
    """Whether there are files, and this user may read them. None is opened."""
    if "://" in source.path:
        told = f"{source.path}, in a bucket that this machine did not ask"
        return Finding("Job", source.field, "good", told)
    files = source.local()
    if not files:
        remedy = "name a file or a glob that there is: relative paths start at the config's folder"
        return Finding("Job", source.field, "wrong", f"{source.path}: no such file", remedy)
    closed = [file for file in files if not os.access(file, os.R_OK)]
    told = f"{count(len(files), 'file')}, {bytes_text(sum(one.stat().st_size for one in files))}"
    if closed:
        told = f"{closed[0]} cannot be read by this user"
    return judged("Job", source.field, not closed, told, f"chmod u+r {closed[0] if closed else ''}")


def _no_secret(runner: str | None) -> Finding:
    """Whether a run can do without."""
    told = "none: each run draws a fresh one, and spends the budget again"
    remedy = "add secret: {file: secret.key}, made by openssl rand -hex 32 > secret.key"
    return judged("Job", "secret", runner in (None, "local", "direct"), told, remedy)


def _secret(field: str, section: SecretPlace) -> Finding:
    """Where it is, how long, and who may read it. Never what it is."""
    kind, value = section.kind, section.value
    what = f"{field}.{kind}"
    if kind == "env":
        return judged(
            "Job", what, value in os.environ, value, f"set {value}, where workers run too"
        )
    if kind != "file":
        return Finding("Job", what, "good", f"{value}; workers read it, this machine did not ask")
    try:
        found = Path(value).stat()
    except OSError as error:
        make = f"openssl rand -hex 32 > {value} && chmod 600 {value}"
        return Finding("Job", what, "wrong", f"{value}: {error.strerror}", make)
    mode = found.st_mode
    alone = os.name != "posix" or not mode & (stat.S_IRGRP | stat.S_IROTH)
    told = f"{value}, mode {stat.S_IMODE(mode):o}"
    if found.st_size not in SECRET_BYTES:
        remedy = "a secret is 64 hexadecimal digits, 44 characters of base64 or 32 bytes"
        return Finding("Job", what, "wrong", f"{value}, {found.st_size:,} bytes", remedy)
    if not os.access(value, os.R_OK):
        return Finding("Job", what, "wrong", f"{told}, not for this user", f"chown it: {value}")
    return judged("Job", what, alone, told, f"others can read it: chmod 600 {value}")


def _checkpoints(place: str) -> Finding:
    folder = Path(StateFolder.of(place).path)
    if is_remote(str(folder)) or not folder.exists():
        return Finding(
            "Job", "checkpoints", "good", f"{place}, not made yet or not on this machine"
        )
    mode = stat.S_IMODE(folder.stat().st_mode)
    alone = not mode & (stat.S_IRWXG | stat.S_IRWXO)
    remedy = f"it holds clean sums: chmod 700 {folder}"
    return judged("Job", "checkpoints", alone, f"{place}, mode {mode:o}", remedy)


__all__ = ["findings_of"]
