"""Arrays of a state, and the types of arrays that travel."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.native import kernels

Ints = NDArray[np.int64]


Floats = NDArray[np.float64]


Digests = NDArray[np.uint64]
"""(..., 2) uint64: 128-bit keyed, secret digests of one user key's data."""


State = Any
"""A NamedTuple (possibly nested) of numpy arrays, each with leading axis = keys."""


WIDE = 512
"""Numbers in a row from which on rows are taken one after the other."""
_KINDS: dict[np.ufunc, int] = {np.add: 0, np.bitwise_xor: 1}
"""Operations of the kernel."""


def accumulate(operation: np.ufunc, values: NDArray[Any]) -> None:
    """``operation.accumulate`` along axis 0, in place: the same bits. Numpy goes down one column at
    a time, which costs ten to forty times as much where rows are longer than what a core holds."""
    kind = _KINDS.get(operation) if values.dtype in (np.int64, np.uint64) else None
    if kernels is not None and kind is not None and values.size and in_one_piece(values) is values:
        kernels.accumulate(values, np.array([len(values), kind]))
        return
    if values.ndim < 2 or values[:1].size < WIDE:
        operation.accumulate(values, axis=0, out=values)
        return
    for before, row in itertools.pairwise(values):
        operation(before, row, out=row)


def extremes(values: NDArray[Any]) -> tuple[int, int]:
    """The smallest and the largest of (n,), n >= 1."""
    if kernels is None or values.dtype != np.int64:
        return int(values.min()), int(values.max())
    ends = np.empty(2, dtype=np.int64)
    kernels.extremes(in_one_piece(values), ends)
    return int(ends[0]), int(ends[1])


def reproducible(values: Floats) -> Floats:
    """Rounded to 32 significant bits: the last ones of ``np.exp`` and ``np.log`` depend on the
    processor, and releases must not."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, 32)), exponent - 32))


def in_one_piece(values: NDArray[Any]) -> NDArray[Any]:
    """The same numbers where the kernels take them: without gaps, at addresses that suit them."""
    if values.flags.c_contiguous and values.flags.aligned:
        return values
    return np.require(values, requirements=["C", "A"])


def arrays_of(state: Any) -> list[NDArray[Any]]:
    """The arrays of a (nested) state, in order of definition."""
    if isinstance(state, np.ndarray):
        return [state]
    return [array for part in state for array in arrays_of(part)]


def sliding(state: Any) -> tuple[bool, ...]:
    """Of each of the arrays of a state, whether it holds its last slots, oldest first.

    Such an array has slots along its last axis, and a tick drops the first and appends one. States
    say so of themselves, by a method ``slides`` that names fields; it may be an upper bound: who
    stores such arrays in pieces looks whether they did (``transforms.operators.sliding_history``).
    """
    if isinstance(state, np.ndarray):
        return (False,)
    named = state.slides() if hasattr(state, "slides") else ()
    fields = getattr(state, "_fields", range(len(state)))
    results: list[bool] = []
    for field, part in zip(fields, state, strict=True):
        if isinstance(part, np.ndarray):
            results.append(field in named)
        else:
            results.extend(sliding(part))
    return tuple(results)


def concatenate(states: list[State]) -> State:
    """Joins states of several groups of keys along the key axis (nested NamedTuples of arrays)."""
    first = states[0]
    if isinstance(first, np.ndarray):
        return np.concatenate(states, axis=0)
    parts = [concatenate([state[i] for state in states]) for i in range(len(first))]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


def take(state: State, keys: Any) -> State:
    """Some of the keys of a state: by slice (views), mask or index."""
    if isinstance(state, np.ndarray):
        return state[keys]
    parts = [take(part, keys) for part in state]
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
