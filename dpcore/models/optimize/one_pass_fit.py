"""One-pass algorithms as plain functions on arrays."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from dpcore.accounting.guarantee import PrivacyLoss
from dpcore.arrays import Digests, Floats
from dpcore.errors import ConfigError
from dpcore.models.optimize.course import Course, Drawn
from dpcore.models.optimize.glm import shortened
from dpcore.models.scaling import STEP
from dpcore.noise.prf import KeyedNoise, RootKey

KEY = b""


@dataclass(frozen=True)
class Fitted:
    """A private model.

    Attributes:
      coef: (d,), a constant term last if there is one. loss: what a record paid.
      records: that it was made of, once each. predicted: bound on its excess risk.
    """

    coef: Floats
    loss: PrivacyLoss
    records: int
    predicted: float


def fit(course: Course, x: Floats, y: Floats, norm: float, dual: float, secret: bytes) -> Fitted:
    """The newest model of one pass over rows in the order given, as the pipeline makes it of one
    key whose records come in that order.

    **Formal guarantees**: those of the course, where neighbours differ in one row at one place.

    Args:
      course: an algorithm with its runs. x: (n, p) float64, scaled; rows of a longer lq norm are
        shortened to ``norm``, q = ``dual``; entries are clipped to [-norm, norm] before. A row with
        a number that is not finite has no gradient. y: (n,) in [-1, 1], clipped to it.
      secret: 32 bytes or more, kept from who reads the model. The same rows, numbers and secret
        give the same bits; noise is bound to all of them.

    Raises:
      ConfigError: shapes that do not fit, or fewer rows than the first run has records.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if x.ndim != 2 or y.shape != x.shape[:1] or x.shape[1] != course.features:
        raise ConfigError("x", list(x.shape), f"must be (n, {course.features}), y (n,).")
    if len(x) < course.first:
        raise ConfigError("x", len(x), f"rows are fewer than a run has: {course.first}.")
    rows = rows_of(x, y, norm, dual)
    own = {name: array[0] for name, array in course.init(1)._asdict().items()}
    root = RootKey.derive(secret, "optimize.one_pass_fit", _plan(course, norm, dual))
    noise = KeyedNoise(root, 0, [KEY], 0)
    digest = _digest(noise, rows)
    found = course.read(own, rows, 0, Drawn(noise, digest))
    run, records, model = found[-1]
    return Fitted(model, course.loss(), records, course.predicted(run))


def rows_of(x: Floats, y: Floats, norm: float, dual: float) -> Floats:
    """(n, p), (n,) -> (n, p + 1) as the program bounds them, void ones with NaN for a target."""
    void = ~(np.isfinite(x).all(axis=1) & np.isfinite(y))
    rows = np.empty((len(x), x.shape[1] + 1))
    rows[:, :-1] = np.clip(np.where(void[:, None], 0.0, x), -norm, norm)
    rows[:, :-1] = shortened(rows[:, :-1], dual, norm)[0]
    rows[:, -1] = np.rint(np.clip(np.where(void, 0.0, y), -1.0, 1.0) * (1.0 / STEP)) * STEP
    rows[void, -1] = np.nan
    return rows


def _digest(noise: KeyedNoise, rows: Floats) -> Digests:
    """(2,): of all rows in their order."""
    words = np.ascontiguousarray(rows).view(np.int64)
    places = np.arange(1, len(rows) + 1, dtype=np.int64)[:, None]
    digests = noise.leaf_digests(np.concatenate([places, words], axis=1)[None])[0]
    found: Digests = np.bitwise_xor.reduce(digests, axis=0)
    return found


def _plan(course: Course, norm: float, dual: float) -> bytes:
    """32 bytes that name every public number of a fit."""
    parts = {"course": course.canonical(), "norm": float(norm).hex(), "dual": float(dual).hex()}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
