"""The plan file of a folder of results: read, written, compared, and its ticks as times."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from weir.dpcore.errors import ConfigError
from weir.dpcore.estimates.sources import facts_of
from weir.dpcore.leaves.clock import Calendar
from weir.dpcore.models.config import AnyModel
from weir.dpcore.models.predictor import Predictor
from weir.dpcore.plan import Plan
from weir.dpcore.plan_config import PlanConfig
from weir.transforms.sinks import place as sinks_place

ABSENT = "(absent)"


def changed_fields(a: PlanConfig, b: PlanConfig) -> list[dict[str, Any]]:
    """Dotted path, value in A, value in B; for every field that differs. None: absent."""
    flat_a, flat_b = flatten(a), flatten(b)
    names = [*flat_a, *(name for name in flat_b if name not in flat_a)]
    return [
        {"field": name, "a": flat_a.get(name), "b": flat_b.get(name)}
        for name in names
        if flat_a.get(name) != flat_b.get(name)
    ]


def flatten(config: PlanConfig) -> dict[str, Any]:
    """Every field that is set or has a default, by dotted path; the version that is planned."""
    out: dict[str, Any] = {}

    def visit(path: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for name, item in value.items():
                visit(f"{path}.{name}" if path else str(name), item)
        elif value is not None:
            out[path] = value

    visit("", config.model_dump(mode="json", by_alias=True) | {"version": config.plan_version})
    return out


@dataclass(frozen=True)
class Ruler:
    """Ticks in time. On a clock with a zone a time is what the clocks on its walls show, in
    microseconds since 1970 as if they showed UTC.

    Attributes:
      start: of tick 0. period: of a tick; of a calendar clock about. calendar: None: ticks of a
        fixed length.
    """

    start: int
    period: int
    calendar: Calendar | None = None

    @classmethod
    def of_plan(cls, plan: Mapping[str, Any]) -> Ruler | None:
        """Of a calendar clock, by what ``_plan.json`` says; None: it is none."""
        reported = (plan.get("clock") or {}).get("period")
        if not isinstance(reported, Mapping):
            return None
        calendar = Calendar(
            int(reported.get("days", 0)),
            int(reported.get("months", 0)),
            str(reported["zone"]),
            int(reported["first"]),
            skipped=tuple(reported.get("skipped", ())),
        )
        return cls(int(calendar.walls(np.zeros(1, np.int64))[0]), calendar.nominal, calendar)

    def at(self, tick: int) -> int:
        """Where a tick begins."""
        if self.calendar is None:
            return self.start + int(tick) * self.period
        return int(self.calendar.walls(np.asarray([tick]))[0])

    def place(self, stamp: int) -> float:
        """A time as a tick and a fraction of it."""
        if self.calendar is None:
            return (stamp - self.start) / self.period
        tick = (stamp - self.start) // self.period
        while self.at(tick) > stamp:
            tick -= 1
        while self.at(tick + 1) <= stamp:
            tick += 1
        begin = self.at(tick)
        return tick + (stamp - begin) / (self.at(tick + 1) - begin)


LAYOUT = "sink_layout"
"""Field of ``_plan.json`` in a folder of results: how its files hold vectors."""
MODEL = "model_section"
"""Field of ``_plan.json``: the model's section of the config."""
ESTIMATES = "estimates"
"""Field of ``_plan.json``: the law of the noise in each output, by which releases are filtered."""
SHOWN = 4
"""Changed fields that a refusal names."""


def plan_json(plan: Plan) -> dict[str, Any]:
    """What ``plan --json`` prints of it alone, with the fields that it came from under ``config``;
    the section of its model, by which releases of it are used (``model_of``); and what a filter of
    its releases needs."""
    facts = {
        **plan.to_json(prices=False),
        "config": flatten(plan.config),
        ESTIMATES: facts_of(plan),
    }
    if plan.config.model is not None:
        facts[MODEL] = plan.config.model.settled(plan.config.terms()).model_dump(
            mode="json", by_alias=True, exclude_defaults=True
        )
    return facts


def model_of(stored: Mapping[str, Any]) -> Predictor | None:
    """The model of a stored plan; None: it has none."""
    section = stored.get(MODEL)
    return None if section is None else TypeAdapter(AnyModel).validate_python(section)


def note(folder: str, name: str, facts: Mapping[str, Any]) -> None:
    """Puts a field next to those of the plan in a folder of results that was begun."""
    path = sinks_place.join(folder, sinks_place.PLAN_FILE)
    stored = sinks_place.json_in(sinks_place.read(path)) or {}
    text = json.dumps({**stored, name: dict(facts)}, indent=2, sort_keys=True) + "\n"
    sinks_place.replace(path, text.encode())


