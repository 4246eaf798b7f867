"""Arrays of a user as rows on the lattice: ranges are applied, each row is read alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.sparse_rows import MOST_DENSE, SparseRows
from weir.dpcore.models.kit.rows import STEP, scaled_values, shortened_sparse

PIECE = 1 << 22
"""Numbers that are worked on at once."""
SOME = 1 << 15
"""Numbers that are worked on at once where each is read once: what is made of them stays near."""
MOST_NUMBERS = 1 << 29
"""Numbers of an array, at most: as doubles 4 GiB."""


@dataclass(frozen=True)
class Range:
    """Public ends of columns, each mapped onto [-1, 1].

    Attributes:
      low, high: of each column, or one number each for all.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, ends: Any, columns: int, name: str) -> Range:
        """(low, high), numbers or arrays of one for each column.

        Raises:
          ConfigError: no such pair, or ends that are not finite or not in order.
        """
        try:
            low, high = (np.atleast_1d(np.asarray(end, dtype=np.float64)) for end in ends)
        except (TypeError, ValueError):
            raise ConfigError(name, ends, "must be a pair (low, high). Public.") from None
        for end in (low, high):
            if end.shape not in ((1,), (columns,)):
                raise ConfigError(name, end.shape, f"must be a number, or {columns:,} of them.")
        good = np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()
        if not good:
            raise ConfigError(name, ends, "must be finite numbers, low below high.")
        return cls(tuple(low.tolist()), tuple(high.tolist()))

    @cached_property
    def half(self) -> Floats:
        """(1,) or (columns,)."""
        return np.asarray((np.asarray(self.high) - np.asarray(self.low)) / 2)

    @cached_property
    def middle(self) -> Floats:
        """What becomes 0."""
        return np.asarray(np.asarray(self.low) + self.half)

    def scaled(self, values: Floats) -> Floats:
        """(n, columns) -> [-1, 1], whole multiples of ``STEP``; NaN stays."""
        inside = np.clip((values - self.middle) * (1.0 / self.half), -1.0, 1.0)
        return np.asarray(np.rint(inside * (1.0 / STEP)) * STEP + 0.0)


@dataclass(frozen=True)
class Packed:
    """Rows that teach something, on the lattice.

    Attributes:
      features: (m, p), dense float64 or float32, or sparse; targets: (m,).
      shape: of X as it was given. digest: 32 bytes of all that is in them.
    """

    features: Any
    targets: Floats
    shape: tuple[int, int]
    digest: bytes


def pack(X: Any, y: Any, features: Range, target: Range, norm: float) -> Packed:  # noqa: N803
    """Clips and scales each row by itself; leaves out those with a number that is not finite.

    float32 stays float32, which holds the lattice exactly; other numbers become float64.

    Raises:
      ConfigError: shapes that do not fit, too large an array, or sparse features whose 0 is not
        their range's middle.
    """
    sparse = hasattr(X, "tocsr")
    values = X.tocsr() if sparse else np.asarray(X)
    if not sparse and values.size > MOST_NUMBERS:
        raise ConfigError(
            "X",
            values.shape,
            f"is an array of more than {MOST_NUMBERS:,} numbers; give it as scipy.sparse, or take "
            "optimize.frank_wolfe in a stream.",
        )
    targets = np.asarray(y, dtype=np.float64)
    if values.ndim != 2 or targets.shape != (values.shape[0],):
        raise ConfigError("X", values.shape, f"must be (n, features), with y {targets.shape}.")
    shape = (int(values.shape[0]), int(values.shape[1]))
    if len(features.low) not in (1, shape[1]):
        raise ConfigError("X", shape, f"must have {len(features.low):,} features.")
    if not sparse and shape[1] > MOST_DENSE and not features.middle.any():
        values, sparse = _without_zeros(values), True
    good = np.isfinite(targets)
    packed, finite = (_sparse if sparse else _dense)(values, features, norm)
    keep = good & finite
    scaled = target.scaled(np.where(keep, targets, target.middle)[:, None])[:, 0]
    if not keep.all():
        packed, scaled = packed[keep], scaled[keep]
    return Packed(packed, scaled, shape, _digest(packed, scaled, keep))


