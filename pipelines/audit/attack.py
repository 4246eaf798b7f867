"""``weir audit CONFIG``: every row of the expiration table, attacked through the real pipeline."""

from __future__ import annotations

import logging
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from weir.dpcore.arrays import Floats
from weir.dpcore.audit.changes import UnitChange
from weir.dpcore.errors import ConfigError
from weir.pipelines.audit.audit import (
    TRIALS,
    Audit,
    Audited,
    PrivacyClaim,
    by_law,
    by_learning,
    scored,
)
from weir.pipelines.audit.choice import Choice, matrix
from weir.pipelines.audit.isolation import Isolation, isolation
from weir.pipelines.audit.malformed import payload_of
from weir.pipelines.audit.pubsub_harness import refuse_missing
from weir.pipelines.audit.search import PART, ROUNDS, adaptive, needs_search, searched
from weir.pipelines.audit.streams import Columns, StreamRows, events_of, joined
from weir.pipelines.audit.trial import run_trials
from weir.pipelines.config.job import JobConfig
from weir.pipelines.runners.local import LOCAL

STILL = 0.01
"""A change that public numbers say moves less than this, in standard deviations, moves nothing."""
ROWS = (1, 2, 10)
"""Rows of the expiration table that are audited, in windows."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Report:
    """What an audit found.

    Attributes:
      audits: a row each. alone: what one record moves in addition its own cell, and what differs
        outside of what is released. notes: what differs from the config. name: of the plan.
    """

    name: str
    audits: tuple[Audit, ...]
    isolation: Isolation | None
    notes: tuple[str, ...]
    seconds: float = 0.0

    @property
    def broken(self) -> tuple[str, ...]:
        """What was proven to be more than is claimed."""
        results = [audit.what for audit in self.audits if audit.broken]
        return (*results, *(() if self.isolation is None else self.isolation.broken))

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "name": self.name,
            "audits": [audit.to_json() for audit in self.audits],
            "bytes": None if self.isolation is None else self.isolation.to_json(),
            "broken": list(self.broken),
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }


def spans(choice: Choice) -> list[tuple[str, int | None, float, float]]:
    """Rows of the table: (words, ticks, epsilon, delta)."""
    promise = choice.plan.guarantee
    window, result = promise.window, list[tuple[str, int | None, float, float]]()
    for row in promise.expiration:
        if window is None:
            result.append(("for ever", None, row.epsilon, row.delta))
        elif row.ticks is not None and row.ticks // window in ROWS:
            times = row.ticks // window
            after = "" if times == 1 else f", {times} windows"
            unit = "tick" if row.ticks == 1 else "ticks"
            result.append(
                (f"within {row.ticks:,} {unit}{after}", row.ticks, row.epsilon, row.delta)
            )
    return result


def attack(
    job: JobConfig,
    trials: int | None = None,
    only: str | None = None,
    runner: str = LOCAL,
    ticks: int | None = None,
    fuzz: bool = True,
    rounds: int = ROUNDS,
    progress: Callable[[str], None] = lambda text: None,
) -> Report:
    """Attacks a config.

    Args:
      job: its source, sink, secret, ledger and dead letters are not touched.
      trials: of one run; None: 20,000, or what one run has room for.
      only: part of the names of the audits that are wanted.
      runner: local or direct, over files, or flink, over messages.
      ticks: length of the clock; None: the config's, cut where it is long.
      fuzz: whether bytes and side channels are audited too. rounds: ticks of an adaptive stream
        whose event is chosen by earlier releases; 0: no such streams. progress: hears each step.

    Raises:
      ConfigError: the config, or no audit of that name. WeirError: a run failed.
    """
    began = time.monotonic()
    notes: tuple[str, ...] = ()
    if runner == "flink":
        refuse_missing()
        notes = _fed(job)
    choice = Choice.of(Audited.of(job, ticks))
    rows = spans(choice)
    if needs_search(choice) and (only is None or "bytes" not in only.lower()):
        count = trials or min(TRIALS, choice.audited.room(1, len(choice.usual) + 1))
        choice, change = searched(choice, rows[0][1], count, runner, progress)
        worst = [change] * len(rows)
    else:
        worst = choice.worst([row[1] for row in rows])
    chosen = list(zip(rows, worst, strict=True))
    audits: list[Audit] = []
    for change in dict.fromkeys(change for _, change in chosen):
        mine = [row for row, item in chosen if item == change]
        others = mine[0] == rows[0]
        wanted = [name for name in titles(choice, mine, others) if _asked(only, name)]
        if wanted:
            progress(f"trials: {change.name}")
            audits += _run(choice, change, mine, others, trials, runner, set(wanted))
    words, span, epsilon, delta = rows[0]
    driven = f"adaptive {words}"
    if rounds and choice.audited.ticks > 1 and _asked(only, driven):
        progress(f"adaptive streams, {rounds} rounds")
        claim, change = PrivacyClaim.of(choice.plan, span, epsilon, delta), worst[0]
        events = len(choice.slotted(change)) + len(change.here) + rounds
        count = trials or min(TRIALS, choice.audited.room(change.slots, events))
        few = max(100, count // PART)
        audits.append(adaptive(choice, change, span, claim, driven, few, rounds, runner))
    result: Isolation | None = None
    if fuzz and _asked(only, "bytes"):
        progress("bytes and side channels")
        result = isolation(choice, runner)
    if not audits and result is None:
        names = [name for row, _ in chosen for name in titles(choice, [row], False)]
        names += [driven] if rounds and choice.audited.ticks > 1 else []
        raise ConfigError("--only", only, f"is part of no name here: {', '.join(names)}, bytes.")
    seconds = time.monotonic() - began
    notes = (*choice.audited.notes, *notes)
    return Report(choice.plan.name, tuple(audits), result, notes, seconds)


def _fed(job: JobConfig) -> tuple[str, ...]:
    """What messages cannot be that the config reads."""
    payload, form = payload_of(job)
    if form is None:
        return ()
    return (f"the config reads {form}, which messages do not hold; they were fed as {payload}.",)


def _asked(only: str | None, name: str) -> bool:
    return only is None or only.lower() in name.lower()


def titles(choice: Choice, rows: list[Any], others: bool) -> Iterator[str]:
    """Names of the audits of a run."""
    outputs = list(Columns.of(choice.plan).by_name)
    for row in rows:
        yield f"all releases {row[0]}"
        if len(outputs) > 1:
            yield from (f"{name} {row[0]}" for name in outputs)
    if others:
        yield f"other changes {rows[0][0]}"


def _run(
    choice: Choice,
    change: UnitChange,
    rows: list[Any],
    others: bool,
    trials: int | None,
    runner: str,
    wanted: set[str],
) -> list[Audit]:
    """One run of the pipeline, and every audit that reads it."""
    audited, began = choice.audited, time.monotonic()
    behind = choice.slotted(change)
    room = audited.room(change.slots, len(behind) + len(change.here))
    count = trials or min(TRIALS, room)
    if trials is None and count < TRIALS:
        _log.info("%s trials fit into one run", count)
    more = choice.others(change) if others and f"other changes {rows[0][0]}" in wanted else []
    each = max(100, count // 10 // max(1, len(more))) if more else 0
    half = np.arange(count) % 2 == 0
    parts: list[StreamRows] = [events_of(change, half, behind)]
    at = count
    for item in more:
        parts.append(events_of(item, np.ones(each, dtype=bool), behind, at))
        at += each
    # What replaces what in the other changes differs, so each has trials without it as well.
    without: dict[tuple[Any, ...], int] = {}
    for item in more:
        if item.there not in without and item.there != change.there:
            without[item.there] = at
            parts.append(events_of(item, np.zeros(each, dtype=bool), behind, at))
            at += each
    with tempfile.TemporaryDirectory(prefix="weir-audit-") as place:
        done = run_trials(choice.maker, [joined(parts)], at * change.slots, Path(place), runner)
    result = matrix(done.transcripts, change.slots)
    main, rest = result[:count], result[count:]
    audits, columns = [], Columns.of(choice.plan)
    took = time.monotonic() - began
    for words, span, epsilon, delta in rows:
        claim = PrivacyClaim.of(choice.plan, span, epsilon, delta)
        views: dict[str, Any] = {f"all releases {words}": None}
        if len(columns.by_name) > 1:
            views |= {f"{name} {words}": which for name, which in columns.by_name.items()}
        for name, which in views.items():
            if name in wanted:
                audits.append(_judge(choice, change, main, half, span, claim, name, which, took))
                took = 0.0
    if more:
        words, span, epsilon, delta = rows[0]
        claim = PrivacyClaim.of(choice.plan, span, epsilon, delta)
        control = {change.there: main[~half]}
        control |= {key: rest[at - count : at - count + each] for key, at in without.items()}
        began, worst = time.monotonic(), None
        for i, item in enumerate(more):
            mine = rest[i * each : (i + 1) * each]
            both = np.concatenate([mine, control[item.there]])
            marks = np.arange(len(both)) < each
            name = f"other changes {words}"
            tried = _judge(
                choice, item, both, marks, span, claim, name, None, 0.0, len(more), change
            )
            if worst is None or (tried.broken, tried.proven_mu or tried.proven) > (
                worst.broken,
                worst.proven_mu or worst.proven,
            ):
                worst = tried
        assert worst is not None
        audits.append(replace(worst, seconds=time.monotonic() - began))
    return audits


def _judge(
    choice: Choice,
    change: UnitChange,
    found: Any,
    marks: Any,
    span: int | None,
    claim: PrivacyClaim,
    name: str,
    columns: Any,
    seconds: float,
    tries: int = 1,
    like: UnitChange | None = None,
) -> Audit:
    """Scores trials and says what they prove.

    Args:
      like: a change that moves something, whose direction is looked along where public numbers say
        that ``change`` moves nothing.
    """
    began, stop = time.monotonic(), choice.stop(change, span)
    by_mu: float | None
    seen = found[:, :, :stop] if columns is None else found[:, :, :stop, columns]
    law = choice.law
    smooth = law is not None and (columns is None or bool(np.isin(columns, law.smooth).any()))
    if law is not None and smooth and bool(np.isfinite(seen).all()):
        here, there = (choice.leaves(change, side, background=True) for side in (True, False))
        weights, mu, linear = law.strongest(here, there, change.arrival, stop, columns)
        scores = scored(found, weights, mu)
        if mu < STILL and like is not None:
            here, there = (choice.leaves(like, side, background=True) for side in (True, False))
            weights, mu, linear = law.strongest(here, there, like.arrival, stop, columns)
            scores = scored(found, weights, mu)
            if scores[marks].mean() < scores[~marks].mean():
                scores = -scores
            tries *= 2
            mu = STILL
        proof = by_law(scores[marks], scores[~marks], mu, claim, linear, tries)
        by, by_mu = "likelihood ratio" if linear else "likelihood ratio, linearised", proof.mu
    else:
        flat = seen.reshape(len(seen), -1)
        proof, by = by_learning(flat[marks], flat[~marks], claim, tries)
        by_mu = None if claim.mu is None else proof.mu
    took = seconds + time.monotonic() - began
    return Audit(
        name, claim, proof.epsilon, by_mu, proof.trials, took, change.name, by, proof.broken,
        proof.curve, span,
    )  # fmt: skip


PANELS = 6
"""Audits that are drawn, at most."""


def _allowed(claim: PrivacyClaim, alarms: Floats) -> Floats:
    """Largest share of hits that a claim allows at shares of alarms (m,): of mu-GDP, or of
    (epsilon, delta)-DP."""
    if claim.mu is not None and math.isfinite(claim.mu):
        return np.asarray(norm.sf(norm.isf(alarms) - claim.mu))
    if not math.isfinite(claim.epsilon):
        return np.ones_like(alarms)
    factor = math.exp(min(claim.epsilon, 700.0))
    first = factor * alarms + claim.delta
    second = 1 - (1 - claim.delta - alarms) / factor
    return np.clip(np.minimum(first, second), 0, 1)


def chart(report: Report) -> dict[str, Any]:
    """Hits against false alarms as a specification of Vega-Lite: a panel for each audit, those of
    all releases first.

    Raises:
      ConfigError: no claim was attacked.
    """
    import altair as alt

    panels = sorted(report.audits, key=lambda item: not item.what.startswith("all releases"))
    if not panels:
        raise ConfigError("--picture", None, "has nothing to show: no claim was attacked.")
    grid = np.concatenate([np.logspace(-5, -1, 120), np.linspace(0.1, 1, 120)])
    rows = []
    for panel in panels[:PANELS]:
        title = f"{panel.what}: claimed {panel.claim.epsilon:.3g}, proven {panel.proven:.3g}"
        curves = {
            "chance": (grid, grid),
            "claim allows": (grid, _allowed(panel.claim, grid)),
            "attack": panel.curve,
        }
        for line, (alarms, hits) in curves.items():
            points = zip(np.asarray(alarms).tolist(), np.asarray(hits).tolist(), strict=True)
            rows += [{"panel": title, "line": line, "x": x, "y": y} for x, y in points]
    colours = alt.Scale(
        domain=["chance", "claim allows", "attack"], range=["#cccccc", "#b03a2e", "#1f4e79"]
    )
    lines = alt.Chart(alt.Data(values=rows)).mark_line()
    lines = lines.encode(
        x=alt.X("x:Q", title="false alarms", scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("y:Q", title="hits", scale=alt.Scale(domain=[0, 1])),
        order="x:Q",
        color=alt.Color("line:N", title=None, scale=colours),
    )
    shown = lines.properties(width=300, height=300)
    shown = shown.facet(alt.Facet("panel:N", title=None, sort=None), columns=min(3, len(panels)))
    title = f"{report.name}: what an attacker finds, and what the claim allows"
    spec: dict[str, Any] = shown.properties(title=title).to_dict()
    return spec
