"""Differential privacy for streams: mechanisms, noise, accounting, plans. Knows no Beam or files."""