def _without_zeros(values: NDArray[Any]) -> Any:
    """A wide array as scipy.sparse: steps read what is not 0 alone."""
    from scipy import sparse

    step = max(1, PIECE // values.shape[1])
    pieces = [sparse.csr_array(values[at : at + step]) for at in range(0, len(values), step)]
    return sparse.vstack(pieces, format="csr") if pieces else sparse.csr_array(values)


def _dense(values: NDArray[Any], ranges: Range, norm: float) -> tuple[Any, NDArray[np.bool_]]:
    kind = np.float32 if values.dtype in (np.float32, np.float16, np.int8) else np.float64
    out = np.empty(values.shape, dtype=kind)
    finite = np.ones(len(values), dtype=bool)
    step = max(1, PIECE // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        at = slice(start, start + step)
        piece = values[at].astype(np.float64)
        bad = ~np.isfinite(piece).all(axis=1)
        finite[at] = ~bad
        piece[bad] = ranges.middle
        scaled = ranges.scaled(piece)
        if np.isfinite(norm):
            row, index = np.nonzero(scaled)
            scaled[row, index], _ = shortened_sparse(scaled[row, index], row, len(scaled), norm)
        out[at] = scaled
    return out, finite


def _sparse(values: Any, ranges: Range, norm: float) -> tuple[Any, NDArray[np.bool_]]:
    if ranges.middle.any():
        raise ConfigError(
            "feature_range",
            [ranges.low[0], ranges.high[0]],
            "must lie around 0 for sparse features, so that what is not stored stays 0.",
        )
    from scipy import sparse

    if not values.has_canonical_format:
        values = values.copy()
        values.sum_duplicates()  # and in order
    indices, ends, n = values.indices, values.indptr, values.shape[0]
    data, finite = np.empty(values.nnz), np.ones(n, dtype=bool)
    for start in range(0, values.nnz, SOME):
        at = slice(start, start + SOME)
        piece = values.data[at].astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(piece))
        finite[np.searchsorted(ends, start + bad, side="right") - 1] = False
        piece[bad] = 0.0
        half = ranges.half if len(ranges.half) == 1 else ranges.half[indices[at]]
        data[at] = scaled_values(piece, half)
    if np.isfinite(norm):
        data, _ = shortened_sparse(data, np.repeat(np.arange(n), np.diff(ends)), n, norm)
    whole = np.count_nonzero(data) == len(data)
    parts = (data, indices, ends) if whole else (data, indices.copy(), ends.copy())
    result = sparse.csr_array(parts, shape=values.shape)
    if not whole:
        result.eliminate_zeros()
    return result, finite


def _digest(features: Any, targets: Floats, keep: NDArray[np.bool_]) -> bytes:
    """Of every number, the same of dense and of sparse rows: what is not 0 of each, and where."""
    lengths, numbers = hashlib.blake2b(digest_size=32), hashlib.blake2b(digest_size=32)
    if isinstance(features, np.ndarray):
        step = max(1, PIECE // max(1, features.shape[1]))
        for start in range(0, len(features), step):
            rows = SparseRows.from_dense(features[start : start + step])
            lengths.update(rows.lengths.tobytes())
            _numbers(numbers, rows.indices, rows.values)
    else:
        lengths.update(np.diff(features.indptr.astype(np.int64)).tobytes())
        _numbers(numbers, features.indices, features.data)
    state = hashlib.blake2b(f"{features.shape}".encode(), digest_size=32)
    for part in (lengths.digest(), numbers.digest(), targets.tobytes(), keep.tobytes()):
        state.update(part)
    return state.digest()


def _numbers(state: Any, indices: NDArray[Any], values: NDArray[Any]) -> None:
    """Hashes the words of entries (m,): see ``SparseRows.words``."""
    room = np.empty((min(SOME, len(values)), 2), dtype="<u8")
    for start in range(0, len(values), SOME):
        at = slice(start, start + SOME)
        words = room[: len(values[at])]
        words[:, 0] = indices[at]
        words.view("<f8")[:, 1] = values[at]
        state.update(words)
