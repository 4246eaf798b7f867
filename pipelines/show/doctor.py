"""``weir doctor``: what this machine has and lacks, before a job finds out.

Reads versions, modes of files and free space. No secret is read, no event, no releases; nothing is
written, and nobody but a named Flink cluster is asked.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from rich.console import Console
from rich.text import Text

from weir.dpcore.errors import WeirError
from weir.dpcore.native import ciphers, kernels
from weir.pipelines.config.job import JobConfig
from weir.pipelines.engines import flink_config, job_server, servers
from weir.pipelines.engines.flink import FlinkRest
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.engines.tools import HOW, Component, cache_folder
from weir.pipelines.show.findings import Finding, State, findings_of, judged, space
from weir.pipelines.terminal import bytes_text, heading, indent, table
from weir.transforms.runtime.files import SERVICES

STYLES = {"good": "green", "absent": "dim", "wrong": "bold red"}
LEAST = {"java": 17, "go": 1, "mvn": 3}
"""Least major versions."""
ASK = {"java": ["-version"], "go": ["version"], "mvn": ["--version"]}
NEEDS: dict[str, tuple[Component, ...]] = {
    "local": (),
    "direct": (),
    "prism": (job_server.PRISM,),
    "flink": (job_server.COMPONENT,),
    "dataflow": (),
}
"""Programs that a runner cannot do without."""
TOOLS_OF = {job_server.PRISM.name: ("go",), job_server.COMPONENT.name: ("mvn", "java"),
            flink_config.COMPONENT.name: ("java",), servers.PUBSUB.name: ("go",)}  # fmt: skip
"""What a component is made with, and Flink runs on."""
EXTRAS_OF = {"pubsub": "pubsub", "bigquery": "gcp", "gcp": "gcp", "dataflow": "gcp",
             "kafka": "kafka", "postgresql": "postgresql", "iceberg": "iceberg",
             **{scheme: service.extra for scheme, service in SERVICES.items()}}  # fmt: skip
"""Extras of the package that a kind of source, sink, secret, ledger, bucket or a runner needs."""


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
        runner = "local" if job.source.bounded else None
    results = [*_python(_extras(job, runner)), *_machine(), *_engines(runner)]
    if master is not None:
        results.append(_cluster(master))
    if job is not None:
        results += findings_of(job, runner)
    return results


def healthy(found: Sequence[Finding]) -> bool:
    """Whether nothing that was asked for is wrong."""
    return all(item.state != "wrong" for item in found)


# ---- Python


def _extras(job: JobConfig | None, runner: str | None) -> set[str]:
    kinds = [runner]
    if job is not None:
        connectors = (job.source, job.sink, job.dead_letters, job.secret, job.ledger)
        kinds += [connector.kind for connector in connectors if connector is not None]
        places = [str(connector.value) for connector in connectors if connector is not None]
        kinds += [place.partition("://")[0] for place in [*places, job.state_folder]]
    return {EXTRAS_OF[kind] for kind in kinds if kind in EXTRAS_OF}


def _python(extras: set[str]) -> Iterator[Finding]:
    own = metadata.metadata("weir-dp")
    wanted = SpecifierSet(own["Requires-Python"] or "")
    version = platform.python_version()
    yield judged(
        "Python", "python", version in wanted, f"{version}, {sys.executable}",
        f"use one that is {wanted}",
    )  # fmt: skip
    yield Finding("Python", "weir-dp", "good", own["Version"])
    if any(metadata.distributions(name="weir")):
        remedy = "pip uninstall weir, then pip install --force-reinstall weir-dp"
        yield Finding("Python", "weir", "wrong", "another project of this name", remedy)
    if kernels is None:
        remedy = "install a C compiler and Weir again: the same bits, sooner"
        yield Finding("Python", "compiled kernels", "absent", "not built, or outdated", remedy)
    else:
        result = f"built; AES by {'a library' if ciphers is None else 'the processor'}"
        yield Finding("Python", "compiled kernels", "good", result)
    needs = [Requirement(text) for text in metadata.requires("weir-dp") or ()]
    for need in needs:
        named = {extra for extra in set(EXTRAS_OF.values()) if _asks(need, extra)}
        always = need.marker is None or need.marker.evaluate({"extra": ""})
        if not always and not named:
            continue
        needed = always or bool(named & extras)
        install = "pip install " + (f"'weir-dp[{min(named)}]'" if not always else f"'{need}'")
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
    return replace(judged("Python", name, good, version, install), package=True)


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
        yield space("Machine", what, Path(folder))


# ---- engines


def _engines(runner: str | None) -> Iterator[Finding]:
    needed = NEEDS.get(runner or "", ())
    components = (
        job_server.PRISM,
        flink_config.COMPONENT,
        job_server.COMPONENT,
        servers.PUBSUB,
    )
    missing: set[str] = set()
    for component in components:
        try:
            path = component.located()
        except WeirError:
            state: State = "wrong" if component in needed else "absent"
            missing |= {*TOOLS_OF[component.name]} if component in needed else set()
            yield Finding(
                "Engines", component.name, state, "not installed", f"make {component.target}"
            )
            continue
        yield Finding("Engines", component.name, "good", f"{component.version}, {path}")
    for tool in ASK:
        runs = tool == "java" and runner == "flink"
        yield _tool(tool, runs or tool in missing)


def _tool(tool: str, needed: bool) -> Finding:
    path = shutil.which(tool)
    if path is None:
        return Finding("Engines", tool, "wrong" if needed else "absent", "not on PATH", HOW[tool])
    try:
        reported = subprocess.run([path, *ASK[tool]], capture_output=True, text=True, timeout=20)
        # Numbers behind a letter or a bracket are of colours.
        version = re.search(
            r"(?<![\[;])\b(?:go)?(\d+)(?:\.\d+)+", reported.stdout + reported.stderr
        )
    except (OSError, subprocess.TimeoutExpired):
        version = None
    if version is None:
        state: State = "wrong" if needed else "absent"
        return Finding("Engines", tool, state, f"{path} tells no version", HOW[tool])
    enough = int(version[1]) >= LEAST[tool]
    return judged("Engines", tool, enough or not needed, f"{version[0]}, {path}", HOW[tool])


def _cluster(master: str) -> Finding:
    rest = FlinkRest(master if "://" in master else f"http://{master}")
    try:
        version, free, slots = rest.overview()
    except EngineFailed as error:
        return Finding(
            "Engines", "Flink cluster", "wrong", str(error), "give HOST:PORT of its REST"
        )
    ours = flink_config.VERSION
    text = f"Flink {version}, {free} of {slots} slots free"
    same = version.split(".")[:2] == ours.split(".")[:2]
    if not same:
        remedy = f"the job server of make flink is for {ours.rsplit('.', 1)[0]}: name one for it"
        return Finding(
            "Engines", "Flink cluster", "wrong", text, f"{remedy} (--flink-job-server-jar)"
        )
    return judged("Engines", "Flink cluster", free > 0, text, "stop a job, or add slots")


# ---- the page


def to_json(found: Sequence[Finding]) -> dict[str, Any]:
    """JSON-able."""
    return {"healthy": healthy(found), "findings": [asdict(item) for item in found]}


def render(found: Sequence[Finding], out: Console) -> None:
    """For people: a table a group; of packages only what is to be fixed, and how many are good."""
    for group in dict.fromkeys(item.group for item in found):
        out.print(heading(group))
        rows = table("", "", "")
        rows.show_header = False
        own = [item for item in found if item.group == group]
        good = [item for item in own if item.package and item.state == "good"]
        for entry in own:
            if entry in good:
                continue
            rows.add_row(
                Text(entry.state, style=STYLES[entry.state]), Text(entry.what), Text(entry.found)
            )
            if entry.remedy:
                rows.add_row(
                    "", "", Text(entry.remedy, style="" if entry.state == "wrong" else "dim")
                )
        if good:
            rows.add_row(Text("good", style=STYLES["good"]), "packages", f"{len(good)} as needed")
        out.print(indent(rows))
    wrong = sum(item.state == "wrong" for item in found)
    out.print()
    out.print("Nothing is wrong." if not wrong else f"{wrong} to fix: see what is marked wrong.")
