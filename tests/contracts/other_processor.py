"""Digests and bits of all cases where exp, log and their kin end in other bits than here.

``python -m tests.contracts.other_processor`` prints the cases that are not what is stored. Numpy
and the C library choose such functions by the processor, and the last bit of a result is not the
same on all. They are exchanged before Weir is imported, so a process has to be begun for it.
The operator ``**`` is not reached this way.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

FUNCTIONS = (
    "exp exp2 expm1 log log1p log2 log10 power float_power cbrt hypot logaddexp "
    "sin cos tan sinh cosh tanh arcsin arccos arctan arctan2 arcsinh"
)
SCALAR = "exp exp2 expm1 log log1p log2 log10 pow erf erfc lgamma gamma sin cos tan atan sinh cosh"


def shifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The ufunc, with results that are not whole one step up and down in turn."""

    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = np.asarray(function(*args, **kwargs))
        if result.dtype == np.float64:
            up = np.arange(result.size).reshape(result.shape) % 2 == 0
            exact = (result == np.rint(result)) | ~np.isfinite(result)
            result = np.where(
                exact, result, np.nextafter(result, np.where(up, math.inf, -math.inf))
            )
        if out is None:
            return result[()]
        target = out[0] if isinstance(out, tuple) else out
        target[...] = result
        return target

    return call


def shifted_scalar(function: Callable[..., float]) -> Callable[..., float]:
    """The same of a function of ``math``, one step up."""

    def call(*args: Any) -> float:
        result = function(*args)
        whole = not math.isfinite(result) or result == int(result)
        return result if whole else math.nextafter(result, math.inf)

    return call


def main() -> None:
    """The command."""
    for name in FUNCTIONS.split():
        setattr(np, name, shifted(getattr(np, name)))
    for name in SCALAR.split():
        setattr(math, name, shifted_scalar(getattr(math, name)))
    from tests.contracts import versions

    stored = versions.golden()
    for name, config in versions.configs():
        if versions.kept(config, 1) != stored[name]["1"]:
            print(name)


if __name__ == "__main__":
    main()
