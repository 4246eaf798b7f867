"""Linear models over a convex set, by private optimisation.

Frank-Wolfe over windows of records (``frank_wolfe``, ``program``), algorithms that read each record
once (``course``, ``one_pass``) and private fits of arrays (``fit``).
"""

__all__ = ["fit"]
