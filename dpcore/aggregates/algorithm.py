"""The aggregates section as an algorithm: what it compiles to, and what it says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from weir.dpcore.aggregates.aggregate import Aggregate
from weir.dpcore.aggregates.compile import compile_aggregates
from weir.dpcore.algorithm import Compiled, Error, Reading, Role, Shown
from weir.dpcore.arrays import Ints
from weir.dpcore.config.spans import spans_of
from weir.dpcore.pricing.band import band_of
from weir.dpcore.pricing.price import Alternative
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import OutputInfo, Program
from weir.dpcore.words import number

EVENTS = 1000
"""Events for which the error of a mean or variance is shown: it depends on their number."""


@dataclass(frozen=True)
class AggregatesAlgorithm:
    """Running and sliding aggregates.

    Attributes:
      aggregates: output name -> what it is.
      events, users: that a key is expected to have in a tick; None: nobody said.
    """

    aggregates: Mapping[str, Aggregate]
    events: float | None = None
    users: float | None = None

    name: ClassVar[str] = "aggregates"
    grows: ClassVar[bool] = False
    only_events: ClassVar[str] = ""
    own_schedule: ClassVar[str] = ""
    reading: ClassVar[Reading] = Reading(
        "Every line is what was released; the true values are not in this page.",
        "The band holds 95 % of the noise ({band} standard deviations on either side), known "
        "because the noise was added on purpose. It does not cover what contribution bounds and "
        "clips leave out, which stands under each figure, or events that never arrived. Noise may "
        "take a count below 0.",
        "",
    )

    def in_spans(self, every: int) -> Self:
        found = {}
        for name, one in self.aggregates.items():
            field = f"aggregates.{name}.over"
            overs = tuple(n if n == "all" else spans_of(field, n, every) for n in one.over)
            found[name] = one.model_copy(update={"over": overs})
        return replace(self, aggregates=found)

    def columns_read(self) -> None:
        """It makes no model."""

    def compile(self, terms: Terms) -> Compiled:
        return self.compiled(*compile_aggregates(self.aggregates, terms))

    def compiled(self, program: Program, alternatives: tuple[Alternative, ...]) -> Compiled:
        left_out = {name: one.left_out for name, one in self.aggregates.items()}
        notes = tuple(self._notes())
        return Compiled(program, alternatives, notes=notes, left_out=left_out)

    def shown(self, output: str) -> Shown:
        one = self.aggregates[output]
        what = one.what if one.where is None else f"{one.what}, where {one.where}"
        role: Role = "bins" if one.in_bins else "value"
        return Shown(what, what, role, reading=one.reading, between=one.between)

    def expected_error(self, info: OutputInfo, ticks: Ints) -> Error:
        """See Algorithm; means and variances at EVENTS events, or at those that are expected."""
        aggregate = self.aggregates[info.name]
        if not aggregate.averages:
            return Error(info.stddev_worst, "**" if aggregate.noted else "")
        each = self.events if aggregate.of_users is None else self.users
        if each is None:
            return Error(info.stddev_worst / EVENTS, "*")
        return Error(info.stddev_worst / (each * (info.over or int(ticks[-1]) + 1)), "*")

    def _notes(self) -> Iterator[str]:
        """What the table of releases leaves open."""
        yield (
            "The worst error of any tick, from noise alone: what contribution bounds and clips "
            "leave out is not in it."
        )
        for note in dict.fromkeys(one.noted for one in self.aggregates.values() if one.noted):
            yield f"** {note}"
        averages = [one for one in self.aggregates.values() if one.averages]
        for who, expected in (("events", self.events), ("users", self.users)):
            if not any((one.of_users is not None) == (who == "users") for one in averages):
                continue
            if expected is None:
                again = "" if who == "events" else ", each once a tick"
                yield (
                    f"* at {EVENTS:,} {who} in the span{again}; with n {who} it is {EVENTS:,} / n "
                    f"times this. expect.{who} says how many a key has in a tick."
                )
            else:
                yield (
                    f"* at {number(expected)} {who} a tick, as expected, over the whole span; with "
                    "a share of them it is as much larger."
                )

    def refused(self) -> Iterator[str]:
        for name, aggregate in self.aggregates.items():
            yield from aggregate.refused(name)

    def doubts(self, program: Program, terms: Terms) -> Iterator[str]:
        """See Algorithm. Nothing can be read of a value whose band is wider than all that it may
        be. A sum since the start of a clock without end outgrows any noise."""
        if terms.events is None:
            return
        for info in program.describe(terms.ticks()):
            span = info.over or terms.horizon
            if span is None:
                continue
            events, aggregate = terms.events * span, self.aggregates[info.name]
            noise = info.stddev_worst / (events if aggregate.averages else 1)
            half, reach = band_of(terms.noise or "gaussian") * noise, aggregate.reach(events)
            if half > reach:
                over = f"over {info.over}" if info.over else "since the start"
                yield (
                    f"{info.name}, {over}, is noise: its 95 % band is \N{PLUS-MINUS SIGN} "
                    f"{number(half)}, and {number(terms.events)} events a tick (expect.events) can "
                    f"make no more than {number(reach)} of it. Ask for fewer outputs, longer ticks "
                    "or spans, coarser keys, or a larger epsilon; weir rehearse and weir advise "
                    "say which of them is enough."
                )
