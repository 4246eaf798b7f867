"""The program of aggregates: exact leaves of channels, noisy sums, and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import PrivacyLoss, compose
from weir.dpcore.aggregates.aggregate import AggregateOutput, Noisy
from weir.dpcore.aggregates.bounding import GATE, Predicated
from weir.dpcore.aggregates.channel import Channel, ChannelGate
from weir.dpcore.aggregates.event_sums import EventSums
from weir.dpcore.arrays import Floats, Ints, State
from weir.dpcore.continual.base import ContinualSum, canonical_mechanism
from weir.dpcore.leaves.keys import grouping_of
from weir.dpcore.leaves.lattice import LatticeRows, sum_cells
from weir.dpcore.native import kernels
from weir.dpcore.program import Bounded, EventCells, NoiseOf, OutputInfo, Program, Released


@dataclass(frozen=True)
class SumPart:
    """One continual sum over some of the channels.

    Attributes:
      mechanism: its dimension is the number of ``coordinates``; of active users it is 1.
      channels: indices of the channels it carries, in order.
      coordinates: which coordinates of a leaf it reads.
      hidden: whether it is released nowhere: keys are found by it, and it ends with the period that
        a key waits in. Such a part is the last.
    """

    mechanism: ContinualSum
    channels: tuple[int, ...]
    coordinates: tuple[int, ...]
    hidden: bool = False

    def summed(self, leaves: Ints) -> Ints:
        """What the mechanism adds up of leaves of one key: (n, D) -> (n, d)."""
        return self.mechanism.summed(leaves[:, list(self.coordinates)])

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Of the mechanism; a hidden part has no rows after the last tick of the period."""
        if self.hidden:
            ticks = 1 if ticks is None else min(ticks, 1)
        return self.mechanism.loss(ticks)

    def loss_of_periods(self, periods: int, ticks: int | None, among: int) -> PrivacyLoss:
        """Of a user in several periods; those of a hidden part share no row, and its noise begins
        again with each: they compose."""
        if self.hidden:
            return compose((self.loss(ticks),) * periods)
        return self.mechanism.loss_of_periods(periods, ticks, among)

    def loss_of_event(self, ticks: int | None) -> PrivacyLoss:
        """Of a single cell of a user."""
        pattern = self.mechanism.pattern
        assert pattern is not None
        single = replace(self.mechanism, pattern=pattern.single())
        return replace(self, mechanism=single).loss(ticks)


