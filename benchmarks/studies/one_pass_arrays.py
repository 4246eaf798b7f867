"""One-pass algorithms over arrays: what the pipeline makes of one key, in one call."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.arrays import Digests, Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.models.kit.inputs import SparseInputs
from weir.dpcore.models.kit.rows import STEP, shortened
from weir.dpcore.models.optimize.course import Drawn, OnePassAlgorithm
from weir.dpcore.noise.prf import KeyedNoise, RootKey

KEY = b""


@dataclass(frozen=True)
class OnePassResult:
    """A private model.

    Attributes:
      coef: (d,), a constant term last if there is one. loss: what a record paid.
      records: that it was made of, once each. predicted: bound on its excess risk.
    """

    coef: Floats
    loss: PrivacyLoss
    records: int
    predicted: float


def fit(
    course: OnePassAlgorithm, x: Any, y: Any, norm: float, dual: float, secret: bytes
) -> OnePassResult:
    """The newest model of one pass over rows in the order given, as the pipeline makes it of one
    key whose records come in that order.

    **Formal guarantees**: those of the course, where neighbours differ in one row at one place.

    Args:
      course: an algorithm with its runs. x: (n, p), scaled, an array or a scipy.sparse matrix; rows
        of a longer lq norm are shortened to ``norm``, q = ``dual``; entries are clipped to [-norm,
        norm] before (to [-1, 1] where the course is of sparse rows, of which ``course.most``
        numbers stay). A row with a number that is not finite has no gradient. y: (n,) in [-1, 1],
        clipped to it.
      secret: 32 bytes or more, kept from who reads the model. The same rows, numbers and secret
        give the same bits, of an array and of a sparse matrix; noise is bound to all of them.

    Raises:
      ConfigError: shapes that do not fit, or fewer rows than the first run has records.
    """
    x = x if hasattr(x, "tocsr") else np.asarray(x, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    if len(x.shape) != 2 or y.shape != x.shape[:1] or x.shape[1] != course.features:
        raise ConfigError("x", list(x.shape), f"must be (n, {course.features}), y (n,).")
    if len(y) < course.first:
        raise ConfigError("x", len(y), f"rows are fewer than a run has: {course.first}.")
    if course.most is not None:
        rows: Any = sparse_rows_of(x, y, norm, dual, course.most)
    else:
        rows = rows_of(x.toarray() if hasattr(x, "tocsr") else x, y, norm, dual)
    own = {name: array[0] for name, array in course.init(1)._asdict().items()}
    root = RootKey.derive(secret, "optimize.one_pass_fit", _plan(course, norm, dual))
    noise = KeyedNoise(root, 0, [KEY], 0)
    digest = _digest(noise, rows)
    found = course.read(own, rows, 0, Drawn(noise, digest))
    run, records, model = found[-1]
    return OnePassResult(model, course.loss(), records, course.predicted(run))


def sparse_rows_of(x: Any, y: Floats, norm: float, dual: float, most: int) -> SparseRows:
    """(n, p), (n,) -> (n, p + 1) as the program of a wide list column bounds them."""
    if hasattr(x, "tocsr"):
        found = x.tocsr()
        if not found.has_canonical_format:
            found = found.copy()
            found.sum_duplicates()
        offsets, at = found.indptr.astype(np.int64), found.indices.astype(np.int32)
        lists = SparseRows(offsets, at, found.data.astype(np.float64), x.shape[1])
    else:
        lists = SparseRows.from_dense(x)
    inputs = SparseInputs("x", x.shape[1], 1.0, most, "y", (-1.0, 1.0), (), norm, dual)
    rows: SparseRows = inputs.bound({"x": lists, "y": y}, len(y)).rows
    return rows


def rows_of(x: Floats, y: Floats, norm: float, dual: float) -> Floats:
    """(n, p), (n,) -> (n, p + 1) as the program bounds them, void ones with NaN for a target."""
    void = ~(np.isfinite(x).all(axis=1) & np.isfinite(y))
    rows = np.empty((len(x), x.shape[1] + 1))
    rows[:, :-1] = np.clip(np.where(void[:, None], 0.0, x), -norm, norm)
    rows[:, :-1] = shortened(rows[:, :-1], dual, norm)[0]
    rows[:, -1] = np.rint(np.clip(np.where(void, 0.0, y), -1.0, 1.0) * (1.0 / STEP)) * STEP
    rows[void, -1] = np.nan
    return rows


def _digest(noise: KeyedNoise, rows: Any) -> Digests:
    """(2,): of all rows in their order; of sparse ones by their digests."""
    sparse = isinstance(rows, SparseRows)
    words = rows.digests() if sparse else np.ascontiguousarray(rows)
    words = words.view(np.int64)
    places = np.arange(1, len(rows) + 1, dtype=np.int64)[:, None]
    digests = noise.leaf_digests(np.concatenate([places, words], axis=1)[None])[0]
    found: Digests = np.bitwise_xor.reduce(digests, axis=0)
    return found


def _plan(course: OnePassAlgorithm, norm: float, dual: float) -> bytes:
    """32 bytes that name every public number of a fit."""
    parts = {"course": course.canonical(), "norm": float(norm).hex(), "dual": float(dual).hex()}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
