"""The kinds of ledgers by name: a further one is a file beside this one and a line here. Another
package adds one by an entry point in the group ``weir.ledgers``."""

from __future__ import annotations

from typing import Annotated

from weir.pipelines.connectors.plugins import ConnectorKinds, PluginField
from weir.pipelines.ledger.ledger import Ledger

LEDGERS = ConnectorKinds(
    "ledger",
    {
        "sqlite": "weir.pipelines.ledger.sqlite:SqliteLedger",
        "postgresql": "weir.pipelines.ledger.postgresql:PostgresqlLedger",
    },
    "weir.ledgers",
)

AnyLedger = Annotated[Ledger, PluginField(LEDGERS)]
"""A ledger of any kind, as a field of a section."""

__all__ = ["LEDGERS", "AnyLedger"]
