"""Learners that release a model at every tick, then update it with the tick's events.

``program`` is the learner over a sum of gradients, ``rule`` and ``second_order`` say how a model
follows that sum, the sections are in ``leader_model``, ``pocg`` and ``pqftl``.
"""

__all__ = []
