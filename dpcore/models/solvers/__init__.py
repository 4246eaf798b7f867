"""Private batch solvers: the only code that sees rows, through queries that are paid for.

A solver is a file with a subclass of ``solver.BatchSolver`` and a line in ``SOLVERS``
(dpcore/registry.py).
"""

__all__ = ["design", "frank_wolfe", "noisy_gradient", "noisy_steps", "queries", "solver"]
