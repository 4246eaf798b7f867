"""``weir doctor``: what this machine has and lacks, before a job finds out.

Reads versions, modes of files and free space. No secret is read, no event, no releases; nothing is
written, and nobody but a named Flink cluster is asked.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from dpcore.errors import WeirError
from dpcore.plan import Plan
from pipelines.config.job import JobConfig
from pipelines.config.places import refuse_mixed
from pipelines.config.sections import needed
from pipelines.engines import flink_home, job_server, prism, pubsub_build
from pipelines.engines.cache import Component, cache_folder
from pipelines.engines.flink_rest import FlinkRest
from pipelines.engines.processes import EngineFailed
from pipelines.engines.tools import HOW
from pipelines.graph.checks import check_runner, plan_of
from pipelines.runners.state_folder import StateFolder
from pipelines.terminal import bytes_text, heading, table
from transforms.sinks.place import is_remote

State = Literal["good", "absent", "wrong"]
"""absent: not there, and not needed for what was asked."""

STYLES = {"good": "green", "absent": "dim", "wrong": "bold red"}
LEAST = {"java": 17, "go": 1, "mvn": 3}
"""Least major versions."""
ASK = {"java": ["-version"], "go": ["version"], "mvn": ["--version"]}
LEAST_DISK = 1 << 30
"""Bytes that a run should find free."""
NEEDS: dict[str, tuple[Component, ...]] = {
    "direct": (),
    "prism": (prism.COMPONENT,),
    "flink": (job_server.COMPONENT,),
    "dataflow": (),
}
"""Programs that a runner cannot do without."""
TOOLS_OF = {prism.COMPONENT.name: ("go",), job_server.COMPONENT.name: ("mvn", "java"),
            flink_home.COMPONENT.name: ("java",), pubsub_build.COMPONENT.name: ("go",)}  # fmt: skip
"""What a component is made with, and Flink runs on."""
EXTRAS_OF = {"pubsub": "pubsub", "bigquery": "gcp", "gcp": "gcp", "dataflow": "gcp",
             "postgresql": "postgresql"}  # fmt: skip
"""Extras of the package that a kind of source, sink, secret, ledger or a runner needs."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
      group: of the page. what: its name. state: see ``State``. found: what is there, in words.
      remedy: what to do; empty where all is good. package: whether it is one of Python.
    """

    group: str
    what: str
    state: State
    found: str
    remedy: str = ""
    package: bool = False


def examine(
    job: JobConfig | None = None, runner: str | None = None, master: str | None = None
) -> list[Finding]:
    """Looks at everything.

    Args:
      job: what is to run; None: only the machine. runner: what it is to run on; None: the one that
        its source needs at least. master: HOST:PORT of a Flink cluster to ask.

    Raises:
      ConfigError: the job cannot be planned.
    """
    if runner is None and job is not None and job.source is not None:
        runner = "direct" if job.source.bounded else None
    found = [*_python(_extras(job, runner)), *_machine(), *_engines(runner)]
    if master is not None:
        found.append(_cluster(master))
    if job is not None:
        found += _job(job, runner)
    return found


def healthy(found: Sequence[Finding]) -> bool:
    """Whether nothing that was asked for is wrong."""
    return all(one.state != "wrong" for one in found)


# ---- Python


def _extras(job: JobConfig | None, runner: str | None) -> set[str]:
    kinds = [runner]
    if job is not None:
        doors = (job.source, job.sink, job.dead_letters, job.secret, job.ledger)
        kinds += [door.kind for door in doors if door is not None]
    return {EXTRAS_OF[kind] for kind in kinds if kind in EXTRAS_OF}


def _python(extras: set[str]) -> Iterator[Finding]:
    own = metadata.metadata("weir")
    wanted = SpecifierSet(own["Requires-Python"] or "")
    version = platform.python_version()
    yield _judged(
        "Python", "python", version in wanted, f"{version}, {sys.executable}",
        f"use one that is {wanted}",
    )  # fmt: skip
    yield Finding("Python", "weir", "good", own["Version"])
    needs = [Requirement(text) for text in metadata.requires("weir") or ()]
    for need in needs:
        named = {extra for extra in set(EXTRAS_OF.values()) if _asks(need, extra)}
        always = need.marker is None or need.marker.evaluate({"extra": ""})
        if not always and not named:
            continue
        needed = always or bool(named & extras)
        install = "pip install " + (f"'weir[{min(named)}]'" if not always else f"'{need}'")
        yield _package(need, needed, install)


def _asks(need: Requirement, extra: str) -> bool:
    return need.marker is not None and need.marker.evaluate({"extra": extra})


def _package(need: Requirement, needed: bool, install: str) -> Finding:
    name = need.name + (f"[{','.join(sorted(need.extras))}]" if need.extras else "")
    try:
        version = metadata.version(need.name)
    except metadata.PackageNotFoundError:
        state: State = "wrong" if needed else "absent"
        return Finding("Python", name, state, "not installed", install, True)
    for extra in sorted(need.extras):
        lacking = _lacking(need.name, extra)
        if lacking:
            state = "wrong" if needed else "absent"
            return Finding("Python", name, state, f"{version}, without {lacking}", install, True)
    good = version in need.specifier
    return replace(_judged("Python", name, good, version, install), package=True)


def _lacking(package: str, extra: str) -> str | None:
    """The first package of an extra that is not installed."""
    for text in metadata.requires(package) or ():
        need = Requirement(text)
        if _asks(need, extra) and not (need.marker and need.marker.evaluate({"extra": ""})):
            try:
                metadata.version(need.name)
            except metadata.PackageNotFoundError:
                return need.name
    return None


# ---- the machine


def _machine() -> Iterator[Finding]:
    yield Finding("Machine", "cores", "good", f"{len(os.sched_getaffinity(0))}"
                  if hasattr(os, "sched_getaffinity") else f"{os.cpu_count()}")  # fmt: skip
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        yield Finding("Machine", "memory", "good", bytes_text(size))
    for what, folder in (("temporary files", tempfile.gettempdir()), ("cache", cache_folder())):
        yield _space("Machine", what, Path(folder))


def _space(group: str, what: str, folder: Path) -> Finding:
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not os.access(there, os.W_OK):
        return Finding(group, what, "wrong", f"{folder} cannot be written", f"chmod u+w {there}")
    free = shutil.disk_usage(there).free
    return _judged(
        group, what, free >= LEAST_DISK, f"{folder}, {bytes_text(free)} free",
        f"make room: {bytes_text(LEAST_DISK)} or more",
    )  # fmt: skip


# ---- engines


def _engines(runner: str | None) -> Iterator[Finding]:
    needed = NEEDS.get(runner or "", ())
    components = (
        prism.COMPONENT,
        flink_home.COMPONENT,
        job_server.COMPONENT,
        pubsub_build.COMPONENT,
    )
    missing: set[str] = set()
    for one in components:
        try:
            path = one.located()
        except WeirError:
            state: State = "wrong" if one in needed else "absent"
            missing |= {*TOOLS_OF[one.name]} if one in needed else set()
            yield Finding("Engines", one.name, state, "not installed", f"make {one.target}")
            continue
        yield Finding("Engines", one.name, "good", f"{one.version}, {path}")
    for tool in ASK:
        runs = tool == "java" and runner == "flink"
        yield _tool(tool, runs or tool in missing)


def _tool(tool: str, needed: bool) -> Finding:
    path = shutil.which(tool)
    if path is None:
        return Finding("Engines", tool, "wrong" if needed else "absent", "not on PATH", HOW[tool])
    try:
        told = subprocess.run([path, *ASK[tool]], capture_output=True, text=True, timeout=20)
        # Numbers behind a letter or a bracket are of colours.
        version = re.search(r"(?<![\[;])\b(?:go)?(\d+)(?:\.\d+)+", told.stdout + told.stderr)
    except (OSError, subprocess.TimeoutExpired):
        version = None
    if version is None:
        state: State = "wrong" if needed else "absent"
        return Finding("Engines", tool, state, f"{path} tells no version", HOW[tool])
    enough = int(version[1]) >= LEAST[tool]
    return _judged("Engines", tool, enough or not needed, f"{version[0]}, {path}", HOW[tool])


def _cluster(master: str) -> Finding:
    rest = FlinkRest(master if "://" in master else f"http://{master}")
    try:
        seen = rest.get("/overview")
    except EngineFailed as error:
        return Finding(
            "Engines", "Flink cluster", "wrong", str(error), "give HOST:PORT of its REST"
        )
    version, ours = str(seen["flink-version"]), flink_home.VERSION
    told = f"Flink {version}, {seen['slots-available']} of {seen['slots-total']} slots free"
    same = version.split(".")[:2] == ours.split(".")[:2]
    if not same:
        remedy = f"the job server of make flink is for {ours.rsplit('.', 1)[0]}: name one for it"
        return Finding(
            "Engines", "Flink cluster", "wrong", told, f"{remedy} (--flink-job-server-jar)"
        )
    return _judged(
        "Engines", "Flink cluster", seen["slots-available"] > 0, told, "stop a job, or add slots"
    )


# ---- a job


def _job(job: JobConfig, runner: str | None) -> Iterator[Finding]:
    plan = plan_of(job)
    yield Finding("Job", "plan", "good", plan.digest[:12])
    if runner is not None:
        yield _tried("Job", f"runner {runner}", lambda: _runs(job, runner))
    yield _tried("Job", "sink", lambda: _writes(job, plan))
    if job.sink is not None and job.sink.place is not None and not is_remote(job.sink.place):
        yield _space("Job", "releases", Path(job.sink.place))
    if job.secret is not None:
        yield _secret(job.secret.kind, str(job.secret.value))
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


def _secret(kind: str, value: str) -> Finding:
    """Where it is, and who may read it. Never what it is."""
    what = f"secret.{kind}"
    if kind == "env":
        return _judged(
            "Job", what, value in os.environ, value, f"set {value}, where workers run too"
        )
    if kind != "file":
        return Finding("Job", what, "good", f"{value}; workers read it, this machine did not ask")
    try:
        mode = Path(value).stat().st_mode
    except OSError as error:
        make = f"openssl rand -hex 32 > {value} && chmod 600 {value}"
        return Finding("Job", what, "wrong", f"{value}: {error.strerror}", make)
    alone = os.name != "posix" or not mode & (stat.S_IRGRP | stat.S_IROTH)
    told = f"{value}, mode {stat.S_IMODE(mode):o}"
    return _judged("Job", what, alone, told, f"others can read it: chmod 600 {value}")


def _checkpoints(place: str) -> Finding:
    folder = Path(StateFolder.of(place).path)
    if is_remote(str(folder)) or not folder.exists():
        return Finding(
            "Job", "checkpoints", "good", f"{place}, not made yet or not on this machine"
        )
    mode = stat.S_IMODE(folder.stat().st_mode)
    alone = not mode & (stat.S_IRWXG | stat.S_IRWXO)
    remedy = f"it holds clean sums: chmod 700 {folder}"
    return _judged("Job", "checkpoints", alone, f"{place}, mode {mode:o}", remedy)


def _judged(group: str, what: str, good: bool, found: str, remedy: str) -> Finding:
    return Finding(group, what, "good" if good else "wrong", found, "" if good else remedy)


# ---- the page


def to_json(found: Sequence[Finding]) -> dict[str, Any]:
    """JSON-able."""
    return {"healthy": healthy(found), "findings": [asdict(one) for one in found]}


def render(found: Sequence[Finding], out: Console) -> None:
    """For people: a table a group; of packages only what is to be mended, and how many are good."""
    for group in dict.fromkeys(one.group for one in found):
        out.print(heading(group))
        rows = table("", "", "")
        rows.show_header = False
        own = [one for one in found if one.group == group]
        good = [one for one in own if one.package and one.state == "good"]
        for one in own:
            if one in good:
                continue
            rows.add_row(Text(one.state, style=STYLES[one.state]), Text(one.what), Text(one.found))
            if one.remedy:
                rows.add_row("", "", Text(one.remedy, style="" if one.state == "wrong" else "dim"))
        if good:
            rows.add_row(Text("good", style=STYLES["good"]), "packages", f"{len(good)} as needed")
        out.print(Padding(rows, (0, 0, 0, 2), expand=False))
    wrong = sum(one.state == "wrong" for one in found)
    out.print()
    out.print("Nothing is wrong." if not wrong else f"{wrong} to mend: see what is marked wrong.")
