"""What every model is built from: each of these exists once, and algorithms compose them.

- ``loss``: losses of a prediction, each with its slope for a reach, smoothness, envelope and
  scalar form.
- ``point``: a noisy point on a lattice, its scale, its guard, its draw and its cost.
"""
