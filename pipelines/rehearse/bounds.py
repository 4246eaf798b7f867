"""Other contribution bounds for an output that is not useful: one, several, another order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from weir.dpcore.plan import Plan
from weir.dpcore.users.unit import MOST
from weir.pipelines.rehearse.event_stats import BoundedStats, EventStats
from weir.pipelines.rehearse.explore import Changes, explore
from weir.pipelines.rehearse.scores import BoundLoss, Score

DOUBLINGS = 10
"""Of contribution bounds together."""
LITTLE = 0.01
"""Share of the events below which a bound is not raised."""
UNEVEN = 0.1
"""By how much less late ticks keep than early ones, as a share of their events, for a remedy."""


@dataclass(frozen=True)
class Remedy:
    """One change.

    Attributes:
      field: of the config. value: what it would be; None: no value of it is enough.
      words: what to do, or that nothing helps.
    """

    field: str
    value: Any
    words: str

    def to_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return dict(vars(self))


@dataclass(frozen=True)
class BoundRemedies:
    """Contribution bounds of one output.

    Attributes:
      plan, seen, score: as they are. priced: half of its margin at the worst tick as planned.
      within: what makes it useful. caps: what other bounds would take. raised: see ``raised``.
    """

    plan: Plan
    seen: EventStats
    score: Score
    priced: float
    within: float
    caps: tuple[BoundLoss, ...]
    raised: tuple[tuple[dict[str, int], BoundedStats], ...]

    def remedies(self) -> Iterator[Remedy]:
        """Contribution bounds of least error, one of them and several together: what all of them
        take falls with the events lost. And another order, where late ticks lose more."""
        now = self._lost(self.caps[0]) if self.caps else 0.0
        if not now > 0:
            return
        single = min(
            (
                (self._error(item.noise, self._lost(item) / now), item.cap, item.other)
                for item in self.caps[1:]
                if self._counts_events or item.cap != "events"
            ),
            default=(math.inf, "", 0),
        )
        error, cap, other = single
        if error < 0.9 * self.score.error:
            yield Remedy(f"privacy.contributions.{cap}", other, f"{other:,}: {self._about(error)}")
        yield from self._together(now, min(error, self.score.error))
        yield from self._order()

    def _together(self, now: float, least: float) -> Iterator[Remedy]:
        """All bounds that are binding, doubled together again and again."""
        best: tuple[float, dict[str, int]] = math.inf, {}
        section = self.plan.config.privacy.contributions
        for changes, stats in self.raised:
            assert section is not None
            if not self._counts_events:
                changes = {name: value for name, value in changes.items() if name != "events"}
            some: Changes = {("privacy", "contributions"): section.model_copy(update=changes)}
            half = explore(self.plan.config, some).get((self.score.name, self.score.over))
            if half is None or not changes:
                continue
            beyond = 0 if self._counts_events else stats.lost.get("events", 0)
            lost = (stats.events - beyond) / self.seen.events.num_rows
            best = min(best, (self._error(half / self.priced, lost / now), changes), key=_first)
        error, changes = best
        if len(changes) > 1 and error < 0.9 * least:
            shown = ", ".join(f"{name}: {value:,}" for name, value in changes.items())
            yield Remedy("privacy.contributions", changes, f"{shown}: {self._about(error)}")

    def _order(self) -> Iterator[Remedy]:
        """The order of hashes, where late ticks keep less than early ones."""
        early, late = self.caps[0].early, self.caps[0].late
        person = self.plan.person
        if early is None or late is None or early - late < UNEVEN or person is None:
            return
        stats = self.seen.bounded_by(replace(person.caps, by_hash=True))
        error = self._error(1.0, (1 - stats.late) / (1 - late))
        if error < 0.9 * self.score.error:
            words = f"hash (files and frames): {self._about(error)}"
            yield Remedy("privacy.contributions.order", "hash", words)

    @property
    def _counts_events(self) -> bool:
        """Whether the bound on the events of a cell takes from the output."""
        return self.plan.biases[self.score.name].takes in ("events", "totals")

    def _lost(self, item: BoundLoss) -> float:
        """Share of the events that bounds take from the output."""
        return item.lost if self._counts_events else item.lost - item.of_events

    def _error(self, noise: float, lost: float) -> float:
        """Of the output with so many times the noise, where bounds take so many times as much."""
        band = self.score.band if self.score.band > 0 else self.score.noise
        return math.hypot(band * noise, self.score.clip * lost)

    def _about(self, error: float) -> str:
        enough = "" if error <= self.within * self.score.true else ", which is not enough"
        return f"about {100 * error / self.score.true:.3g} % on these events{enough}"


def raised(plan: Plan, seen: EventStats) -> Iterator[tuple[dict[str, int], BoundedStats]]:
    """Bounds that are doubled together, all that are binding at a time: what changed, and what the
    others leave out then. Ends where none is binding."""
    person = plan.person
    assert person is not None
    caps, changes = person.caps, dict[str, int]()
    longest = person.periods.longest or MOST
    most = {"ticks": min(MOST, 1 + (longest - 1) // caps.spacing)}
    stats = seen.bounded_by(caps)
    for _ in range(DOUBLINGS):
        binding = [
            name
            for name, lost in stats.lost.items()
            if name != "spacing"
            and lost > LITTLE * seen.events.num_rows
            and getattr(caps, name) < most.get(name, MOST)
        ]
        if not binding:
            return
        higher = {
            name: min(most.get(name, MOST), 2 * getattr(caps, name)) for name in sorted(binding)
        }
        caps, changes = replace(caps, **higher), changes | higher
        stats = seen.bounded_by(caps)
        yield dict(changes), stats


def _first(pair: tuple[float, Any]) -> float:
    return pair[0]
