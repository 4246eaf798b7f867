"""Differential privacy for streams: mechanisms, noise, accounting, plans. No Beam, no files."""
