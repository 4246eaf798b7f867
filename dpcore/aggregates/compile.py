"""From what the user asked for to channels and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcore.aggregates.channel import Channel
from dpcore.aggregates.output import Output


def compile_outputs(
    aggregates: Mapping[str, Any], whole: bool
) -> tuple[tuple[Channel, ...], tuple[Output, ...]]:
    """Shares channels between aggregates: one count, one centred sum per (column, clip).

    Args:
      aggregates: name -> dpcore.plan_config.Aggregate.
      whole: counts live on the integers (discrete noise).

    Returns:
      Channels in the order of a leaf, and outputs in the user's order.
    """
    channels: list[Channel] = []

    def index(channel: Channel) -> int:
        if channel not in channels:
            channels.append(channel)
        return channels.index(channel)

    count = Channel.make("count", whole=whole)
    # A sum over a column and clip whose mean is asked too is (centred sum) + centre * count: one
    # channel less.
    centred = {(a.column, a.clip) for a in aggregates.values() if a.kind in ("mean", "variance")}
    outputs: list[Output] = []
    for name, a in aggregates.items():
        common: dict[str, Any] = {
            "name": name,
            "kind": a.kind,
            "column": a.column,
            "overs": a.overs,
            "weight": a.weight,
        }
        if a.kind == "count":
            outputs.append(Output(**common, count=index(count)))
            continue
        if a.kind == "histogram":
            edges = tuple(float(edge) for edge in a.edges)
            bins = Channel.make("bins", a.column, edges=edges, whole=whole)
            outputs.append(Output(**common, bins=index(bins), labels=bin_labels(edges)))
            continue
        low, high = (float(limit) for limit in a.clip)
        shared = (a.column, a.clip) in centred
        centre = (low + high) / 2 if shared else 0.0
        value = Channel.make("value", a.column, (low, high), centre)
        common.update(low=low, high=high, centre=centre, half=value.half, value=index(value))
        if shared and (a.kind != "sum" or centre != 0):
            common["count"] = index(count)
        if a.kind == "variance":
            common["square"] = index(Channel.make("square", a.column, (low, high), centre))
        outputs.append(Output(**common))
    return tuple(channels), tuple(outputs)


def bin_labels(edges: tuple[float, ...]) -> tuple[str, ...]:
    """ "[1, 2)" for each bin; the last one is closed, as in numpy.histogram."""
    pairs = list(zip(edges[:-1], edges[1:], strict=True))
    labels = [f"[{low:g}, {high:g})" for low, high in pairs]
    low, high = pairs[-1]
    labels[-1] = f"[{low:g}, inf)" if high == float("inf") else f"[{low:g}, {high:g}]"
    return tuple(labels)
