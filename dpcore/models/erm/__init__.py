"""Models that are fitted again to all rows so far, at public ticks.

``schedule`` says when and for what share of the budget, ``incremental`` is the program.
"""

__all__ = ["section", "tau"]
