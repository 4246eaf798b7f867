"""``weir run --new``: the next free folder next to the sink's, and what another run costs."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import refuse_mixed
from weir.pipelines.graph.parts import Parts
from weir.pipelines.sinks.sink import Secrets, Sink


def beside(parts: Parts) -> tuple[Sink, str | None]:
    """A sink whose folder is free: the job's own, or OUT-2, OUT-3 and so on.

    Returns:
      The sink, and what is to be said of the new folder; None where the job's own is free.

    Raises:
      ConfigError: no run over files into a folder.
    """
    from weir.transforms.sinks import place

    sink = parts.sink
    if parts.streaming or sink.place is None:
        raise ConfigError("--new", None, "is for runs over files into a folder.")
    base = sink.place.rstrip("/") or sink.place
    taken: list[str] = []
    for number in count(1):
        path = sink.place if number == 1 else f"{base}-{number}"
        if not place.has_anything(path):
            break
        taken.append(path)
    if not taken:
        return sink, None
    free = sink.at(path)
    assert free is not None
    refuse_mixed(parts.letters, free)
    costs = cost(parts.plan, parts.secrets, taken)
    return free, f"Writes to {path}, because {taken[0]} is taken. {costs}"


def cost(plan: Plan, secrets: Secrets, taken: list[str]) -> str:
    """What one run more costs next to those in some folders, in words."""
    from weir.pipelines.results import secret_marks

    marks = secret_marks.whole(secrets, plan)
    looks: dict[Any, tuple[float, float]] = {}
    for folder in taken:
        stored, there = _plan_in(folder), _marks_in(folder)
        if stored is None:
            continue  # nothing of ours is in it
        known = there is not None and marks is not None
        if not known or (stored["digest"], there) != (plan.digest, marks):
            promise = stored["guarantee"]
            looks[(stored["digest"], json.dumps(there)) if there else folder] = (
                float(promise["epsilon"]),
                float(promise["delta"]),
            )
    promise = plan.guarantee
    if not looks:
        return (
            "Plan and secret are those of the runs next to it: over the same events it releases "
            "the same bytes and costs nothing more; if its events differ from theirs, it adds "
            f"epsilon {promise.epsilon:g}, delta {promise.delta:g} for every event that both hold."
        )
    epsilon = promise.epsilon + sum(look for look, _ in looks.values())
    delta = promise.delta + sum(look for _, look in looks.values())
    return (
        "It spends the budget again: runs next to it have another secret, or another plan, so all "
        f"of them over the same events cost together at most epsilon {epsilon:g}, delta {delta:g}."
    )


def _plan_in(folder: str) -> dict[str, Any] | None:
    from weir.transforms.sinks import place

    result = place.json_in(place.read(place.join(folder, place.PLAN_FILE)))
    if result is None or not {"digest", "guarantee"} <= result.keys():
        return None
    with place.as_written("--new", folder):
        guarantee = result["guarantee"]
        costs = {name: float(guarantee[name]) for name in ("epsilon", "delta")}
    return {"digest": str(result["digest"]), "guarantee": costs}


def _marks_in(folder: str) -> dict[str, str] | None:
    from weir.pipelines.results import secret_marks

    try:
        return secret_marks.read(folder, "--new")
    except ConfigError:
        return None
