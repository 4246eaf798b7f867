"""Which change an audit makes: the worst that public numbers know of, and others next to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.audit.changes import (
    CandidateEvents,
    Placed,
    UnitChange,
    candidates,
    changes,
    family,
    odd_changes,
)
from weir.dpcore.audit.law import LINEAR, Law, has_law
from weir.dpcore.bounded_events import bounded
from weir.dpcore.plan import Plan
from weir.dpcore.program import takes_rows
from weir.dpcore.simulate import sum_leaves
from weir.pipelines.audit.audit import Audited
from weir.pipelines.audit.streams import EventMaker, events_of
from weir.pipelines.graph.checks import plan_of

FEW = 3
"""Contents that are tried at every tick, by what they move."""
ROWS = 4
"""Rows of features that a model is attacked with, each with the target at either end."""
OTHERS = 24
"""Changes next to the worst that one run tries."""
AVERAGED = 120
"""Background of means and variances, whose error is linearised."""


@dataclass(frozen=True)
class Choice:
    """What an audit attacks a plan with.

    Attributes:
      maker: of events. behind: events of every trial, of one key; None: ``usual``.
    """

    maker: EventMaker
    behind: tuple[Placed, ...] | None = None

    @classmethod
    def of(cls, audited: Audited) -> Choice:
        """Of a job: contents that its predicate lets through, those that move most first.

        Raises:
          ConfigError: the predicate lets nothing through that an audit can make up.
        """
        offered = candidates(audited.job)
        maker = EventMaker.of(audited, offered)
        counts = maker.counts()
        retained = [at for at in range(offered.sound) if counts[at]] or [0]
        cells = cls(maker)._cells
        if cells is not None:
            sizes = [cls(maker)._length(cell) for cell in cells]
            retained.sort(key=lambda at: -sizes[at])
        order = np.array([*retained, *range(offered.sound, len(offered))])
        sorted_ = CandidateEvents(
            {name: column[order] for name, column in offered.columns.items()},
            tuple(offered.names[at] for at in order),
            len(retained),
        )
        return cls(replace(maker, offered=sorted_))

    @property
    def audited(self) -> Audited:
        return self.maker.audited

    @property
    def plan(self) -> Plan:
        return self.audited.plan

    @cached_property
    def law(self) -> Law | None:
        """Of transcripts, where it is known."""
        if not has_law(self.plan.program) or self.plan.discovery is not None:
            return None
        law = Law(self.plan.program, self.audited.ticks)
        return law if len(law.smooth) else None

    @property
    def linear(self) -> bool:
        """Whether releases are linear in noisy sums, so that what surrounds a change has no say."""
        program = self.plan.program
        return type(program) is Aggregates and all(info.kind in LINEAR for info in program.infos)

    @property
    def background(self) -> tuple[Placed, ...]:
        """Events of every trial, of one key."""
        return self.usual if self.behind is None else self.behind

    @cached_property
    def usual(self) -> tuple[Placed, ...]:
        """Events that are enough for what is released to depend on them."""
        config, ticks, offered = self.audited.job, self.audited.ticks, self.maker.offered
        two = (0, max(0, offered.sound - 1))
        if config.model is None:
            if self.plan.discovery is not None:
                users = self.plan.discovery.discover.min_users
                return tuple(Placed(0, 0, 0) for _ in range(max(0, users - 1)))
            averages = any(type(one).averages for one in config.aggregates.values())
            many = AVERAGED if averages else 1
            spots = [0] * many + [tick % ticks for tick in (1, 5, 13)]
            return tuple(Placed(0, tick, two[at % 2]) for at, tick in enumerate(spots))
        model = config.model
        block = getattr(model, "block", None)
        records = getattr(model, "records", None) or (block if isinstance(block, int) else 0)
        expected = config.expect.events if config.expect is not None else None
        each = max(1, min(4, round(expected or 2)), -(-int(1.3 * records) // ticks))
        spots = [tick for tick in range(ticks) for _ in range(each)]
        some = min(4, offered.sound)
        return tuple(Placed(0, tick, at % some) for at, tick in enumerate(spots))

    def slotted(self, change: UnitChange) -> tuple[Placed, ...]:
        """The background of every key of a trial of a change."""
        return self.slots_of(self.background, change.slots)

    @staticmethod
    def slots_of(behind: tuple[Placed, ...], slots: int) -> tuple[Placed, ...]:
        """The same events in each of so many keys."""
        return tuple(item._replace(slot=slot) for slot in range(slots) for item in behind)

    @cached_property
    def ticks(self) -> tuple[int, ...]:
        """Of the plan's neighbour family."""
        window, block = self.plan.guarantee.window, None
        result = getattr(self.audited.job.model, "block", None)
        if result is not None and not isinstance(result, int):
            block = getattr(self.plan.program, "block_ticks", None)
        return family(self.plan).ticks(self.audited.ticks, window, block)

    @cached_property
    def _cells(self) -> Ints | None:
        """(m, D): what each candidate alone adds to a leaf; None: leaves are no sums."""
        if takes_rows(self.plan.program):
            return None
        results = []
        for at in range(self.maker.offered.sound):
            change = UnitChange("", (Placed(0, 0, at),), ())
            results.append(self.leaves(change, True)[0][0])
        return np.stack(results)

    def _length(self, leaf: Ints) -> float:
        total, program = 0.0, self.plan.program
        for part in program.parts if isinstance(program, Aggregates) else ():
            scales = np.asarray(part.mechanism.scales) * part.mechanism.noise_scale
            mine = part.summed(leaf[None, :])[0]
            total += float(((mine[scales > 0] / scales[scales > 0]) ** 2).sum())
        return total or float((leaf.astype(float) ** 2).sum())

    def leaves(self, change: UnitChange, with_it: bool, background: bool = False) -> list[Ints]:
        """Leaves (T, D) of each key of a trial, as ``dpcore.simulate`` makes them."""
        small = self.small(change.slots)
        behind = self.slotted(change) if background else ()
        if change.twice:  # counts once
            item = replace(change, here=change.here[:1], there=change.there[:1], twice=False)
            return self.leaves(item, with_it, background)
        rows = events_of(change, np.array([with_it]), behind)
        keys = self.audited.key_texts(change.slots)
        events = self.maker.events(small, rows, keys)
        bound = bounded(small, events, self.audited.ticks)
        result = sum_leaves(small, bound, self.audited.ticks)
        names = [name.decode() for name in bound.names]
        nothing = np.zeros((self.audited.ticks, small.program.dimension), dtype=np.int64)
        return [result[:, names.index(key)] if key in names else nothing for key in keys]

    def small(self, keys: int) -> Plan:
        """The plan over few keys: its program is that of the audit."""
        if keys not in self._small:
            from pathlib import Path

            built = plan_of(self.audited.at(Path("."), keys))
            self._small[keys] = replace(built, program=self.plan.program)
        return self._small[keys]

    @cached_property
    def _small(self) -> dict[int, Plan]:
        return {}

    def stop(self, change: UnitChange, span: int | None) -> int:
        """Ticks before which releases within ``span`` of the change lie."""
        if span is None:
            return self.audited.ticks
        since = change.arrival
        if self.plan.person is not None:
            periods = self.plan.person.periods
            last = periods.last(int(periods.of(np.array([since]))[0]))
            since = self.audited.ticks - 1 if last is None else last
        return min(self.audited.ticks, since + span)

    def worst(self, spans: Sequence[int | None]) -> list[UnitChange]:
        """For each span the change that releases within so many ticks tell apart best, by public
        numbers; where no law is known, that which the family names first. One change serves several
        spans where it is within a thousandth of the worst of each."""
        tried = self.contents(self.ticks)
        if self.law is None:
            return [tried[0]] * len(spans)
        sizes = np.array([[self._mu(item, span) for item in tried] for span in spans])
        near = sizes >= sizes.max(axis=1, keepdims=True) * 0.999
        common = int(near.sum(axis=0).argmax())
        return [
            tried[common if near[row, common] else int(sizes[row].argmax())]
            for row in range(len(spans))
        ]

    def _mu(self, change: UnitChange, span: int | None) -> float:
        assert self.law is not None
        with_it, without = self.leaves(change, True), self.leaves(change, False)
        moved = [item - other for item, other in zip(with_it, without, strict=True)]
        return self.law.most(moved, self.stop(change, span))

    def contents(self, ticks: Sequence[int]) -> list[UnitChange]:
        """Changes of the contents that move most, at some ticks."""
        unit_changes: list[UnitChange] = []
        sound = self.maker.offered
        relation = self.plan.guarantee.relation
        if self.plan.person is None and relation != "add_remove":
            some = self._pairs()
            for tick in ticks:
                mine = [UnitChange(f"at tick {tick}: {sound.names[i]} for {sound.names[j]}",
                               (Placed(0, tick, i),), (Placed(0, tick, j),))
                        for i, j in some]  # fmt: skip
                if relation == "replace_anywhere":
                    both = (Placed(0, tick, 0),), (Placed(1, tick, 0),)
                    words = f"at tick {tick}, in another key: {sound.names[0]}"
                    mine.append(UnitChange(words, *both, slots=2))
                unit_changes += mine
            return unit_changes
        few = CandidateEvents(sound.columns, sound.names, min(FEW, sound.sound))
        return changes(self.plan, few, tuple(ticks))

    def searchable(self) -> list[UnitChange]:
        """Changes among which a search looks: of the contents that move most at the first tick of
        the family, and the first of them at its other ticks."""
        first, *later = self.ticks
        result = self.contents([first])
        return [*result, *(self.contents([tick])[0] for tick in later)]

    def _pairs(self) -> list[tuple[int, int]]:
        """Places of the contents that differ most from each other."""
        sound = self.maker.offered
        pairs = [(i, j) for i in range(sound.sound) for j in range(sound.sound) if i != j]
        if not pairs:
            return [(0, 0)]
        if takes_rows(self.plan.program):
            # Neighbours in the list are one row of features, with the target at either end.
            ends = [(i, i + 1) for i in range(0, sound.sound - 1, 2)]
            return [*ends[:ROWS], *(pair for pair in pairs if pair not in ends)][: 2 * ROWS]
        cells = self._cells
        assert cells is not None
        pairs.sort(key=lambda pair: -self._length(cells[pair[0]] - cells[pair[1]]))
        return pairs[:FEW]

    def others(self, worst: UnitChange) -> list[UnitChange]:
        """Changes next to the worst: every tick of the family, every content, odd ones."""
        sound = self.maker.offered
        here = worst.arrival
        result = [content for content in self.contents(self.ticks[:8]) if content != worst]
        every = CandidateEvents(sound.columns, sound.names, min(8, sound.sound))
        if self.plan.person is None and self.plan.guarantee.relation == "add_remove":
            result = changes(self.plan, every, (here,)) + result
        odd = odd_changes(self.plan, self.maker.offered, here)
        if self.plan.config.schema_.id is not None and self.plan.person is None:
            odd.append(
                replace(
                    worst,
                    name=f"delivered twice, {worst.name}",
                    here=worst.here * 2,
                    there=worst.there * 2,
                    twice=True,
                )
            )
        same = (worst.here, worst.there)
        retained = [
            item for item in result if item.slots == worst.slots and (item.here, item.there) != same
        ]
        return (retained[: OTHERS - len(odd)] + odd)[:OTHERS]


def matrix(found: Floats, slots: int) -> Floats:
    """Transcripts (K, T, m) of keys -> (trials, slots, T, m)."""
    return found.reshape(len(found) // slots, slots, *found.shape[1:])
