"""What a run may write to the log of its process: our own words, never what a library quotes.

Beam logs every failed bundle with the text of the error, and such texts quote events. A run tells
its failure itself, as a kind of error and a step; ``weir --debug`` lets everything through.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

_log = logging.getLogger(__name__)
OURS = "weir"


class Discreet(logging.Filter):
    """Lets our own records pass, without tracebacks, and drops everything of others."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] != OURS:
            return False
        record.exc_info = record.exc_text = record.stack_info = None
        return True


class JsonLines(logging.Formatter):
    """One JSON object a record: time (UTC), severity, logger, message; ``fields`` of the record are
    added. The names are those that Cloud Logging and most collectors understand."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as one line."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "severity": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False, default=str)


def _quietly(args: threading.ExceptHookArgs) -> None:
    """Threads of libraries end with tracebacks, which may quote events: their kind is enough."""
    name = "unknown" if args.thread is None else args.thread.name
    _log.info("thread %s ended with %s", name, args.exc_type.__name__)


@contextmanager
def discreet(debug: bool = False, form: str = "text") -> Iterator[None]:
    """Inside, the log holds notes of ours only; with ``debug`` everything from INFO on.

    Args:
      form: text, for people (warnings only), or json, for collectors (from INFO on).
    """
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
    if form == "json":
        handler.setFormatter(JsonLines())
        handler.setLevel(logging.INFO)
        root.setLevel(logging.INFO)
    root.handlers[:] = [handler]
    hook = threading.excepthook
    if not debug:
        threading.excepthook = _quietly
    try:
        yield
    finally:
        threading.excepthook = hook
        root.handlers[:] = handlers
        root.setLevel(level)
