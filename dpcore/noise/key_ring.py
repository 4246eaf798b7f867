"""Keys of a release over time: the secret may change from a tick on.

Every unit of noise is drawn once, at the tick that first uses it, and lives on in the mechanism's
state. So the ticks before a change keep their bits, and from it on nothing is keyed by the secret
that was there before. Strides must end where a secret begins (``edges``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from weir.dpcore.noise.prf import RootKey

MARK_BYTES = 16
NO_MARK = bytes(MARK_BYTES)
"""The mark of noise that has no secret."""


class KeyRing:
    """The root keys of a release, each from its first tick on.

    Args:
      entries: (first tick, what derives the root); the first at tick 0, ticks strictly increasing.
        A root is derived when it is first needed: a later secret need not be there yet.
    """

    def __init__(self, entries: Sequence[tuple[int, Callable[[], RootKey]]]) -> None:
        ticks = [tick for tick, _ in entries]
        if not ticks or ticks[0] != 0 or any(b <= a for a, b in pairwise(ticks)):
            raise ValueError(f"secrets must begin at tick 0 and then at later ticks, got {ticks}.")
        self._ticks = ticks
        self._make = [make for _, make in entries]
        self._roots: dict[int, RootKey] = {}

    @classmethod
    def derive(
        cls,
        secret: bytes,
        release: str,
        plan_digest: bytes,
        rotate: Sequence[tuple[int, bytes]] = (),
    ) -> KeyRing:
        """Keys of secrets that are at hand.

        Args:
          secret, release, plan_digest: see ``RootKey.derive``.
          rotate: (first tick, secret), ticks strictly increasing from 1 on.
        """

        def maker(value: bytes) -> Callable[[], RootKey]:
            return lambda: RootKey.derive(value, release, plan_digest)

        return cls([(0, maker(secret)), *((tick, maker(value)) for tick, value in rotate)])

    def at(self, tick: int) -> RootKey:
        """The root key of a tick."""
        return self._root(sum(first <= tick for first in self._ticks) - 1)

    def sampled(self, keys: Sequence[bytes], share: float) -> list[bool]:
        """Which user keys lie in a share of all, by a hash that the first secret keys: so the same
        keys do under every later one."""
        if share >= 1:
            return [True] * len(keys)
        return [self._root(0).sampled(key, share) for key in keys]

    def edges(self, first: int, stop: int) -> tuple[int, ...]:
        """Ticks inside (first, stop) at which another secret begins."""
        return tuple(tick for tick in self._ticks if first < tick < stop)

    def mark(self, tick: int) -> bytes:
        """16 bytes that name every secret in force before ``tick``, and from when on.

        A one-way function of the secrets: it tells whether two are the same, and nothing else.
        """
        state = hashlib.blake2b(digest_size=MARK_BYTES, person=b"weir secrets")
        for place, first in enumerate(self._ticks):
            if place == 0 or first < tick:
                state.update(first.to_bytes(8, "little") + self._root(place).identity)
        return state.digest()

    def _root(self, place: int) -> RootKey:
        if place not in self._roots:
            self._roots[place] = self._make[place]()
        return self._roots[place]


def first_difference(item: Mapping[int, str], other: Mapping[int, str]) -> int | None:
    """The first tick whose noise two schedules of secrets key differently; None: there is none.

    Args:
      item, other: first tick -> mark of the secret that keys the noise from there on; both begin at
        tick 0.
    """

    def at(marks: Mapping[int, str], tick: int) -> str:
        return marks[max(first for first in marks if first <= tick)]

    edges = sorted({*item, *other})
    return next((tick for tick in edges if at(item, tick) != at(other, tick)), None)
