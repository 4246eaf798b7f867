"""A REST catalog of Iceberg whose calls end; the library's wait for an answer for ever."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyiceberg.catalog.rest import RestCatalog

SILENCE = 60.0
"""Seconds that a catalog may be silent within a call, before it counts as one that is down."""


class PatientRestCatalog(RestCatalog):
    """``RestCatalog`` with a limit on every call, that for its token included."""

    def _config_headers(self, session: Any) -> None:
        session.request = partial(session.request, timeout=SILENCE)
        super()._config_headers(session)
