"""Where releases of a run go, and what the run has noted there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir.pipelines.doors.paths import resolved
from weir.pipelines.sinks.sink import Sink


@dataclass(frozen=True)
class Place:
    """Where a run writes releases: a folder, or in words where it is none."""

    name: str
    folder: bool

    @classmethod
    def of(cls, sink: Sink) -> Place:
        """Of a sink."""
        if sink.place is None:
            return cls(sink.named, False)
        return cls(resolved(sink.place), True)

    def to_json(self) -> dict[str, Any]:
        """JSON-able."""
        return {"place": self.name, "folder": self.folder}


def plan_in(folder: str) -> Mapping[str, Any] | None:
    """What ``_plan.json`` of a folder of results holds; None where there is none."""
    from weir.transforms.sinks import place as folders

    try:
        found = json.loads(folders.read(folders.join(folder, folders.PLAN_FILE)) or b"null")
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def noted_in(place: Place) -> Mapping[str, Any] | None:
    """What a run has noted of its entry in its folder; None where none did."""
    begun = plan_in(place.name) if place.folder else None
    return None if begun is None else begun.get("ledger")


__all__ = ["Place", "noted_in", "plan_in"]
