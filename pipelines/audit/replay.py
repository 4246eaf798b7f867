"""``weir audit CONFIG --replay``: what a neighbour changes once noise gives the same answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.audit.changes import CandidateEvents, Placed, UnitChange, user_events
from weir.dpcore.audit.noise_size import NoiseSize
from weir.dpcore.audit.replay import SLACK, Recorded, Replayed
from weir.dpcore.bounded_events import Events
from weir.dpcore.noise import replay
from weir.dpcore.program import takes_rows
from weir.pipelines.audit.attack import spans
from weir.pipelines.audit.audit import Audited
from weir.pipelines.audit.choice import Choice
from weir.pipelines.audit.replayed import ReplayReport, ReplayRow
from weir.pipelines.audit.streams import events_of
from weir.pipelines.config.job import JobConfig

NEIGHBOURS = 120
"""Pairs of streams that are compared, unless ``--trials`` says otherwise."""
RANDOM = 24
"""Contents of events that are drawn at random, next to the corners and the odd ones."""
SECRETS, FEWER = 64, 12
"""Runs whose noise is measured, of sums and of models that keep rows."""
CROWD = 24
"""Events of a key and tick beyond which a cap is not filled."""
FULL = 512
"""Events that fill the largest fit of blocks of records, at most."""
SLOTS = 8
"""Keys of a pair of streams, at most."""
DRAWS = 64
"""Secrets of the runs of a model: what it reaches depends on what was answered before."""
TICKS = 48
"""Longest clock that is audited, unless ``--ticks`` says otherwise."""


@dataclass(frozen=True)
class Neighbours:
    """A pair of streams: events of both, what they differ in, and the number of a secret."""

    change: UnitChange
    behind: tuple[Placed, ...]
    secret: int = 0


def replay_audit(
    job: JobConfig,
    trials: int | None = None,
    ticks: int | None = None,
    progress: Callable[[str], None] = lambda text: None,
    until: Callable[[ReplayReport], bool] = lambda report: False,
) -> ReplayReport:
    """Replays neighbours of a config.

    Args:
      job: its source, sink, secret, ledger and dead letters are not touched.
      trials: pairs of streams. ticks: length of the clock. progress: hears each step.
      until: whether what was found up to here is enough.

    Raises:
      ConfigError: the config.
    """
    began = time.monotonic()
    audited = Audited.of(job, ticks)
    if ticks is None and audited.ticks > TICKS:
        audited = Audited.of(job, TICKS)
        note = f"the clock was cut to {TICKS} ticks; --ticks sets another length."
        audited = replace(audited, notes=(*audited.notes, note))
    search = Search(Choice.of(audited))
    search.measure()
    for done, pair in enumerate(search.pairs(trials or NEIGHBOURS)):
        if done % 40 == 0:
            progress(f"replay: pair {done + 1}")
        search.compare(pair)
        if until(search.report):
            break
    search.report.seconds = time.monotonic() - began
    return search.report


class Search:
    """Looks for the pair of streams that uses most of a claim."""

    def __init__(self, choice: Choice) -> None:
        self.plan, self._rng = choice.plan, replay.search(0)
        self._offered = choice.maker.offered
        offered = _extended(self._offered, self._rng)
        self.choice = replace(choice, maker=replace(choice.maker, offered=offered))
        discovery = self.plan.discovery
        early = 0.0 if discovery is None else discovery.delta
        program = self.plan.program
        nothing = PrivacyLoss(program.loss(None).kind, 0.0)
        rows = [
            ReplayRow(words, span, epsilon, max(delta - early, 0.0), program.loss(span),
                      nothing, nothing)
            for words, span, epsilon, delta in spans(choice)
        ]  # fmt: skip
        self.report = ReplayReport(self.plan.name, rows, choice.audited.notes, early)
        self._runs: dict[Any, Recorded] = {}
        self._best: tuple[float, Neighbours | None] = (-1.0, None)

    # ---- streams

    @property
    def _contents(self) -> int:
        return len(self.choice.maker.offered)

    def events(self, pair: Neighbours, with_it: bool) -> Events:
        """One of the two streams."""
        rows = events_of(
            pair.change,
            np.array([with_it]),
            self.choice.slots_of(pair.behind, pair.change.slots),
        )
        slots = pair.change.slots
        keys = self.choice.audited.key_texts(slots)
        return self.choice.maker.events(self.choice.small(slots), rows, keys)

    def recorded(self, pair: Neighbours) -> Recorded:
        """The run without the change."""
        place = (pair.behind, pair.change.there, pair.change.slots, pair.secret)
        if place not in self._runs:
            if len(self._runs) > 4:
                self._runs.pop(next(iter(self._runs)))
            plan = self.choice.small(pair.change.slots)
            secret = pair.secret.to_bytes(32, "big")
            self._runs[place] = Recorded.of(plan, self.events(pair, False), secret)
        return self._runs[place]

    # ---- what is looked at

    def measure(self) -> None:
        """Measures the noise, and lists the calls of one run."""
        pair = Neighbours(self._change(0, 0, 1), self.choice.usual)
        sizes = NoiseSize()
        for number in range(FEWER if takes_rows(self.plan.program) else SECRETS):
            run = self.recorded(replace(pair, secret=number))
            sizes.add(run)
        counts: dict[tuple[Any, ...], int] = {}
        for call in run.session.calls:
            scale = call.scale if isinstance(call.scale, float) else call.scale[0]
            row = (call.name, call.kind, call.sensitivity, scale)
            counts[row] = counts.get(row, 0) + 1
        names = ("mechanism", "noise", "sensitivity", "scale", "calls")
        self.report.calls = [
            dict(zip(names, (*row, count), strict=True)) for row, count in counts.items()
        ]
        for fault in sizes.faults:
            self._fault(fault, "all runs")
        for at in run.session.repeated[:1]:
            calls = run.session.calls
            name = calls[at].name if at < len(calls) else self.plan.name
            self._fault(f"{name} uses the same noise twice", "one run")

    def compare(self, pair: Neighbours) -> None:
        """Replays one pair."""
        try:
            reference = self.recorded(pair)
        except Exception as error:
            self._fault(f"control flow: the run ends with {type(error).__name__}", _words(pair))
            return
        result = reference.replayed(self.events(pair, True))
        self.report.tried += 1
        for fault in result.faults:
            self._fault(fault, _words(pair))
        for name in result.without_noise:
            self._fault(f"{name} answers without noise", _words(pair))
        for name in result.same_noise:
            self._fault(f"noise of {name} stays when its data change", _words(pair))
        self.report.early = max(self.report.early, result.early)
        ratio, name, summed = result.largest
        if ratio > self.report.largest[0]:
            self.report.largest = (ratio, name, _words(pair))
        # A user in several blocks moves a fit as often: its loss is counted, its length is not.
        if ratio > SLACK and (summed or self.plan.person is None):
            self._fault(f"{name} changes by more than its sensitivity", _words(pair))
        self._judge(pair, result)

    def _judge(self, pair: Neighbours, result: Replayed) -> None:
        for at, row in enumerate(self.report.audits):
            stop = self.choice.stop(pair.change, row.ticks)
            moved, paid = result.loss(row.claimed.kind, stop)
            if moved.value > row.moved.value:
                row.moved, row.paid, row.change = moved, paid, _words(pair)
            if at == 0 and moved.value > self._best[0]:
                self._best = moved.value, pair

    def _fault(self, what: str, pair: str) -> None:
        self.report.faults.setdefault(what, pair)

    # ---- which pairs

    def pairs(self, count: int) -> Iterator[Neighbours]:
        """So many: half of the family's places and contents, then around the worst so far, and
        every fourth of these from a new start."""
        done = 0
        for pair in self._listed():
            if done >= count // 2:
                break
            done += 1
            yield pair
        while done < count:
            best = self._best[1]
            start = best is None or done % 4 == 0
            yield self._random() if start else self._near(best)  # type: ignore[arg-type]
            done += 1

    def _listed(self) -> Iterator[Neighbours]:
        ticks = self._ticks
        offered = self.choice.maker.offered
        sound = offered.sound
        corner = [(i, j) for i, j in product(range(sound), repeat=2) if i != j] or [(0, 0)]
        if self.plan.guarantee.relation == "add_remove":
            corner = [(i, 0) for i in range(sound)]
        odd = [(i, 0) for i in range(sound, len(self._offered))]
        behind = (self.choice.usual, self._least, self._crowd())
        few = [*corner[:6], *odd[:2]]
        first = [*corner[:2], *odd[:2]]
        for secret, (i, j), place in product(range(SLOTS), corner[:1], self._full()):
            yield Neighbours(self._change(ticks[0], i, j), place, secret)
        for (i, j), tick, shift in product(first, ticks[:4], self._shifts):
            yield Neighbours(self._change(tick, i, j, shift), behind[0])
        for at, tick in enumerate(ticks if self._learns else ()):
            i, j = corner[at % len(corner)]
            yield Neighbours(self._change(tick, i, j), self._silenced(behind[0], tick))
        for place, (i, j) in product(behind[1:], few):
            yield Neighbours(self._change(ticks[0], i, j), place)
        for tick, (i, j) in product(ticks, [*corner[:40], *odd]):
            yield Neighbours(self._change(tick, i, j, i + tick), behind[tick % 3])

    @property
    def _least(self) -> tuple[Placed, ...]:
        """Nothing; where keys are found, an event at the last tick, so that both streams name
        the same keys."""
        last = self.choice.audited.ticks - 1
        return () if self.plan.discovery is None else (Placed(0, last, 0),)

    @property
    def _learns(self) -> bool:
        """Whether what a call is given depends on answers before it."""
        return self.plan.config.model is not None

    def _silenced(self, behind: tuple[Placed, ...], tick: int) -> tuple[Placed, ...]:
        """The same with no number in any event from a tick on: such records take two fits no
        nearer to one another."""
        void = min(self._offered.sound, len(self._offered) - 1)  # the first of the odd ones
        return tuple(
            placed._replace(candidate=void) if placed.tick >= tick else placed for placed in behind
        )

    def _full(self) -> tuple[tuple[Placed, ...], ...]:
        """Of models of blocks of records: as many void events as their largest fit takes, or
        some. Blocks that records fill are fitted where they are full, and not where a tick ends."""
        block = getattr(self.plan.config.model, "block", None)
        schedule = getattr(self.plan.program, "schedule", None)
        if not isinstance(block, int) or schedule is None:
            return ()
        ticks = self.choice.audited.ticks
        each = -(-min(FULL, block * max(schedule.sizes)) // ticks)
        events = tuple(Placed(0, tick, 0) for tick in range(ticks) for _ in range(each))
        return (self._silenced(events, 0),)

    @property
    def _shifts(self) -> tuple[int, ...]:
        """Shapes of a change, next to its place and contents."""
        if self.plan.person is not None:
            replaced = self.plan.guarantee.relation != "add_remove"
            return (3, 0, 4, 1, 5, 2) if replaced else (0, 1, 2)
        return (0, 1, -1) if self.plan.guarantee.relation == "replace_anywhere" else (0,)

    @property
    def _ticks(self) -> tuple[int, ...]:
        return self.choice.ticks or (0,)

    def _change(self, tick: int, i: int, j: int, shift: int = 0) -> UnitChange:
        """One unit's change at a tick: contents i in place of j, or of nothing."""
        relation, names = self.plan.guarantee.relation, self.choice.maker.offered.names
        i, j = i % self._contents, j % self._contents
        person = self.plan.person
        if person is not None:
            there = () if relation == "add_remove" else self._user(tick, j, shift % 3)
            if shift >= 3:  # what replaces it lies in other keys
                keys = min(person.caps.keys, self._slots)
                moved = [item._replace(slot=(item.slot + keys) % self._slots) for item in there]
                there = tuple(moved)
            name = f"a user from tick {tick} on: {names[i]}" + (f" for {names[j]}" if there else "")
            here = self._user(tick, i, shift)
            return UnitChange(name, here, there, self._slots, whole=True)
        here = (Placed(0, tick, i),)
        if relation == "add_remove":
            return UnitChange(f"added at tick {tick}: {names[i]}", here, ())
        if relation == "replace_one":
            name = f"at tick {tick}: {names[i]} for {names[j]}"
            return UnitChange(name, here, (Placed(0, tick, j),))
        other = min(max(tick + shift, 0), self.choice.audited.ticks - 1)
        name = f"at tick {tick}: {names[i]}, for {names[j]} in another key at tick {other}"
        return UnitChange(name, here, (Placed(1, other, j),), slots=2)

    @property
    def _slots(self) -> int:
        """Keys of a trial: as many as two users of one period may touch, or some."""
        person = self.plan.person
        assert person is not None
        return min(max(person.caps.touched, 2 * person.caps.keys), SLOTS)

    def _user(self, tick: int, content: int, shift: int) -> tuple[Placed, ...]:
        """All that a user may add in the period of a tick: from it on or sizes over the period, in
        the same keys or in others at each tick. shift: which of these, modulo 3."""
        if shift % 3 == 0:
            return user_events(self.plan, tick, content)
        person = self.plan.person
        assert person is not None
        caps, period = person.caps, int(person.periods.of(np.array([tick]))[0])
        last = person.periods.last(period)
        last = self.choice.audited.ticks - 1 if last is None else last
        keys = min(caps.keys, self._slots)
        gap = caps.spacing if shift % 3 == 1 else max(1, (last - tick + 1) // caps.ticks)
        ticks = range(tick, min(last, tick + (caps.ticks - 1) * gap) + 1, gap)
        return tuple(
            Placed((keys * (at + shift % 3) + key) % self._slots, when, content)
            for at, when in enumerate(ticks)
            for key in range(keys)
            for _ in range(caps.events)
        )

    def _crowd(self) -> tuple[Placed, ...]:
        """Keys and ticks that hold as many events as their cap lets in, or some."""
        cap = getattr(self.plan.program, "cap", None) or 3
        each, two = min(cap, CROWD), max(1, self.choice.maker.offered.sound)
        spots = range(min(self.choice.audited.ticks, TICKS))
        return tuple(Placed(0, tick, at % two) for tick in spots for at in range(each))

    def _random(self) -> Neighbours:
        rng = self._rng
        ticks = self.choice.audited.ticks
        several = int(rng.choice([0, 1, ticks, 3 * ticks]))
        base = list(self.choice.usual if rng.random() < 0.5 else self._least)
        base += [
            Placed(0, int(rng.integers(ticks)), int(rng.integers(self._contents)))
            for _ in range(several)
        ]
        tick = int(rng.choice(self._ticks)) if rng.random() < 0.5 else int(rng.integers(ticks))
        i, j = (int(rng.integers(self._contents)) for _ in range(2))
        shift = int(rng.choice(self._shifts))
        secret = int(rng.integers(DRAWS)) if self._learns else 0
        if self._learns and rng.random() < 0.5:  # a model is taken far one way, then left there
            each, same = int(rng.integers(1, 9)), int(rng.integers(self.choice.maker.offered.sound))
            base = [Placed(0, at, same) for at in range(ticks) for _ in range(each)]
            base = list(self._silenced(tuple(base), tick))
        return Neighbours(self._varied(self._change(tick, i, j, shift)), tuple(base), secret)

    def _varied(self, change: UnitChange) -> UnitChange:
        """Of a user, sometimes: events of any kind, more of them than bounds let in."""
        rng = self._rng
        if not change.whole or rng.random() < 0.5:
            return change
        ticks = sorted({placed.tick for placed in change.here}) or [0]
        low, high = ticks[0], ticks[-1]

        def some(count: int) -> tuple[Placed, ...]:
            return tuple(
                Placed(int(rng.integers(change.slots)), int(rng.integers(low, high + 1)),
                       int(rng.integers(self._contents)))
                for _ in range(count)
            )  # fmt: skip

        here = some(int(rng.integers(1, 2 * len(change.here) + 1)))
        there = some(len(change.there)) if change.there else ()
        name = f"a user of {len(here)} events in ticks {low} to {high}"
        return replace(change, name=name, here=here, there=there)

    def _near(self, best: Neighbours) -> Neighbours:
        """A pair that differs in one thing from the best so far."""
        rng, change = self._rng, best.change
        what = rng.integers(7 if self._learns else 4)
        if what == 4:
            return replace(best, behind=self._silenced(best.behind, change.arrival))
        if what > 4:
            return replace(best, secret=int(rng.integers(DRAWS)))
        if what == 0 and best.behind:
            at = int(rng.integers(len(best.behind)))
            placed = best.behind[at]._replace(candidate=int(rng.integers(self._contents)))
            return replace(best, behind=(*best.behind[:at], placed, *best.behind[at + 1 :]))
        if what == 1:
            ticks = self.choice.audited.ticks
            more = Placed(0, int(rng.integers(ticks)), int(rng.integers(self._contents)))
            return replace(best, behind=(*best.behind, more))
        tick, i = change.arrival, change.here[0].candidate
        j = change.there[0].candidate if change.there else 0
        if what == 2:
            tick = int(rng.choice(self._ticks))
        elif rng.random() < 0.5:
            i = int(rng.integers(self._contents))
        else:
            j = int(rng.integers(self._contents))
        return replace(best, change=self._change(tick, i, j, int(rng.choice(self._shifts))))


def _words(pair: Neighbours) -> str:
    return f"{pair.change.name}; {len(pair.behind)} other events"


def _extended(offered: CandidateEvents, rng: np.random.Generator) -> CandidateEvents:
    """More contents: each column from any of the sound ones, by itself."""
    sound = offered.sound
    if not offered.columns or sound < 1:
        return offered
    columns = {}
    for name, values in offered.columns.items():
        picks = rng.integers(sound, size=RANDOM)
        more = np.array(values[picks])
        if values.ndim == 2:
            own = rng.integers(sound, size=more.shape)
            more = np.take_along_axis(values, own, axis=0)
        columns[name] = np.concatenate([values, more])
    names = (*offered.names, *(f"random contents {at + 1}" for at in range(RANDOM)))
    return CandidateEvents(columns, names, sound)