def version_of(stored: Mapping[str, Any]) -> int:
    """Version of a stored plan."""
    return int(stored["canonical"]["version"])


def version_in(folder: str) -> int | None:
    """Version of the plan under which a folder of results was begun; None where none was."""
    stored = _stored(folder)
    if stored is None or not stored.get("layout"):
        return None  # sinks_place.check says what is wrong with the folder
    with sinks_place.as_written("sink", folder):
        return version_of(stored)


def _stored(folder: str) -> dict[str, Any] | None:
    """What ``_plan.json`` of a folder holds; None where there is no plan."""
    return sinks_place.json_in(sinks_place.read(sinks_place.join(folder, sinks_place.PLAN_FILE)))


def changes(stored: Mapping[str, Any], plan: Plan) -> list[tuple[str, Any, Any]]:
    """(field, stored value, value now) of every field that differs; None: absent."""
    before = {"version": version_of(stored), **(stored.get("config") or {})}
    now = flatten(plan.config)
    names = [*before, *(name for name in now if name not in before)]
    return [
        (name, before.get(name), now.get(name))
        for name in names
        if before.get(name) != now.get(name)
    ]


def refuse_changed(stored: Mapping[str, Any], plan: Plan, field: str, place: str) -> None:
    """Refuses to go on where another plan was at work.

    Args:
      stored: content of the plan's file. field, place: whose it is, for the message.

    Raises:
      ConfigError: names the changed fields, with both values.
    """
    if stored.get("layout") == plan.layout:
        refuse_other_promise(stored, plan, place)
        return
    changed = changes(stored, plan) if stored.get("config") else []
    if not changed:
        raise ConfigError(
            field,
            place,
            "belongs to another plan: the fields are the same, so another version of Weir made it. "
            "Finish with that version, or start again in another place."
            if stored.get("config")
            else "belongs to another plan: start again in another place (weir diff compares).",
        )
    name, _, now = changed[0]
    raise ConfigError(
        name,
        now,
        f"differs from the plan in {place}, and a stream cannot go on under another plan: "
        f"{_listed(changed)}. Put it back, or start again in another place.",
    )


def refuse_other_promise(stored: Mapping[str, Any], plan: Plan, place: str) -> None:
    """Refuses to go on under a horizon that the statement in ``place`` does not tell, or in other
    shards than those in which ids are stored.

    Raises:
      ConfigError: names ``deduplicate.horizon`` or ``deduplicate.shards``.
    """
    now = plan.circumstances.id_horizon
    before = stored["id_horizon"]
    if before != now:
        said = "for the whole run" if before is None else f"for {before:,} ticks of the clock"
        raise ConfigError(
            "deduplicate.horizon",
            "absent" if now is None else f"{now:,} ticks",
            f"differs from the guarantee in {place}, where ids are remembered {said}: put it back, "
            "or start again in another place.",
        )
    shards, stored_in = plan.circumstances.id_shards, stored["id_shards"]
    if stored_in != shards:
        raise ConfigError(
            "deduplicate.shards",
            shards,
            f"differs from {place}, where ids are in {stored_in} shards: put it back, or start "
            "again in another place.",
        )


def refuse_other_results(folder: str, plan: Plan, field: str) -> None:
    """Refuses a folder of results of another plan, by the fields that differ.

    Raises:
      ConfigError: names ``field`` and what changed.
    """
    stored = _stored(folder)
    if stored is None or stored.get("layout") is None:
        return  # sinks_place.check says what is wrong with the folder
    with sinks_place.as_written(field, folder):
        if stored["layout"] == plan.layout:
            refuse_other_promise(stored, plan, folder)
            return
        changed = changes(stored, plan) if stored.get("config") else []
    if changed:
        raise ConfigError(
            field,
            folder,
            f"holds results of another plan ({_listed(changed)}): put it back, or give another "
            "folder.",
        )


def refuse_other_layout(folder: str, layout: str) -> None:
    """Refuses to go on with a folder whose files have other columns.

    Args:
      layout: of the sink, flat or packed. A folder that tells none is of a version that knew
        packed files only.

    Raises:
      ConfigError: names ``sink.layout``.
    """
    begun = (_stored(folder) or {}).get(LAYOUT, "packed")
    if begun != layout:
        raise ConfigError(
            "sink.layout",
            layout,
            f"differs from the files in {folder}, which are {begun}: go on with sink.layout: "
            f"{begun}, or give another folder.",
        )


def _listed(changed: Sequence[tuple[str, Any, Any]]) -> str:
    reported = [f"{name} was {_shown(a)} and is {_shown(b)}" for name, a, b in changed]
    more = f"; and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    return "; ".join(reported[:SHOWN]) + more


def _shown(value: Any) -> str:
    if value is None:
        return "absent"
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
