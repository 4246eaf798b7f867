"""Which change, beside which other events, tells most: searched where no law names it.

What surrounds a change is public to an attacker, so it is theirs to choose: a mean tells of an
event most where all others lie at the far end of the clip, a model where nothing pulls against the
canary, a search for keys where one more user makes it likely that the key is found. Where the law
is known but no likelihood ratio is exact, scenes are compared by public numbers. Elsewhere a run of
its own tries many scenes on few trials each, and the best ones again on more; it judges nothing, so
what is proven later, on other trials under another secret, is proven all the same.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.audit.changes import Placed, UnitChange
from weir.dpcore.audit.distinguish import apart
from weir.dpcore.program import takes_rows
from weir.pipelines.audit.choice import Choice, matrix
from weir.pipelines.audit.once import through
from weir.pipelines.audit.streams import events_of, joined

MOST_SCENES = 30
"""Scenes that are tried."""
LEAST = 60
"""Trials that a scene is tried on, half of them with the change; fewer say nothing."""
BEST = 4
"""Scenes that are tried again."""
BY_LAW = 6_000
"""Numbers of transcripts, over all scenes, that are compared by the law."""
_log = logging.getLogger(__name__)


class Scene(NamedTuple):
    """A change, and the events of every trial beside it, of one key."""

    change: UnitChange
    behind: tuple[Placed, ...]


def needs_search(choice: Choice) -> bool:
    """Whether public numbers do not name the worst change by themselves."""
    return choice.law is None or not choice.law.sufficient


def searched(
    choice: Choice,
    span: int | None,
    trials: int,
    runner: str = "direct",
    told: Callable[[str], None] = lambda text: None,
) -> tuple[Choice, UnitChange]:
    """The choice with the best background, and the best change.

    Args:
      span: ticks within which what is released counts. trials: of all scenes together, about.

    Raises:
      WeirError: the run failed.
    """
    found = scenes(choice)
    if choice.law is not None:
        few = found[: max(2, BY_LAW // max(1, choice.audited.ticks * choice.audited.width))]
        sizes = [_by_law(choice, scene, span) for scene in few]
        best = few[int(np.argmax(sizes))]
    else:
        found = found[: max(1, min(MOST_SCENES, trials // LEAST))]
        if len(found) > 1:
            told(f"search: {len(found)} changes and backgrounds")
            first = _tried(choice, found, trials // len(found), span, runner)
            order = np.argsort(-np.abs(first), kind="stable")[:BEST]
            again = [found[at] for at in order]
            second = _tried(choice, again, trials // len(again), span, runner)
            best = again[int(np.argmax(np.abs(second)))]
        else:
            best = found[0]
    return replace(choice, behind=best.behind), best.change


def _by_law(choice: Choice, scene: Scene, span: int | None) -> float:
    """mu of the likelihood ratio, linearised where it has to be; 0 where that gives more than all
    noisy sums have: there releases bend, as a mean does at the end of its clip."""
    mine = replace(choice, behind=scene.behind)
    assert mine.law is not None
    here, there = (mine.leaves(scene.change, side, background=True) for side in (True, False))
    stop = mine.stop(scene.change, span)
    mu = mine.law.strongest(here, there, scene.change.arrival, stop)[1]
    most = mine.law.most([one - other for one, other in zip(here, there, strict=True)], stop)
    return mu if mu <= most * (1 + 1e-6) else 0.0


def _tried(
    choice: Choice, found: Sequence[Scene], each: int, span: int | None, runner: str
) -> Floats:
    """(scenes,): how far apart a run shows both worlds of each to be, in standard deviations."""
    slots = max(scene.change.slots for scene in found)
    half, parts = np.arange(each) % 2 == 0, []
    for at, scene in enumerate(found):
        mine = choice.slots_of(scene.behind, scene.change.slots)
        change = replace(scene.change, slots=slots)
        parts.append(events_of(change, half, mine, at * each))
    with tempfile.TemporaryDirectory(prefix="weir-audit-") as place:
        keys = len(found) * each * slots
        done = through(choice.maker, [joined(parts)], keys, Path(place), runner)
    trials = matrix(done.transcripts, slots)
    sizes = []
    for at, scene in enumerate(found):
        stop = choice.stop(scene.change, span)
        found_here = trials[at * each : (at + 1) * each, : scene.change.slots, :stop]
        flat = found_here.reshape(each, -1)
        sizes.append(apart(flat[half], flat[~half]))
        _log.info("apart by %.2f: %s", sizes[-1], scene.change.name)
    return np.asarray(sizes)


def scenes(choice: Choice) -> list[Scene]:
    """What to try, the most promising first."""
    changes = choice.searchable()
    behind = _backgrounds(choice)
    first, *others = dict.fromkeys(change.arrival for change in changes)
    now = [change for change in changes if change.arrival == first]
    found = [Scene(change, own) for _, own in behind[:1] for change in now]
    later = [one for one in changes if one.arrival in others]
    found += [Scene(one, behind[0][1]) for one in later[: len(others)]]
    # Then the other backgrounds in turn, each beside every change at the first place.
    for change in now:
        for words, own in behind[1:]:
            found.append(Scene(replace(change, name=f"{change.name}, {words}"), own))
    return found


def _backgrounds(choice: Choice) -> list[tuple[str, tuple[Placed, ...]]]:
    """Events of every trial, and what they are, in words."""
    usual, offered = choice.usual, choice.maker.offered
    found = [("", usual)]
    rule = choice.plan.discovery
    if rule is not None:
        # As many users as make it an even chance that the key is found, with the change or without.
        bar = int(np.ceil(float(rule.thresholds(0, 1)[0]) / rule.step))
        for users in (bar, bar - 1, bar + max(1, (bar - rule.discover.min_users) // 3)):
            words = f"beside {users - 1:,} users"
            found.append((words, tuple(Placed(0, 0, 0) for _ in range(max(0, users - 1)))))
        return found
    some = range(min(offered.sound, 6))
    if takes_rows(choice.plan.program):
        found += [(f"beside: {offered.names[one]}",
                   tuple(placed._replace(candidate=one) for placed in usual))
                  for one in some]  # fmt: skip
        found.append(("beside nothing", ()))
        return found
    if choice.linear:
        return found
    for one in some:
        for other in some:
            mixed = tuple(
                placed._replace(candidate=other if at % 4 == 3 else one)
                for at, placed in enumerate(usual)
            )
            if one != other:
                words = f"beside {offered.names[one]}, and {offered.names[other]} of a quarter"
            else:
                words = f"beside {offered.names[one]}"
            found.append((words, mixed))
    return found
