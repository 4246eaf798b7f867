"""Slots of the past: arrays that a tick moves on by one, stored as what each batch of ticks adds.

A window's totals, a sliding sum's leaves and a filter's noise are mostly what they were a tick ago.
Rewriting them would be most of what a block writes, so they are appended to: an **entry** holds the
slots that a batch of ticks added, and lies in the bag of its turn. A turn has at least as many
ticks as there are slots, so that what counts is in the newest two turns, and two bags, used in
turns, are enough: the bag that a turn begins with is cleared first. Nothing is written again.

Entries are linked: each holds the checksum of the one before it, and the newest is named by the
machine's cell. One that is missing, of another try or out of order is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import arrays_of, sliding
from weir.dpcore.errors import CodecError, in_words
from weir.transforms.runtime.codec import header_of, pack, unpack

KIND = b"E"
LEAST = 16
"""Slots from which on an array is stored apart."""
TURN = 32
"""Ticks of a turn, at least."""
NONE = -1
"""A link to nothing."""
BAGS = 2

Array = NDArray[Any]


def apart(template: Any) -> tuple[int, ...]:
    """Which arrays of a state are stored as slots. template: a state of any number of keys."""
    pairs = zip(arrays_of(template), sliding(template), strict=True)
    return tuple(
        place for place, (array, slides) in enumerate(pairs) if slides and array.shape[-1] >= LEAST
    )


class Entry(NamedTuple):
    """Slots that one batch of ticks added, or all of them.

    Attributes:
      link: checksum of the entry before; NONE where this one has every slot.
      stop: tick behind the last. slots: for each array, (K, ..., n), oldest first.
    """

    link: int
    stop: int
    slots: tuple[Array, ...]

    @classmethod
    def of(
        cls,
        before: Sequence[Array] | None,
        after: Sequence[Array],
        link: int,
        first: int,
        stop: int,
    ) -> Entry:
        """What is new in ``after``; everything, where it is not ``before`` moved on."""
        n = stop - first
        if link == NONE or before is None or not _moved_on(before, after, n):
            return cls(NONE, stop, tuple(after))
        return cls(link, stop, tuple(array[..., -min(n, array.shape[-1]) :] for array in after))

    def encode(self, layout: bytes) -> bytes:
        """To bytes, deterministically."""
        head = np.array([self.link, self.stop], dtype=np.int64)
        return pack(KIND, [head, *self.slots], layout)

    @classmethod
    @in_words
    def decode(cls, data: bytes, layout: bytes) -> Entry:
        """The inverse."""
        head, *slots = unpack(KIND, data, layout)
        link, stop = head.tolist()
        return cls(link, stop, tuple(slots))


def link_of(data: bytes) -> int:
    """The checksum of an encoded entry."""
    result = header_of(data).sum
    assert result is not None
    return result


def turn_of(stop: int, deepest: int) -> int:
    """The turn of an entry. deepest: slots of the longest array."""
    return (stop - 1) // max(TURN, deepest)


@in_words
def joined(
    payloads: Iterable[bytes], link: int, keys: int, depths: Sequence[int], layout: bytes
) -> list[Array]:
    """The arrays again.

    Args:
      payloads: of both bags, in any order. link: of the newest entry.
      keys: how many there are now; those born later than an entry have zeros in it.
      depths: slots of each array.

    Raises:
      CodecError: an entry that is needed is not there.
    """
    by_link = {link_of(data): data for data in payloads}
    results: list[list[Array]] = [[] for _ in depths]
    wanted = list(depths)
    while any(wanted):
        if link not in by_link:
            raise CodecError(
                "stored slots of the past are not those that their shard lists: the state is "
                "damaged. Go on from an earlier checkpoint or savepoint."
            )
        entry = Entry.decode(by_link[link], layout)
        for place, slots in enumerate(entry.slots):
            taken = min(wanted[place], slots.shape[-1])
            wanted[place] -= taken
            if taken:
                results[place].append(_padded(slots[..., slots.shape[-1] - taken :], keys))
        link = entry.link
    return [np.concatenate(parts[::-1], axis=-1) for parts in results]


def _padded(slots: Array, keys: int) -> Array:
    if len(slots) == keys:
        return slots
    fresh = np.zeros((keys - len(slots), *slots.shape[1:]), dtype=slots.dtype)
    return np.concatenate([slots, fresh])


def _moved_on(before: Sequence[Array], after: Sequence[Array], n: int) -> bool:
    """Whether every array is the one before, moved on by n slots: bit for bit."""
    for old, new in zip(before, after, strict=True):
        retained, keys = max(0, new.shape[-1] - n), len(old)
        one, two = new[..., :retained], old[..., old.shape[-1] - retained :]
        same = np.array_equal(_bits(one[:keys]), _bits(two))
        if not same or _bits(one[keys:]).any():  # a key that is born has no past
            return False
    return True


def _bits(array: Array) -> Array:
    return array.view(f"i{array.itemsize}")
