"""Edges of bins: listed, or so many between two of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from weir.dpcore.config.limits import FARTHEST
from weir.dpcore.config.section import Section, with_numbers

MOST_BINS = 4096


class EvenEdges(Section):
    """So many bins of one width."""

    linear: Annotated[list[float], Field(min_length=3, max_length=3)] = Field(
        description="[low, high, bins]: bins of one width between two edges.",
        examples=[[0, 100, 50]],
    )


class LogEdges(Section):
    """So many bins, each as many times as wide as the one before."""

    log: Annotated[list[float], Field(min_length=3, max_length=3)] = Field(
        description="[low, high, bins]: bins whose edges have one ratio; low is above 0.",
        examples=[[1, 10000, 64]],
    )


def even_edges(value: Any) -> Any:
    """[...] | {linear: [low, high, bins]} | {log: [low, high, bins]} -> edges that rise."""
    value = with_numbers(value)
    if isinstance(value, dict):
        value = _between(value)
    if not isinstance(value, (list, tuple)) or len(value) < 3:
        raise ValueError(
            "must be {log: [low, high, bins]}, {linear: [low, high, bins]}, or at least three "
            "edges in a list."
        )
    if len(value) > MOST_BINS + 1:
        raise ValueError(f"must make at most {MOST_BINS:,} bins.")
    for one in value:
        if isinstance(one, bool) or not isinstance(one, (int, float)) or not abs(one) <= FARTHEST:
            raise ValueError(f"must be finite numbers in [-{FARTHEST:g}, {FARTHEST:g}].")
    if any(not low < high for low, high in zip(value, value[1:], strict=False)):
        raise ValueError("must rise strictly from left to right.")
    return tuple(map(float, value))


def _between(value: dict[str, Any]) -> Sequence[float]:
    """Edges between two; rounded to 12 digits, so that every machine has the same."""
    (kind, given), *more = value.items() or (("", None),)
    shape = "must be like {log: [1, 10000, 64]}: [low, high, bins] under log or linear"
    if more or kind not in ("log", "linear"):
        raise ValueError(f"{shape}.")
    if not isinstance(given, (list, tuple)) or len(given) != 3:
        raise ValueError(f"{shape}.")
    if any(isinstance(one, bool) or not isinstance(one, (int, float)) for one in given):
        raise ValueError(f"{shape}, all of them numbers.")
    low, high, bins = given
    if bins != int(bins) or not 2 <= bins <= MOST_BINS:
        raise ValueError(f"must have from 2 to {MOST_BINS:,} bins.")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError("must have low below high, both finite.")
    if kind == "log" and low <= 0:
        raise ValueError("must begin above 0 under log: logarithms of 0 there are none.")
    n = int(bins)
    if kind == "log":
        inner = [low * (high / low) ** (i / n) for i in range(1, n)]
    else:
        inner = [low + (high - low) * (i / n) for i in range(1, n)]
    return [float(low), *(float(f"{one:.12g}") for one in inner), float(high)]


EvenlyEdged = Annotated[
    tuple[float, ...],
    BeforeValidator(
        even_edges,
        json_schema_input_type=Annotated[list[float], Field(min_length=3)] | EvenEdges | LogEdges,
    ),
]
