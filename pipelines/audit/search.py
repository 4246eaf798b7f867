"""Searches for the events that tell most: fixed candidates and adaptive ones."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.audit.changes import Placed, UnitChange
from weir.dpcore.audit.distinguish import apart
from weir.dpcore.program import takes_rows
from weir.pipelines.audit.audit import Audit, PrivacyClaim, by_law, by_learning, scored
from weir.pipelines.audit.choice import Choice, matrix
from weir.pipelines.audit.streams import StreamRows, events_of, joined
from weir.pipelines.audit.trial import run_trials
from weir.pipelines.runners.local import LOCAL
from weir.transforms.runtime.secret import SecretRef

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
    """A change, and the events of every trial next to it, of one key."""

    change: UnitChange
    behind: tuple[Placed, ...]


def needs_search(choice: Choice) -> bool:
    """Whether public numbers do not name the worst change by themselves."""
    return choice.law is None or not choice.law.sufficient


def searched(
    choice: Choice,
    span: int | None,
    trials: int,
    runner: str = LOCAL,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[Choice, UnitChange]:
    """The choice with the best background, and the best change.

    Args:
      span: ticks within which what is released counts. trials: of all scenes together, about.

    Raises:
      WeirError: the run failed.
    """
    result = scenes(choice)
    if choice.law is not None:
        few = result[: max(2, BY_LAW // max(1, choice.audited.ticks * choice.audited.width))]
        sizes = [_by_law(choice, scene, span) for scene in few]
        best = few[int(np.argmax(sizes))]
    else:
        result = result[: max(1, min(MOST_SCENES, trials // LEAST))]
        if len(result) > 1:
            progress(f"search: {len(result)} changes and backgrounds")
            first = _tried(choice, result, trials // len(result), span, runner)
            order = np.argsort(-np.abs(first), kind="stable")[:BEST]
            again = [result[at] for at in order]
            second = _tried(choice, again, trials // len(again), span, runner)
            best = again[int(np.argmax(np.abs(second)))]
        else:
            best = result[0]
    return replace(choice, behind=best.behind), best.change


def _by_law(choice: Choice, scene: Scene, span: int | None) -> float:
    """mu of the likelihood ratio, linearised where it has to be; 0 where that gives more than all
    noisy sums have: there releases bend, as a mean does at the end of its clip."""
    mine = replace(choice, behind=scene.behind)
    assert mine.law is not None
    here, there = (mine.leaves(scene.change, side, background=True) for side in (True, False))
    stop = mine.stop(scene.change, span)
    mu = mine.law.strongest(here, there, scene.change.arrival, stop)[1]
    most = mine.law.most([item - other for item, other in zip(here, there, strict=True)], stop)
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
        done = run_trials(choice.maker, [joined(parts)], keys, Path(place), runner)
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
    """What to try, the most guaranteeing first."""
    changes = choice.searchable()
    behind = _backgrounds(choice)
    first, *others = dict.fromkeys(change.arrival for change in changes)
    now = [change for change in changes if change.arrival == first]
    results = [Scene(change, own) for _, own in behind[:1] for change in now]
    later = [item for item in changes if item.arrival in others]
    results += [Scene(item, behind[0][1]) for item in later[: len(others)]]
    # Then the other backgrounds in turn, each next to every change at the first place.
    for change in now:
        for words, own in behind[1:]:
            results.append(Scene(replace(change, name=f"{change.name}, {words}"), own))
    return results


def _backgrounds(choice: Choice) -> list[tuple[str, tuple[Placed, ...]]]:
    """Events of every trial, and what they are, in words."""
    usual, offered = choice.usual, choice.maker.offered
    results = [("", usual)]
    rule = choice.plan.discovery
    if rule is not None:
        # As many users as make it an even chance that the key is found, with the change or without.
        bar = int(np.ceil(float(rule.thresholds(0, 1)[0]) / rule.step))
        for users in (bar, bar - 1, bar + max(1, (bar - rule.discover.min_users) // 3)):
            words = f"next to {users - 1:,} users"
            results.append((words, tuple(Placed(0, 0, 0) for _ in range(max(0, users - 1)))))
        return results
    some = range(min(offered.sound, 6))
    if takes_rows(choice.plan.program):
        results += [(f"next to: {offered.names[item]}",
                   tuple(placed._replace(candidate=item) for placed in usual))
                  for item in some]  # fmt: skip
        results.append(("next to nothing", ()))
        return results
    if choice.linear:
        return results
    for entry in some:
        for other in some:
            mixed = tuple(
                placed._replace(candidate=other if at % 4 == 3 else entry)
                for at, placed in enumerate(usual)
            )
            if entry != other:
                words = f"next to {offered.names[entry]}, and {offered.names[other]} of a quarter"
            else:
                words = f"next to {offered.names[entry]}"
            results.append((words, mixed))
    return results


ROUNDS = 3
"""Ticks whose event is chosen by what was released before."""
PART = 4
"""One in so many trials of an audit is driven so: a round costs a run."""
CHANGED = "a release that was read changed when later events came"


@dataclass(frozen=True)
class Driven:
    """Trials of streams that were driven.

    Attributes:
      found: (trials, slots, T, m) releases. ticks: that were decided. high: (rounds, trials)
        whether the first content was chosen, else the last. same: whether what was read came
        again.
    """

    found: Floats
    ticks: tuple[int, ...]
    high: NDArray[np.bool_]
    same: bool


def decided(choice: Choice, change: UnitChange, rounds: int) -> tuple[int, ...]:
    """Ticks that are decided, each behind one that has been released: around the change's, and to
    the end."""
    ticks = choice.audited.ticks
    wanted = {change.arrival + 1, *np.linspace(1, ticks - 1, rounds).astype(int).tolist()}
    return tuple(sorted(tick for tick in wanted if 0 < tick < ticks)[:rounds])


def contents(choice: Choice) -> tuple[int, int]:
    """The contents among which is chosen: the first of the candidates, and the last sound one."""
    return 0, max(0, choice.maker.offered.sound - 1)


def drive(
    choice: Choice, change: UnitChange, half: NDArray[np.bool_], rounds: int, runner: str = LOCAL
) -> Driven:
    """Runs trials, half of them with the change, round by round.

    Raises:
      WeirError: a run failed.
    """
    behind = choice.slotted(change)
    rows, secret = events_of(change, half, behind), SecretRef.fresh()
    ticks, count = decided(choice, change, rounds), len(half)
    first = 1 + int(rows.serial.max(initial=0))
    first = max(first, 1 + int(rows.person.max(initial=0)))
    chosen, seen, same = [], None, True
    for at, tick in enumerate((*ticks, None)):
        with tempfile.TemporaryDirectory(prefix="weir-audit-") as place:
            keys = count * change.slots
            done = run_trials(choice.maker, [rows], keys, Path(place), runner, secret)
        result = matrix(done.transcripts, change.slots)
        if seen is not None:
            until = ticks[at - 1]
            same &= np.array_equal(result[:, :, :until], seen[:, :, :until], equal_nan=True)
        seen = result
        if tick is not None:
            high = _high(choice, result[:, 0], tick)
            chosen.append(high)
            rows = joined([rows, _events(choice, change, high, tick, first + at * count)])
    assert seen is not None
    return Driven(seen, ticks, np.array(chosen).reshape(len(ticks), count), same)


def _high(choice: Choice, found: Floats, tick: int) -> NDArray[np.bool_]:
    """(trials,) whether the newest release before a tick, (trials, T, m), is above what public
    numbers or the stream's own past make of it."""
    newest = np.nan_to_num(found[:, tick - 1, 0])
    if choice.law is not None:
        leaves = choice.leaves(UnitChange("", (), ()), False, background=True)[0]
        return np.asarray(newest > choice.law.solved(choice.law.noisy(leaves))[tick - 1, 0])
    past = np.nan_to_num(found[:, : tick - 1, 0])
    return np.asarray(newest > (past.mean(axis=1) if tick > 1 else 0.0))


