"""A folder of results as a run left it.

``run`` opens a folder, ``files`` reads its files, ``series`` gives rows as arrays with margins
of error, ``models`` the models of a tick, ``plan_file`` and ``secret_marks`` what lies next to
them. ``verdict`` says whether releases may be published, and has the result of a run. ``learned``
has bounds that it learned.
"""

__all__ = [
    "events",
    "files",
    "learned",
    "models",
    "plan_file",
    "run",
    "secret_marks",
    "series",
    "verdict",
]
