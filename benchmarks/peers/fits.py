"""Regressions of diffprivlib for ``benchmarks.default_peers``, in an environment of their own.

Takes a table (x, y, classes), epsilon and a number of draws; prints, of each draw, the coefficients
of each setting, the constant last. diffprivlib 0.6.6 needs scikit-learn below 1.6.
"""

from __future__ import annotations

import json
import sys

import numpy as np

STRENGTHS = (0.01, 1.0, 100.0)
"""C, the inverse of the weight of |w|^2."""


def main() -> None:
    """Fits every draw and setting."""
    table, epsilon = np.load(sys.argv[1]), float(sys.argv[2])
    x, y, classes = table["x"], table["y"], int(table["classes"])
    print(json.dumps([fits(x, y, classes, epsilon, seed) for seed in range(int(sys.argv[3]))]))


def fits(x, y, classes, epsilon, seed):  # type: ignore[no-untyped-def]
    """A model a setting."""
    from diffprivlib.models import LinearRegression, LogisticRegression

    if not classes:
        shape = {"bounds_X": (-1, 1), "bounds_y": (-1, 1), "random_state": seed}
        models = [LinearRegression(epsilon=epsilon, **shape)]
    else:
        shape = {"data_norm": x.shape[1] ** 0.5, "random_state": seed}
        models = [LogisticRegression(epsilon=epsilon, C=C, **shape) for C in STRENGTHS]
    return [
        np.c_[np.atleast_2d(fit.coef_), np.atleast_1d(fit.intercept_)].tolist()
        for fit in (model.fit(x, y) for model in models)
    ]


if __name__ == "__main__":
    main()
