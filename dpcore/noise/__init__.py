"""Every random bit: keyed streams, samplers, and what a mechanism may request of noise.

``noise`` is the interface that mechanisms draw from, ``prf`` the keyed noise behind it,
``key_ring`` its keys over time, ``streams`` the ciphers. ``gaussian``, ``discrete_gaussian``,
``generalised_gaussian`` and ``selection`` are the samplers. ``replay``
records their calls for audits.
"""

__all__ = [
    "discrete_gaussian",
    "gaussian",
    "generalised_gaussian",
    "key_ring",
    "noise",
    "prf",
    "replay",
    "selection",
    "streams",
]
