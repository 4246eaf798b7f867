"""Options of a Flink job: slots and memory, groups of operators."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.config.sections import Engine
from weir.pipelines.engines import flink_config, worker
from weir.pipelines.engines.flink import FlinkRest, as_flink
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.runners.options import FlinkTarget
from weir.pipelines.runners.state_folder import StateFolder
from weir.transforms.sinks import place

FEWEST, MOST = 128, 1 << 15
"""The least that any job has, and Flink's own limit."""
OPTION = "max_parallelism"
FILE = "_groups.json"


def groups_of(plan: Plan) -> int:
    """A power of two, and at least one for each block of keys and each shard of ids."""
    wanted = max(plan.blocks, plan.circumstances.id_shards or 0)
    groups = FEWEST
    while groups < min(wanted, MOST):
        groups *= 2
    return groups


def settled(plan: Plan, given: Sequence[str], state: StateFolder, resumed: bool) -> int:
    """How many groups a stream has.

    Args:
      given: the user's options for Beam. state: where a stream's number is kept.
      resumed: whether it goes on from stored state.

    Raises:
      ConfigError: another number was asked for than that which the stored state has.
    """
    asked = _asked(given)
    if not resumed:
        return asked or groups_of(plan)
    retained = _kept(state)
    if retained is not None and asked not in (None, retained):
        raise ConfigError(
            f"--{OPTION}",
            asked,
            f"differs from the {retained} groups that the state in {state.path} is cut into for "
            "ever: leave it out, or start again in another place.",
        )
    return asked or retained or groups_of(plan)


def keep(state: StateFolder, groups: int) -> None:
    """Notes the number for anyone who resumes."""
    text = json.dumps({OPTION: groups}) + "\n"
    place.replace(place.join(state.path, FILE), text.encode())


def refuse_more(workers: int, groups: int) -> None:
    """Refuses workers that no group is left for.

    Raises:
      ConfigError: names both numbers.
    """
    if workers > groups:
        raise ConfigError(
            "--parallelism",
            workers,
            f"is more than the {groups} groups that the state is cut into, which Flink refuses: "
            f"take {groups} at most.",
        )


def _asked(given: Sequence[str]) -> int | None:
    result = None
    for flag in given:
        name, _, value = flag.removeprefix("--").partition("=")
        if name.replace("-", "_") == OPTION:
            if not value.isdecimal() or not 1 <= int(value) <= MOST:
                raise ConfigError(f"--{OPTION}", value, f"must be a number from 1 to {MOST}.")
            result = int(value)
    return result


def _kept(state: StateFolder) -> int | None:
    data = place.read(place.join(state.path, FILE))
    if data is None:
        return None
    groups = (place.json_in(data) or {}).get(OPTION)
    if type(groups) is not int or not 1 <= groups <= MOST:
        raise ConfigError("engine.checkpoints", state.path, f"holds a {FILE} that is not ours.")
    return int(groups)


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
    reported = False
    while (free := lent + _free_slots(target)) < (asked or 1) and time.monotonic() < deadline:
        if not reported:
            _log.info("waits for %d free slots; the cluster has %d", asked or 1, free)
            reported = True
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
        with as_flink():
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
    # Beam is imported while the job server comes up.
    from weir.transforms.beam.runner_quirks import WHOLE_BUNDLES

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
    bundle_time: int = 20_000,
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
