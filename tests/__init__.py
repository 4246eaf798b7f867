"""A package by its own file: libraries that ship a folder ``tests``, as diffprivlib does, would
stand in the place of a folder without one, and tests import helpers from here."""
