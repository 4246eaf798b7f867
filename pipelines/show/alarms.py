"""What is wrong with a stream's input, from its operator's counts: told in red, never a stop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weir.pipelines.results.verdict import judge
from weir.transforms.runtime.reasons import MISSING, VALUES, by_field


def alarms_of(counters: Mapping[str, int], limit: float) -> tuple[str, ...]:
    """Sentences, the gravest first; none where all is well.

    Args:
      counters: by name. Private numbers, and so are the sentences.
      limit: ``limits.refused``.
    """
    found = []
    verdict = replace(judge(counters, limit), known=True)  # a stream may not have released yet
    if verdict.excess is not None:
        found.append(f"{verdict}.")
    events = counters.get("events", 0)
    unfilled: dict[str, int] = {}
    for (field, reason), count in by_field(counters).items():
        if reason == MISSING or reason in VALUES:
            unfilled[field] = unfilled.get(field, 0) + count
    for field, count in sorted(unfilled.items()):
        if count >= events > 0:
            found.append(
                f"{field}: no readable value in any of {events:,} events; correct its name, or the "
                "sender (a column that only `where` reads may be rare)."
            )
    return tuple(found)
