"""One output of an aggregates section: of the registered kinds, the one whose name is a field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from weir.dpcore.aggregates.aggregate import Aggregate
from weir.dpcore.config.chosen import Chosen
from weir.dpcore.config.section import field_names, nearest, refusal
from weir.dpcore.registry import AGGREGATES

_EXTREME = (
    "one event alone decides it, so no noise could hide that event. Take a quantile close to the "
    "end: {{quantile: COLUMN, at: [{at}], edges: {{log: [1, 10000, 64]}}}}, with edges you know."
)
_DISTINCT = (
    "use {count: users} for the users of a key and tick, or {count: users, per: period} for each "
    "once a period (privacy.unit: user); distinct values of another column are not counted."
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
            owners = [f"a {one}" for one, cls in AGGREGATES.items() if name in cls.model_fields]
            raise refusal(
                name,
                value,
                f"does not belong to a {kind.kind}: it belongs to {_either(owners)}; remove it.",
            )
    return kind


def known_fields() -> dict[str, str]:
    """Name of every field of any kind -> what it is: the kinds first, what all have last."""
    common = Aggregate.model_fields
    found = {name: AGGREGATES[name].model_fields[name].description or "" for name in AGGREGATES}
    for kind in AGGREGATES.values():
        own = {name: info for name, info in kind.model_fields.items() if name not in common}
        found |= {name: info.description or "" for name, info in own.items() if name not in found}
    return found | {name: info.description or "" for name, info in common.items()}


def given(written: Mapping[str, Any]) -> dict[str, Any]:
    """Without fields of some kinds that are null: as if they were not there."""
    common = Aggregate.model_fields
    return {name: one for name, one in written.items() if one is not None or name in common}


def _either(names: list[str]) -> str:
    """a; a or b; a, b or c."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


AnyAggregate = Annotated[
    Aggregate, Chosen(kind_of, lambda: AGGREGATES, known_fields, prepare=given)
]
