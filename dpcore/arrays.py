"""Arrays of a state, and the types of arrays that travel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


Floats = NDArray[np.float64]


Digests = NDArray[np.uint64]
"""(..., 2) uint64: 128-bit keyed, secret digests of one user key's data."""


State = Any
"""A NamedTuple (possibly nested) of numpy arrays, each with leading axis = keys."""


def arrays_of(state: Any) -> list[NDArray[Any]]:
    """The arrays of a (nested) state, in order of definition."""
    if isinstance(state, np.ndarray):
        return [state]
    return [array for part in state for array in arrays_of(part)]


def concatenate(states: list[State]) -> State:
    """Joins states of several groups of keys along the key axis (nested NamedTuples of arrays)."""
    first = states[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(states, axis=0)
    parts = [concatenate([state[i] for state in states]) for i in range(len(first))]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
