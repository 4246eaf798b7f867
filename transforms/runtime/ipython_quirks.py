"""What Beam does otherwise inside IPython, where it must not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def plain_steps() -> Iterator[None]:
    """Steps keep their names while a pipeline is built and run.

    In IPython Beam writes the number of the cell before each, and imports for that its frames,
    which fail under pandas 3.
    """
    from apache_beam import pipeline

    module: Any = pipeline
    kept = module.alter_label_if_ipython, module.is_in_ipython
    module.alter_label_if_ipython = lambda transform, given: None
    module.is_in_ipython = lambda: False
    try:
        yield
    finally:
        module.alter_label_if_ipython, module.is_in_ipython = kept


__all__ = ["plain_steps"]
