"""Streams whose next event depends on earlier releases, driven through the real pipeline.

A stream is driven in rounds. Each runs the whole job, from bytes to the sink, over the events so
far, under one secret of the audit's own; then it reads what was released before the next tick that
is decided, and chooses that tick's event for every trial by it. The last round's releases are
judged. What was read must come again bit for bit in every later round: releases may depend on no
later event, and noise that came anew could be averaged.

Where the law is linear, what the chosen events add to the releases is known to who chose them, and
is taken off: what is left has the law of a stream without choices, so that the likelihood ratio is
exact. Elsewhere a classifier is given the choices beside the releases.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.audit.changes import Placed, UnitChange
from weir.pipelines.audit.audit import Audit, Claim, by_law, by_learning, scored
from weir.pipelines.audit.choice import Choice, matrix
from weir.pipelines.audit.once import through
from weir.pipelines.audit.streams import Rows, events_of, joined
from weir.transforms.runtime.secret import SecretRef

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
    choice: Choice, change: UnitChange, half: NDArray[np.bool_], rounds: int, runner: str = "direct"
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
            done = through(choice.maker, [rows], keys, Path(place), runner, secret)
        found = matrix(done.transcripts, change.slots)
        if seen is not None:
            until = ticks[at - 1]
            same &= np.array_equal(found[:, :, :until], seen[:, :, :until], equal_nan=True)
        seen = found
        if tick is not None:
            high = _high(choice, found[:, 0], tick)
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
) -> Rows:
    """One event of each trial, in its first key, by its choice."""
    count, (up, down) = len(high), contents(choice)
    serial = first + np.arange(count)
    keys = np.arange(count) * change.slots
    return Rows(keys, np.full(count, tick), np.where(high, up, down), serial, serial)


def added(choice: Choice, driven: Driven) -> Floats:
    """(trials, T, m): what the chosen events add to the releases of the first key, by the law."""
    assert choice.law is not None and choice.law.sufficient
    none = choice.law.solved(choice.law.noisy(_leaves(choice, ())))
    found = np.zeros((driven.high.shape[1], *none.shape))
    for tick, high in zip(driven.ticks, driven.high, strict=True):
        for content, which in zip(contents(choice), (high, ~high), strict=True):
            one = choice.law.noisy(_leaves(choice, (Placed(0, tick, content),)))
            found[which] += choice.law.solved(one) - none
    return found


def _leaves(choice: Choice, events: tuple[Placed, ...]) -> Ints:
    return choice.leaves(UnitChange("", events, ()), True)[0]


def adaptive(
    choice: Choice,
    change: UnitChange,
    span: int | None,
    claim: Claim,
    name: str,
    count: int,
    rounds: int = ROUNDS,
    runner: str = "direct",
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
