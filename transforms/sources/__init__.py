"""Sources over files, memory and databases: which files match, checks before a run, splits, and a
digest of what they hold for a ledger. ``beam.read_files`` has the transforms.
"""
