"""Bounds that a run has learned in private, as its releases tell them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from weir.dpcore.aggregates.learned import LearnedOutput
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.words import number, plural
from weir.pipelines.results.run import ResultFolder

SAME = 1e-6
"""Relative difference within which two bounds are one."""


def learned_bounds(plan: Plan, folder: Path) -> Mapping[str, Mapping[str, float]]:
    """Output -> key -> the bound that its sums have; of outputs whose bound is learned.

    Noise is in proportion to the bound, and so is the standard deviation of a release.
    """
    outputs = _outputs(plan)
    ticks = plan.clock.ticks
    if not outputs or ticks is None:
        return {}
    over = {name: output.overs[0] for name, output in outputs.items()}
    units = {
        name: plan.program.worst_stddev(output, over[name], np.asarray([ticks - 1])) / output.unit  # type: ignore[attr-defined]
        for name, output in outputs.items()
    }
    results: dict[str, dict[str, float]] = {name: {} for name in outputs}
    columns = ["key", "tick", "name", "over", "stddev"]
    for batch in ResultFolder.open(folder).batches(columns, ticks - 1):
        for row in batch.to_pylist():
            name, stddev = row["name"], row["stddev"]
            if row["tick"] == ticks - 1 and name in over and row["over"] == over[name] and stddev:
                results[name][row["key"] or ""] = float(stddev[0]) / units[name]
    return results


def not_learned(plan: Plan, folder: Path | None) -> Iterator[str]:
    """A warning for each output that has keys for which no bound was found."""
    if folder is None or not _outputs(plan):
        return
    try:
        bounds = learned_bounds(plan, folder)
    except ConfigError:  # a layout that is not looked into
        return
    for name, output in _outputs(plan).items():
        own, start = bounds[name], output.unit
        missing = [key for key, bound in own.items() if abs(bound / start - 1) < SAME]
        if missing:
            yield (
                f"{name}: {plural(len(missing), 'key')} of {len(own):,} have the start value, "
                f"{number(start)}, as bound: no bin of sizes was found in the first "
                f"{output.learn.ticks:,} ticks, or that value was. Learn from more ticks, choose "
                "another start, or take coarser keys."
            )


def _outputs(plan: Plan) -> dict[str, LearnedOutput]:
    if not isinstance(plan.program, Aggregates):
        return {}
    return {item.name: item for item in plan.program.infos if isinstance(item, LearnedOutput)}