@dataclass(frozen=True)
class Aggregates(Program):
    """Counts, sums, means, variances and histograms, released jointly.

    Formal guarantees:
      Unit: one event, or one user in a period. Relation: that of the plan; each part's mechanism
        was given the joint sensitivity of all its channels under it (accounting/joint.py), which
        ``bound`` enforces by clipping each event, or what a user adds to a cell, onto the lattice
        before anything is summed. Sums are never clipped again.
      Users: what one adds to a cell is bounded here, and how many cells by their cap; that a user
        is a newcomer once a key and period is the cap's word too (``@new``).
      Guarantee: the parts' losses compose adaptively (``loss``); everything after ``step`` is
        post-processing.

    Attributes:
      channels: what a leaf holds, in order. outputs: what is released. parts: the continual sums.
      groups: of several groupings which columns each names, where their noise differs or a user's
        cells are merged; () elsewhere. times: how often a contribution counts in the sums of each.
      most_keys: keys of the finest grouping that a user has in a tick, at most.
    """

    channels: tuple[Channel, ...]
    infos: tuple[AggregateOutput, ...]
    parts: tuple[SumPart, ...]
    groups: tuple[tuple[bool, ...], ...] = ()
    times: tuple[int, ...] = ()
    most_keys: int = 1

    @property
    def dimension(self) -> int:
        """D, coordinates of a leaf."""
        return sum(channel.size for channel in self.channels)

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns that are read, those that say whether an event counts among them."""
        named = [c.column for c in self.channels if c.column is not None]
        gates = [GATE + c.where for c in self.channels if c.where is not None]
        return tuple(dict.fromkeys([*named, *gates]))

    @property
    def reads_new(self) -> bool:
        """Whether it asks if a user is new to a key in a period."""
        return any(channel.takes == "newcomers" for channel in self.channels)

    @property
    def reads_gaps(self) -> int:
        """The longest span of ticks in which users are counted once; 0: in none."""
        return max((c.span for c in self.channels if c.takes == "active"), default=0)

    @property
    def starts(self) -> tuple[int, ...]:
        """First coordinate of each channel."""
        return tuple(int(x) for x in np.cumsum([0, *(c.size for c in self.channels)])[:-1])

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Clips every event, or what a user adds to a cell, onto the lattice. What is missing or
        not finite is 0 before it, but where a channel is of those that have a number."""
        rows: list[LatticeRows] = []
        outside = 0
        gates: dict[ChannelGate, Predicated] = {}
        most = self.most_keys * max(channel.events for channel in self.channels)
        for start, channel in zip(self.starts, self.channels, strict=True):
            gate = channel.gate
            if gate not in gates:
                gates[gate] = Predicated.of(columns, n_events, gate, most)
            contribution, beyond = gates[gate].contribution(channel)
            outside += beyond
            rows.append(LatticeRows(start, contribution.coordinate, contribution.amount))
        clipped = sum(gate.clips.clipped for gate in gates.values())
        missing: dict[str, list[Ints]] = {}
        for predicated in gates.values():
            for name, events in predicated.missing.items():
                missing.setdefault(name, []).append(events)
        # An event counts once for a column, however many channels and predicates read it there.
        non_finite = sum(len(np.unique(np.concatenate(some))) for some in missing.values())
        return Bounded(tuple(rows), clipped, non_finite, outside)

    @cached_property
    def _event_sums(self) -> EventSums | None:
        return EventSums.of(self.channels)

    @property
    def adds_events(self) -> bool:
        """Whether it sums events in one pass."""
        return kernels is not None and self._event_sums is not None

    def add_events(
        self, columns: Mapping[str, NDArray[Any]], cells: EventCells, grid: Ints
    ) -> Bounded:
        """``bound`` and ``accumulate`` in one pass."""
        assert self._event_sums is not None
        return self._event_sums.add(columns, cells, grid)

    @property
    def merges_cells(self) -> bool:
        """Whether a user's cells that meet in a coarser key count as one there."""
        return bool(self.groups) and any(channel.takes != "events" for channel in self.channels)

    @property
    def coarser(self) -> tuple[int, ...]:
        """Places of the groupings in which they do."""
        return tuple(at for at, names in enumerate(self.groups) if not all(names))

    @property
    def capacity(self) -> int:
        """Events of a key and tick that its sums have room for."""
        return super().capacity // max(self.times, default=1)

    def times_of(self, grouping: int) -> int:
        """How often each contribution counts in the sums of a grouping."""
        return self.times[grouping] if self.times else 1

    def accumulate(self, rows: Any, cells: Ints, n_cells: int) -> Ints:
        """Exact sums per cell. cells: (n_events,) in [0, n_cells) -> (n_cells, D) int64."""
        return sum_cells(cells, rows, n_cells, self.dimension)

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of a key in each noisy array."""
        return tuple(part.mechanism.dimension for part in self.parts for _ in part.mechanism.overs)

    @property
    def sums(self) -> tuple[ContinualSum, ...]:
        """Where the noise comes from."""
        return tuple(part.mechanism for part in self.parts)

    def init(self, n_keys: int) -> State:
        """One state per part."""
        return tuple(part.mechanism.init(n_keys) for part in self.parts)

    def step(self, state: State, leaves: Ints, noise: NoiseOf) -> tuple[State, tuple[Floats, ...]]:
        """Steps every part; noisy arrays in the order of (part, over)."""
        states: list[State] = []
        noisy: list[Floats] = []
        for index, part in enumerate(self.parts):
            everything = len(part.coordinates) == leaves.shape[2]
            mine = leaves if everything else leaves[:, :, list(part.coordinates)]
            new, released = part.mechanism.step(state[index], mine, noise(index))
            states.append(new)
            noisy.extend(released)
        return tuple(states), tuple(noisy)

    def solve_keys(
        self, noisy: tuple[Floats, ...], ticks: Ints, keys: Sequence[bytes]
    ) -> tuple[Released, ...]:
        """Of each key by the grouping that it is of."""
        if not any(times > 1 for times in self.times):
            return self.solve(noisy, ticks)
        places = {names: at for at, names in enumerate(self.groups)}
        times = [self.times[places[grouping_of(key.decode())]] for key in keys]
        return self.solve(noisy, ticks, np.asarray(times, dtype=np.float64))

    def solve(
        self, noisy: tuple[Floats, ...], ticks: Ints, times: Floats | None = None
    ) -> tuple[Released, ...]:
        """Noisy channel sums -> the user's aggregates with error margins.

        times: (K,) how often contributions count in each key; None: once.
        """
        over_times = 1.0 if times is None else 1.0 / times[None, :, None]
        where: dict[tuple[int, int | None], tuple[int, int, SumPart]] = {}
        index = 0
        for part in self.parts:
            for over in part.mechanism.overs:
                at = 0
                for channel in part.channels:
                    where[channel, over] = (index, at, part)
                    at += self.channels[channel].width
                index += 1
        stddevs: dict[tuple[int, int | None], Floats] = {}
        released: list[Released] = []
        for output in self.infos:
            for over in output.overs:

                def get(channel: int, over: int | None = over) -> tuple[Floats, Floats]:
                    position, at, part = where[channel, over]
                    spot = (id(part), over)
                    if spot not in stddevs:
                        stddevs[spot] = part.mechanism.stddev(ticks, over)
                    info = self.channels[channel]
                    span = slice(at, at + info.width)
                    value = noisy[position][:, :, span] * info.resolution
                    spread = stddevs[spot][:, None, span] * info.resolution
                    return value * over_times, spread * over_times

                noise, _ = where[output.channels[0], over][2].mechanism.real_noise
                released.append(Released(output.name, over, *output.solve(Noisy(get, noise))))
        return tuple(released)

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Composition over the parts."""
        return compose(tuple(part.loss(ticks) for part in self.parts))

    def loss_of_periods(
        self, periods: int, ticks: int | None, among: int, longest: int | None = None
    ) -> PrivacyLoss:
        """Composition over the parts."""
        return compose(tuple(part.loss_of_periods(periods, ticks, among) for part in self.parts))

    def loss_of_event(self, ticks: int | None) -> PrivacyLoss:
        """Composition over the parts."""
        return compose(tuple(part.loss_of_event(ticks) for part in self.parts))

    def mean_stddev(self, ticks: Ints) -> Mapping[tuple[str, int | None], float]:
        known = self.variances(ticks)
        return {
            (output.name, over): float(np.sqrt(self._variances(output, known[over]).mean()))
            for output in self.infos
            for over in output.overs
        }

    def worst_stddev(self, output: AggregateOutput, over: int | None, ticks: Ints) -> float:
        """Largest stddev over ``ticks`` of the output's own noise, in the user's unit.

        Means and variances divide by a private count, so theirs is the stddev of (count x estimate)
        in the worst case over the true moments: divide it by the number of events you expect.
        """
        return self._worst(output, self.channel_variances(over, ticks))

    def _worst(self, output: AggregateOutput, known: Mapping[int, Floats]) -> float:
        return float(np.sqrt(self._variances(output, known).max())) * output.unit

    def _variances(self, output: AggregateOutput, known: Mapping[int, Floats]) -> Floats:
        """Of an output, in squares of its unit: (m,). known: as ``channel_variances`` gives it."""
        total: Floats = np.zeros(1)
        for channel, weight in output.importance().items():
            total = total + weight / output.weight * known[channel]
        return total

    def variances(self, ticks: Ints) -> dict[int | None, dict[int, Floats]]:
        """``channel_variances`` of every ``over`` of an output."""
        overs = dict.fromkeys(over for output in self.infos for over in output.overs)
        return {over: self.channel_variances(over, ticks) for over in overs}

    def channel_variances(self, over: int | None, ticks: Ints) -> dict[int, Floats]:
        """Channel -> noise variance of one coordinate of it at ticks (m,), user's unit squared:
        (m,); of those that have sums over ``over``. Sizes that a clip is learned of
        have none."""
        known: dict[int, Floats] = {}
        for part in self.parts:
            if over not in part.mechanism.overs:
                continue
            stddevs, at = part.mechanism.stddev(ticks, over), 0
            for channel in part.channels:
                if channel not in known and at < stddevs.shape[1]:
                    stddev = stddevs[:, at] / min(self.times, default=1)
                    known[channel] = np.asarray((stddev * self.channels[channel].resolution) ** 2)
                at += self.channels[channel].width
        return known

    def score(self, known: Mapping[int | None, Mapping[int, Floats]]) -> float:
        """Sum over outputs and overs of weight * (worst error / largest effect of one event)^2;
        known: ``variances``."""
        total = 0.0
        for output in self.infos:
            for over in output.overs:
                variances = sum(
                    weight * known[over][channel] for channel, weight in output.importance().items()
                )
                total += float(np.max(variances))
        return total

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released; ``ticks``: where the worst stddev is looked for."""
        return self.described(self.variances(ticks))

    def described(self, known: Mapping[int | None, Mapping[int, Floats]]) -> tuple[OutputInfo, ...]:
        """``describe``; known: ``variances``."""
        infos: list[OutputInfo] = []
        for output in self.infos:
            size = len(output.labels)
            for over in output.overs:
                worst = self._worst(output, known[over])
                most = output.unit * max(
                    self.channels[channel].times for channel in output.channels
                )
                info = OutputInfo(output.name, over, size, most, worst, output.labels)
                infos.append(
                    info._replace(
                        interval=output.interval, additive=output.additive, between=output.between
                    )
                )
        return tuple(infos)

    def state_bytes(self) -> int:
        """Bytes of state per key."""
        return sum(part.mechanism.state_bytes() for part in self.parts)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        return {
            "program": "aggregates",
            "channels": [channel.canonical() for channel in self.channels],
            "outputs": [
                [output.name, output.kind, output.column, list(output.overs), *output.canonical()]
                for output in self.infos
            ],
            "parts": [
                {
                    "mechanism": canonical_mechanism(part.mechanism),
                    "coordinates": list(part.coordinates),
                    **({"hidden": True} if part.hidden else {}),
                }
                for part in self.parts
            ],
            **({"times": list(self.times)} if self.times else {}),
        }
