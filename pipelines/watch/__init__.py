"""``weir watch``: pages over HTTP on this machine, renewed as ticks come.

``watch`` runs a job or follows a folder; ``server`` serves the page of releases, and the page
of the operator at an address of its own.
"""

__all__ = ["watch"]
