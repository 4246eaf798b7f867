"""Differential privacy for streams: mechanisms, noise, accounting, plans. Knows no Beam, no files, no clock."""
