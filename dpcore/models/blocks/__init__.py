"""Models of blocks of records: public schedules of fits, certified minimisers.

``partition`` makes blocks of records, ``schedule`` says which are fitted when, ``level`` and
``stochastic`` what a fit costs, ``fitter`` runs it, ``program`` keeps the rows.
"""

__all__ = ["fields", "fitter", "level", "objective", "partition", "program", "schedule", "words"]
