"""Convex sets as objects: they project, minimise linear functions, and know their own size."""
