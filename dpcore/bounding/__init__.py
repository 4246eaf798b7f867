"""What makes sensitivity hold whatever the data are: clipping, lattices, keyed hashes of ids."""
