"""The user as privacy unit: contribution bounds, and which events of a user count.

``unit`` has the bounds, the periods they hold in, and partition selection; ``cells`` hashes users
and sorts their events by cell; ``cap`` applies the bounds as ticks close, in order of time
(``closing``) or of hashes (``hash_order``); ``fast_path`` finds users whom no bound touches;
``last_seen`` says how long ago a user came before, and ``coarse`` which cells meet in coarser keys.
"""

__all__ = ["cap", "cells", "closing", "coarse", "fast_path", "last_seen", "unit"]
