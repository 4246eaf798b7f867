"""The aggregates section: which kind each entry is, and the section as an algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

from weir.dpcore.aggregates.aggregate import Aggregate
from weir.dpcore.aggregates.compile import compile_aggregates
from weir.dpcore.aggregates.learned import learned_notes
from weir.dpcore.aggregates.moments import SumOutput
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.algorithm import Compiled, Error, Reading, Role, Shown
from weir.dpcore.arrays import Ints
from weir.dpcore.config.section import nearest, refusal
from weir.dpcore.config.section_examples import field_names
from weir.dpcore.config.ticks import spans_of
from weir.dpcore.config.validation import Chosen
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import OutputInfo, Program
from weir.dpcore.registry import AGGREGATES
from weir.dpcore.users.last_seen import BYTES
from weir.dpcore.words import number

_EXTREME = (
    "one event alone decides it, so no noise could hide that event. Take a quantile close to the "
    "end: {{quantile: COLUMN, at: [{at}], edges: {{log: [1, 10000, 64]}}}}, with edges you know."
)
_DISTINCT = (
    "use {count: users} for the users of a key and tick, with over: 7d for those of the last 7 "
    "days, or {count: users, per: period} for each once a period (privacy.unit: user); distinct "
    "values of another column are not counted."
)
_ROOT = (
    "use {{variance: COLUMN, clip: [low, high]}} and take the root of what is released: that costs "
    "nothing more."
)
_RATIO = (
    "release what stands above and below the line, like two sums over one span, and divide them: "
    "that costs nothing more."
)
_QUANTILE = (
    "use {{quantile: COLUMN, at: [{at}], edges: {{log: [1, 10000, 64]}}}}, with edges you know."
)
_RANKED = (
    "release a number for each key, like {count: events} or {sum: COLUMN, clip: [low, high]}, and "
    "rank what is released with `weir top DIR`: that costs no budget. Keys are declared, or found "
    "by key.discover."
)
INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(("max", "maximum"), _EXTREME.format(at="0.99")),
    **dict.fromkeys(("min", "minimum"), _EXTREME.format(at="0.01")),
    "range": _EXTREME.format(at="0.01, 0.99"),
    "median": _QUANTILE.format(at="0.5"),
    **dict.fromkeys(("percentile", "percentiles", "quantiles"), _QUANTILE.format(at="0.5, 0.95")),
    **dict.fromkeys(("average", "avg"), "use {mean: COLUMN, clip: [low, high]}."),
    **dict.fromkeys(("total", "add"), "use {sum: COLUMN, clip: [low, high]}."),
    **dict.fromkeys(("distinct", "unique", "nunique", "count_distinct"), _DISTINCT),
    **dict.fromkeys(("std", "stddev", "sd", "standard_deviation"), _ROOT.format()),
    **dict.fromkeys(("top", "top_k", "topk", "heavy_hitters", "most_common", "mode"), _RANKED),
    **dict.fromkeys(("ratio", "rate", "share"), _RATIO),
    **dict.fromkeys(
        ("first", "last", "any"),
        "a single event's value cannot be released; use a mean, a histogram or a quantile.",
    ),
}
"""Names of aggregates that are asked for elsewhere -> what to write here."""


def kind_of(written: Mapping[str, Any]) -> type[Aggregate]:
    """The kind that a mapping names."""
    kinds = [name for name in AGGREGATES if written.get(name) is not None]
    known = known_fields()
    for name, value in written.items():
        if name not in known and name in INSTEAD and (not kinds or INSTEAD[name] is _RANKED):
            raise refusal(name, value, f"is not served: {INSTEAD[name]}", True)
        if name not in known:
            allowed = list(known) if len(kinds) != 1 else field_names(AGGREGATES[kinds[0]])
            raise refusal(name, value, f"is not a field; {nearest(str(name), allowed)}", True)
    if len(kinds) != 1:
        raise refusal(
            "",
            " and ".join(kinds) or None,
            f"must hold exactly one of {', '.join(AGGREGATES)}, like `count: events`.",
        )
    kind: type[Aggregate] = AGGREGATES[kinds[0]]
    for name, value in given(written).items():
        if name not in kind.model_fields:
            owners = [f"a {item}" for item, cls in AGGREGATES.items() if name in cls.model_fields]
            raise refusal(
                name,
                value,
                f"does not belong to a {kind.kind}: it belongs to {_either(owners)}; remove it.",
            )
    return kind


def known_fields() -> dict[str, str]:
    """Name of every field of any kind -> what it is: the kinds first, what all have last."""
    common = Aggregate.model_fields
    results = {name: AGGREGATES[name].model_fields[name].description or "" for name in AGGREGATES}
    for kind in AGGREGATES.values():
        own = {name: info for name, info in kind.model_fields.items() if name not in common}
        results |= {
            name: info.description or "" for name, info in own.items() if name not in results
        }
    return results | {name: info.description or "" for name, info in common.items()}


def given(written: Mapping[str, Any]) -> dict[str, Any]:
    """Without fields of some kinds that are null: as if they were not there."""
    common = Aggregate.model_fields
    return {name: item for name, item in written.items() if item is not None or name in common}


def _either(names: list[str]) -> str:
    """a; a or b; a, b or c."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


