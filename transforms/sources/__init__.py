"""Sources over files and memory: which files match, checks before a run, splits, and a digest of
what they hold for a ledger. ``read_files.ReadFiles`` and ``memory.ReadMemory`` are the transforms.
"""
