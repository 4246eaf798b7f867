"""The model section that ``weir init --model`` writes: names from the header, and no bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.pipelines.init.words import word

MOST_FEATURES = 32
"""Columns that are proposed as features; more are named in a comment."""


def check_target(found: Mapping[str, Any], target: str, path: str) -> None:
    """Raises ConfigError: the column to predict cannot be predicted, or nothing predicts it.

    Args:
      found: what ``pipelines.init.header.sniff`` says of the file. target: the column.
    """
    types = {column["name"]: column["type"] for column in found["columns"]}
    if not types:
        raise ConfigError(
            "--model",
            target,
            f"needs the names of columns, and keys of {path} may be data: say which ones to use, "
            "the target among them: --columns a,b,c.",
        )
    if target not in types:
        raise ConfigError("--model", target, f"is not a column of {path}.")
    time = None if found["time"] is None else found["time"]["column"]
    roles = {time: "time", found["id"]: "id", found["unit"]: "user"}
    kind = roles.get(target, types[target])
    if kind not in ("integer", "number", "text"):
        raise ConfigError("--model", target, f"is of type {kind}: a target is a number or a text.")
    if not features_of(found, target) and not found.get("lists"):
        raise ConfigError("--model", target, f"is the only number of {path}: nothing predicts it.")


def features_of(found: Mapping[str, Any], target: str) -> list[str]:
    """The other numbers."""
    return [name for name in found["numbers"] if name != target]


def model(found: Mapping[str, Any], target: str) -> Iterator[str]:
    """The section, and what is expected; bounds and sizes are placeholders."""
    features = features_of(found, target)
    texts = [column["name"] for column in found["columns"] if column["type"] == "text"]
    listed = next(iter(found.get("lists", {}).items()), None)
    if target in texts:
        yield from classifier(features, target, listed)
        return
    used, more = features[:MOST_FEATURES], features[MOST_FEATURES:]
    yield "expect: {events: <EVENTS>}         # that a key has in a period, about; public, a guess"
    yield ""
    yield "model:"
    yield "  algorithm: online.follow_the_leader   # `weir plan` says where another is better"
    if listed is not None:
        used, more = [listed[0]], []
    yield from listed_words(listed) or columns_words(used, len(more))
    yield f"  target: {word(target)}"
    yield "  ranges:                          # what can happen; beyond: moved to the nearer bound"
    for name in (*used, target):
        yield f"    {word(name)}: [<LOW>, <HIGH>]"
    yield "  # loss: squared                  # or absolute, {quantile: 0.9}, {huber: 0.1}, ..."


def listed_words(listed: tuple[str, int] | None) -> list[str]:
    """Features of a list column whose size the header fixes; none where there is no such column."""
    if listed is None:
        return []
    name, size = listed
    return [f"  features: {{column: {word(name)}, size: {size}}}   # the numbers of a list column"]


def columns_words(used: list[str], more: int) -> list[str]:
    """Features that are columns, and how many there are beside them."""
    lines = ["  features:                        # leave out what is not known when you predict"]
    lines += [f"    - {word(name)}" for name in used]
    return lines + ([f"    # and {more} columns of numbers more"] if more else [])


def classifier(
    features: list[str], target: str, listed: tuple[str, int] | None = None
) -> Iterator[str]:
    """The section of a model of classes."""
    used = features[:MOST_FEATURES] if listed is None else [listed[0]]
    yield "model:"
    yield "  algorithm: erm.sliding_window    # or erm.continual, erm.independent_batches, ..."
    yield from listed_words(listed) or columns_words(used, len(features) - len(used))
    yield f"  target: {word(target)}"
    yield "  classes: [<CLASS>, <CLASS>]      # all that count; public: from what you know"
    yield "  ranges:                          # what can happen; beyond: moved to the nearer bound"
    for name in used:
        yield f"    {word(name)}: [<LOW>, <HIGH>]"
    yield "  block: <RECORDS>                 # records of a block (needs schema.id), or 7d"
    yield "  window: 7                        # blocks: 2^k - 1"
    yield "  regularise: 0.1                  # pull to the model before; noise falls with it"