AnyAggregate = Annotated[
    Aggregate, Chosen(kind_of, lambda: AGGREGATES, known_fields, prepare=given)
]

EVENTS = 1000
"""Events for which the error of a mean or variance is shown: it depends on their number."""


def centred_notes(program: Program) -> Iterator[str]:
    """Which sums are taken around the middle of their clip."""
    if not isinstance(program, Aggregates):
        return
    for output in program.infos:
        if not isinstance(output, SumOutput):
            continue
        channel = program.channels[output.value]
        if channel.centre:
            centre = number(channel.centre)
            counted = "count" if channel.presence is None else "count of its values"
            yield (
                f"{output.name}: summed around {centre}, the middle of its clip; {centre} times "
                f"the {counted} is added, with its noise. An event moves that by half as much."
            )


@dataclass(frozen=True)
class AggregatesAlgorithm:
    """Running and sliding aggregates.

    Attributes:
      aggregates: output name -> what it is.
      events, users: that a key is expected to have in a tick; None: nobody said.
      once: whether there is a single release, so that words speak of no ticks.
    """

    aggregates: Mapping[str, Aggregate]
    events: float | None = None
    users: float | None = None
    once: bool = False

    name: ClassVar[str] = "aggregates"
    grows: ClassVar[bool] = False
    only_events: ClassVar[str] = ""
    own_schedule: ClassVar[str] = ""
    reading: ClassVar[Reading] = Reading(
        "Every line is what was released; the true values are not in this page.",
        "The margin holds 95 % of the noise ({band} standard deviations on either side), known "
        "because the noise was added on purpose. It does not cover what contribution bounds and "
        "clips leave out, which stands under each figure, or events that never arrived. Noise may "
        "take a count below 0.",
        "",
    )

    def in_spans(self, every: int) -> Self:
        results = {}
        for name, aggregate in self.aggregates.items():
            field = f"aggregates.{name}.over"
            overs = tuple(n if n == "all" else spans_of(field, n, every) for n in aggregate.over)
            results[name] = aggregate.model_copy(update={"over": overs})
        return replace(self, aggregates=results)

    def columns_read(self) -> None:
        """It makes no model."""

    def compile(self, terms: Terms) -> Compiled:
        return self.compiled(*compile_aggregates(self.aggregates, terms))

    def compiled(self, program: Program, alternatives: tuple[Alternative, ...]) -> Compiled:
        left_out = {name: aggregate.left_out for name, aggregate in self.aggregates.items()}
        notes = (*self._notes(), *centred_notes(program), *learned_notes(program))
        return Compiled(program, alternatives, notes=notes, left_out=left_out)

    def shown(self, output: str) -> Shown:
        item = self.aggregates[output]
        what = item.what
        if self.once:
            what = what.replace(" per tick", "").replace(", each once a period", "")
        what = what if item.where is None else f"{what}, where {item.where}"
        role: Role = "bins" if item.in_bins else "value"
        return Shown(what, what, role, reading=item.reading, between=item.between)

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
        worst = "The error" if self.once else "The worst error of any tick,"
        lost = "what contribution bounds and clips leave out is not in it"
        yield f"{worst} from noise alone: {lost}."
        for note in dict.fromkeys(
            aggregate.noted for aggregate in self.aggregates.values() if aggregate.noted
        ):
            yield f"** {note}"
        yield from self._remembered()
        averages = [aggregate for aggregate in self.aggregates.values() if aggregate.averages]
        for who, expected in (("events", self.events), ("users", self.users)):
            if not any((average.of_users is not None) == (who == "users") for average in averages):
                continue
            if expected is None and self.once:
                yield (
                    f"* at {EVENTS:,} {who} of a key; with n {who} it is {EVENTS:,} / n times "
                    f"this. expect.{who} says how many a key has."
                )
            elif expected is None:
                again = "" if who == "events" else ", each once a tick"
                yield (
                    f"* at {EVENTS:,} {who} in the span{again}; with n {who} it is {EVENTS:,} / n "
                    f"times this. expect.{who} says how many a key has in a tick."
                )
            else:
                span = "of a key, as expected" if self.once else "a tick, as expected, over the "
                span += "" if self.once else "whole span"
                yield (
                    f"* at {number(expected)} {who} {span}; with a share of them it is as much "
                    "larger."
                )

    def _remembered(self) -> Iterator[str]:
        """How much memory distinct users of several ticks take."""
        spans = [over for item in self.aggregates.values() if item.distinct for over in item.overs]
        span = max((over or 0 for over in spans), default=0)
        if not span:
            return
        most = ""
        if self.users is not None:
            size = self.users * span * BYTES / 1e6
            most = f" At most {number(size)} MB a key with expect.users: {number(self.users)}."
        yield (
            f"Who counted in the last {span:,} ticks is remembered: about {BYTES} bytes for each "
            f"user of a key, spread over deduplicate.shards, so {BYTES * 10} MB for 10 million and "
            f"{BYTES / 10:g} GB for 100 million of them.{most} A shorter span keeps fewer."
        )

    def refused(self) -> Iterator[str]:
        for name, aggregate in self.aggregates.items():
            yield from aggregate.refused(name)

    def doubts(self, program: Program, terms: Terms) -> Iterator[str]:
        """None: what noise hides is said with what would change it (``plan_warnings``)."""
        return iter(())
