"""What every model is built from: each of these exists once, and algorithms compose them.

- ``point``: a noisy point on a lattice, its scale, its guard, its draw and its cost.
"""
