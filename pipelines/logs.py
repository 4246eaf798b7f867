"""What a run may write to the log of its process: our own words, never what a library quotes.

Beam logs every failed bundle with the text of the error, and such texts quote events. A run tells
its failure itself, as a kind of error and a step; ``weir --debug`` lets everything through.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

OURS = ("dpcore", "transforms", "pipelines")


class Discreet(logging.Filter):
    """Lets our own records pass, without tracebacks, and drops everything of others."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] not in OURS:
            return False
        record.exc_info = record.exc_text = record.stack_info = None
        return True


@contextmanager
def discreet(debug: bool = False) -> Iterator[None]:
    """Inside, the log holds warnings of ours only; with ``debug`` everything from INFO on."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    handler = logging.StreamHandler()
    if debug:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        root.setLevel(logging.INFO)
    else:
        handler.setFormatter(logging.Formatter("weir: note: %(message)s"))
        handler.setLevel(logging.WARNING)
        handler.addFilter(Discreet())
    root.handlers[:] = [handler]
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
