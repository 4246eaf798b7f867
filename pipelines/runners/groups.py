"""Groups that Flink cuts keyed state into (``max_parallelism``): how many, and for ever.

More workers than groups find nothing to do, and a stream keeps the groups that it was begun with:
Flink finds no state in others. So their number follows from the plan, and is kept beside the state.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
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
    kept = _kept(state)
    if kept is not None and asked not in (None, kept):
        raise ConfigError(
            f"--{OPTION}",
            asked,
            f"differs from the {kept} groups that the state in {state.path} is cut into for ever: "
            "leave it out, or start anew in another place.",
        )
    return asked or kept or groups_of(plan)


def keep(state: StateFolder, groups: int) -> None:
    """Notes the number for whoever resumes."""
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
    found = None
    for flag in given:
        name, _, value = flag.removeprefix("--").partition("=")
        if name.replace("-", "_") == OPTION:
            if not value.isdecimal() or not 1 <= int(value) <= MOST:
                raise ConfigError(f"--{OPTION}", value, f"must be a number from 1 to {MOST}.")
            found = int(value)
    return found


def _kept(state: StateFolder) -> int | None:
    data = place.read(place.join(state.path, FILE))
    if data is None:
        return None
    try:
        return int(json.loads(data)[OPTION])
    except (ValueError, KeyError, TypeError):
        raise ConfigError(
            "engine.checkpoints", state.path, f"holds a {FILE} that is not ours."
        ) from None
