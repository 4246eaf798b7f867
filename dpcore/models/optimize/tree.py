"""The tree of phases of variance-reduced stochastic Frank-Wolfe: which records are read when."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from weir.dpcore.errors import ConfigError

MOST_PHASES = 10


class Stage(NamedTuple):
    """A batch of records, then one step at the leaf that it leads to.

    Attributes:
      phase: r, the depth of its tree. depth: of the node whose batch this is; 0: the root.
      start, size: its records within the run. step: eta of the leaf's step.
      leaf: its place among those of the phase.
    """

    phase: int
    depth: int
    start: int
    size: int
    step: float
    leaf: int


def batch_for(records: int, phases: int) -> int:
    """b: records of a root's batch; 0 where the run is too short.

    Rounded down to a multiple of 2^R, so that b 2^-j are whole: with floors instead, a batch of a
    few records has up to 1.75 times the sensitivity that the formula says.
    """
    most = 4 * records // (phases * (phases + 5))  # n / (R + R (R + 1) / 4)
    return most >> phases << phases


@lru_cache(maxsize=256)
def stages_for(batch: int, phases: int) -> tuple[Stage, ...]:
    """All stages of a run, in order: each node's batch is fresh, fixed in advance and disjoint from
    all others.

    A left child inherits its parent's point and gradient. So what comes before leaf l > 0 of phase
    r is the one batch of the right child at depth r - (trailing zeros of l), and before leaf 0 that
    of the root.

    Raises:
      ConfigError: no phase, or a batch that is no positive multiple of 2^phases.
    """
    if not 1 <= phases <= MOST_PHASES:
        raise ConfigError("model.phases", phases, f"must lie between 1 and {MOST_PHASES}.")
    if batch < 1 << phases or batch % (1 << phases):
        raise ConfigError(
            "batch", batch, f"must be a multiple of {1 << phases}: give a run more records."
        )
    found: list[Stage] = []
    start = 0
    for phase in range(1, phases + 1):
        for leaf in range(1 << phase):
            zeros = (leaf & -leaf).bit_length() - 1
            depth = phase - zeros if leaf else 0
            size = batch >> depth
            found.append(Stage(phase, depth, start, size, 2 / ((1 << phase) + leaf + 1), leaf))
            start += size
    return tuple(found)


def records_of(batch: int, phases: int) -> int:
    """Records that are read: b (R + R (R + 1) / 4)."""
    last = stages_for(batch, phases)[-1]
    return last.start + last.size


def needed(phases: int) -> int:
    """Fewest records of a run with so many phases."""
    return -(-(phases * (phases + 5) << phases) // 4)
