"""Columns of record batches: keys and their dictionaries, lists, and the predicate of ``where``."""
