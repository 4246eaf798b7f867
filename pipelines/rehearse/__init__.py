"""``weir rehearse`` and ``weir advise``: a dry run over known events, and what would reduce errors.

``rehearse`` runs, ``scores`` and ``model_scores`` compare with the truth, ``explore`` prices
changes of a config, ``search`` finds the change that reaches a target, ``remedies`` has the advice,
``bounds`` that on contribution bounds.
"""

__all__ = [
    "bounds",
    "estimates",
    "explore",
    "model_scores",
    "rehearse",
    "remedies",
    "scores",
    "search",
]
