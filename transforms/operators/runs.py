"""Events of one cell that lie together, as they do where a source is in order of time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.program import Runs

Ints = NDArray[np.int64]

LONG = 64
"""Events of a run, on average, from which on runs are worth a look at each."""


def runs_of(cells: Ints) -> Runs | None:
    """The runs of a batch in order, all of its events; None where they are short.

    Args:
      cells: (n,) of each event, n >= 1.
    """
    edges = np.flatnonzero(cells[1:] != cells[:-1]) + 1
    if (len(edges) + 1) * LONG > len(cells):
        return None
    starts = np.concatenate([[0], edges])
    return Runs(starts, np.concatenate([edges, [len(cells)]]), cells[starts])


def gaps(runs: Runs, n_events: int) -> Ints:
    """Places of the events that are in none of the runs, which are in order."""
    starts, stops = np.append(0, runs.stops), np.append(runs.starts, n_events)
    between = [np.arange(a, b) for a, b in zip(starts, stops, strict=True) if a < b]
    return np.concatenate([np.zeros(0, dtype=np.int64), *between])
