"""What Flink is told: options of Beam's runner, and Flink's own settings for one job."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.sections import Engine
from weir.pipelines.engines import flink_config, worker
from weir.pipelines.engines.flink_rest import FlinkRest
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.runners.flink_target import FlinkTarget
from weir.pipelines.runners.groups import FEWEST, OPTION
from weir.pipelines.runners.state_folder import StateFolder
from weir.transforms.beam.flink_quirks import WHOLE_BUNDLES

_log = logging.getLogger(__name__)
CHAINED = "operator_chaining"
"""Option of Beam's runner, true unless it is given. Flink names stored state after an operator and
what is chained to it. At parallelism 1 it would chain the first steps to their source, and at no
other: state of the one would not be found at the other."""
SLOTS = 60.0
"""Seconds to wait for free slots: Flink frees those of a dead job after ten or so, and who brings a
cluster up again brings up its TaskManagers one by one."""
RESTARTS = 1_000_000
"""Restarts of a stream before Flink gives up: an operator's alert comes long before."""


def parallelism_of(
    target: FlinkTarget,
    engine: Engine,
    before: int | None = None,
    lent: int = 0,
    patience: float = SLOTS,
) -> int:
    """Workers of the job: as many as asked for, else as before, else as there are free slots.

    Slots that are not free yet are waited for: a JobManager that has just come back does not know
    its TaskManagers at once, and these keep the slots of a job that died for a while.

    Args:
      before: of the last job on this state, None where there was none.
      lent: slots of a job that is to be replaced; they count as free.
      patience: seconds to wait.

    Raises:
      ConfigError: the cluster cannot be reached, or has too few free slots.
    """
    said = target.parallelism or engine.parallelism
    asked = said or before
    if target.embedded:
        return asked or min(2, os.cpu_count() or 1)
    deadline = time.monotonic() + patience
    told = False
    while (free := lent + _free_slots(target)) < (asked or 1) and time.monotonic() < deadline:
        if not told:
            _log.info("waits for %d free slots; the cluster has %d", asked or 1, free)
            told = True
        time.sleep(0.5)
    if free < (asked or 1):
        raise ConfigError(
            "--parallelism" if asked else "--flink-master",
            asked or target.master,
            f"{'' if said or not asked else 'is that of the last job here: it '}needs "
            f"{asked or 1} free slots and the cluster has {free}: stop a job, add a TaskManager, "
            "or ask for fewer.",
        )
    return asked or free


def _free_slots(target: FlinkTarget) -> int:
    try:
        return int(FlinkRest(target.url).get("/overview")["slots-available"])
    except EngineFailed:
        raise ConfigError(
            "--flink-master",
            target.master,
            "does not answer: name HOST:PORT of Flink's REST interface, like localhost:8081.",
        ) from None


def flags_of(
    engine: Engine,
    target: FlinkTarget,
    given: Sequence[str],
    parallelism: int,
    streaming: bool,
    name: str,
    state: StateFolder,
    savepoint: str | None,
    groups: int = FEWEST,
) -> list[str]:
    """Options for Beam: the user's own, and ours where the user gave none.

    Args:
      given: the user's. streaming: events never end, so checkpoints are taken.
      name: of the job on Flink. savepoint: URI of what to resume from.
      groups: see ``pipelines.runners.groups``.
    """
    ours = {
        "streaming": None,  # Flink's batch mode has neither our timers nor checkpoints
        WHOLE_BUNDLES: None,
        CHAINED: None,
        "job_name": name,
        "flink_master": target.master,
        "parallelism": str(parallelism),
        OPTION: str(groups),
        "max_bundle_time_mills": str(max(1, durations.duration(engine.bundle_time) // 1000)),
        "max_bundle_size": str(engine.bundle_events),
    }
    if streaming:
        ours["checkpointing_interval"] = str(durations.duration(engine.checkpoint_every) // 1000)
    if savepoint is not None:
        ours["savepoint_path"] = savepoint
    if target.embedded:
        ours["environment_type"] = "LOOPBACK"
    elif "environment_type" not in names_of(given):
        ours["environment_type"] = "PROCESS"
        ours["environment_config"] = worker.environment_config(_worker_folder(state))
    there = names_of(given)
    return [
        *(flag for flag in given if flag != f"--{CHAINED}=true"),  # Beam knows no such form
        *(
            f"--{key}" if value is None else f"--{key}={value}"
            for key, value in ours.items()
            if key not in there
        ),
    ]


def names_of(flags: Sequence[str]) -> set[str]:
    """Names of options, as Beam spells them."""
    return {
        flag.removeprefix("--").partition("=")[0].replace("-", "_")
        for flag in flags
        if flag.startswith("--")
    }


def _worker_folder(state: StateFolder) -> Path:
    """Where the program that starts workers is written: on this machine's disk."""
    folder = Path(state.path)
    return folder / "worker" if folder.is_absolute() else Path.cwd() / ".weir" / "worker"


def settings_of(
    target: FlinkTarget,
    state: StateFolder,
    streaming: bool,
    rest_port: int,
    savepoint: str | None,
    bundle_time: int = 50_000,
) -> dict[str, Any]:
    """Flink's settings of one job, by dotted name; those of the cluster stay as they are.

    Args:
      rest_port: on which an embedded Flink tells of itself, to this machine only.
      bundle_time: microseconds. What one step hands to the next waits in a buffer of Flink's, 100
        ms unless it is told: at each of five hops that would be twice what a bundle takes.
    """
    values: dict[str, Any] = {}
    if streaming:
        values |= {
            "state.checkpoints.dir": state.checkpoints,
            "state.savepoints.dir": state.savepoints,
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": RESTARTS,
            "restart-strategy.fixed-delay.delay": "1 s",
            "execution.buffer-timeout.interval": f"{max(1, bundle_time // 10_000)} ms",
        }
    if target.embedded:
        values |= {
            "rest.address": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.port": rest_port,
            "rest.bind-port": str(rest_port),
            "state.backend.type": "hashmap",
            "state.checkpoints.num-retained": 3,
        }
        if savepoint is not None:
            values["execution.savepoint.path"] = savepoint
    return values


def write_settings(folder: Path, values: Mapping[str, Any]) -> None:
    """Writes them where ``--flink-conf-dir`` finds them."""
    flink_config.write(folder, values)
