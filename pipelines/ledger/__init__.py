"""What is spent of the privacy budget of a group of people.

``reservations`` enters a run before it starts and closes its entry, ``charge_request`` says
what a plan asks for, ``balance`` what is spent, ``adjustments`` changes entries by hand.
``ledger`` has the section and the registry, ``store`` the chain of records; ``sqlite`` and
``postgresql`` keep it.
"""

__all__ = [
    "adjustments",
    "balance",
    "charge_request",
    "entries",
    "ledger",
    "postgresql",
    "reservations",
    "rules",
    "sqlite",
    "store",
]
