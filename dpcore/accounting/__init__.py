"""Calibration and composition of privacy loss: every search rounds toward more privacy."""