def _events(
    choice: Choice, change: UnitChange, high: NDArray[np.bool_], tick: int, first: int
) -> StreamRows:
    """One event of each trial, in its first key, by its choice."""
    count, (up, down) = len(high), contents(choice)
    serial = first + np.arange(count)
    keys = np.arange(count) * change.slots
    return StreamRows(keys, np.full(count, tick), np.where(high, up, down), serial, serial)


def added(choice: Choice, driven: Driven) -> Floats:
    """(trials, T, m): what the chosen events add to the releases of the first key, by the law."""
    assert choice.law is not None and choice.law.sufficient
    none = choice.law.solved(choice.law.noisy(_leaves(choice, ())))
    result = np.zeros((driven.high.shape[1], *none.shape))
    for tick, high in zip(driven.ticks, driven.high, strict=True):
        for content, which in zip(contents(choice), (high, ~high), strict=True):
            item = choice.law.noisy(_leaves(choice, (Placed(0, tick, content),)))
            result[which] += choice.law.solved(item) - none
    return result


def _leaves(choice: Choice, events: tuple[Placed, ...]) -> Ints:
    return choice.leaves(UnitChange("", events, ()), True)[0]


def adaptive(
    choice: Choice,
    change: UnitChange,
    span: int | None,
    claim: PrivacyClaim,
    name: str,
    count: int,
    rounds: int = ROUNDS,
    runner: str = LOCAL,
) -> Audit:
    """Audits a claim on streams that are driven by what was released.

    Args:
      change: what neighbours differ in. span: ticks within which what is released counts.
      count: trials. rounds: ticks that are decided.

    Raises:
      WeirError: a run failed.
    """
    began, half = time.monotonic(), np.arange(count) % 2 == 0
    driven = drive(choice, change, half, rounds, runner)
    stop = choice.stop(change, span)
    seen = driven.found[:, :, :stop]
    by_mu: float | None
    if choice.law is not None and choice.law.sufficient and bool(np.isfinite(seen).all()):
        here, there = (choice.leaves(change, side, background=True) for side in (True, False))
        weights, mu, _ = choice.law.strongest(here, there, change.arrival, stop)
        left = driven.found.copy()
        left[:, 0] -= added(choice, driven)
        scores = scored(left, weights, mu)
        proof = by_law(scores[half], scores[~half], mu, claim, linear=True)
        by, by_mu = "likelihood ratio", proof.mu
    else:
        flat = np.concatenate([seen.reshape(count, -1), driven.high.T], axis=1)
        proof, by = by_learning(flat[half], flat[~half], claim)
        by_mu = None if claim.mu is None else proof.mu
    broken = proof.broken or not driven.same
    words = f"{change.name}; events at ticks {_told(driven.ticks)} follow from releases before"
    return Audit(
        name, claim, proof.epsilon, by_mu, proof.trials, time.monotonic() - began, words,
        by if driven.same else CHANGED, broken, proof.curve, span,
    )  # fmt: skip


def _told(ticks: tuple[int, ...]) -> str:
    return ", ".join(map(str, ticks))
