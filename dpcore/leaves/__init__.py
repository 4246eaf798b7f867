"""What one key gathers in one tick: ticks, keys, clipping, exact sums, rows and hashes.

``clock`` counts ticks, ``keys`` names keys and shards them, ``lattice`` clips and sums exactly,
``rows`` and ``sparse_rows`` hold the rows that models are fitted to, ``hashes`` keys ids, and
``hash_sets`` remembers hashes exactly.
"""

__all__ = ["clock", "hash_sets", "hashes", "keys", "lattice", "rows", "sparse_rows"]
