"""Empirical risk minimisation of a growing prefix, in private."""
