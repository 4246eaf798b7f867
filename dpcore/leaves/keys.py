"""Keys and blocks: which key lives where. Public arithmetic; results never depend on it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weir.dpcore.arrays import Ints
from weir.dpcore.noise.streams import digests

FEWEST = 16
PER_BLOCK = 512

_PLAIN = re.compile(r"[^\s\",\x00-\x1f]+( +[^\s\",\x00-\x1f]+)*\Z")
"""Values that need no quotes between commas."""
ALL = "(all)"
"""How people read a column that a grouping does not name."""


def key_text(values: Sequence[str | None]) -> str:
    """Values of several key columns -> the only spelling of their key: a compact JSON array.

    No two lists of values share one: what could end a value or begin the next is escaped. None
    stands for all values of a column, and no text is spelled so.

        >>> key_text(["paris", "shoes"]), key_text(["a", "b,c"]) == key_text(["a,b", "c"])
        ('["paris","shoes"]', False)
        >>> key_text(["paris", None])
        '["paris",null]'
    """
    return json.dumps(list(values), ensure_ascii=False, separators=(",", ":"))


def shown_key(key: str) -> str:
    """How people read the key of several columns: its values, with commas between them.

    A value that could be misread stays in quotes, so that no two keys read alike. A text that is no
    list of texts stays as it is.

        >>> shown_key('["paris","shoes"]'), shown_key('["a, b",""]'), shown_key('["paris",null]')
        ('paris, shoes', '"a, b", ""', 'paris, (all)')
    """
    try:
        values = json.loads(key)
    except (ValueError, RecursionError):
        return key
    if not isinstance(values, list) or not all(isinstance(value, str | None) for value in values):
        return key
    return ", ".join(map(_shown, values))


def _shown(value: str | None) -> str:
    if value is None:
        return ALL
    plain = _PLAIN.match(value) and value != ALL
    return value if plain else json.dumps(value, ensure_ascii=False)


def grouping_of(key: str) -> tuple[bool, ...]:
    """Which columns a key of several groupings names: ``key_text``'s inverse, values aside.

    >>> grouping_of('["paris",null]')
    (True, False)
    """
    return tuple(value is not None for value in json.loads(key))


@dataclass(frozen=True)
class Keys:
    """What releases are grouped by.

    Attributes:
      columns: which columns hold the key; several make it a JSON array (``key_text``); none: no
        grouping, one key, "".
      declared: the known keys. observed: keys are found in the data; their existence is public, or
        the plan says which of them may be told (``Plan.discovery``).
      blocks: number of groups that are stepped together, a power of two.
      longest: bytes of a key's name, at most; None: any.
      groups: the columns of each grouping, by their places; (): there is one, of all of them. Keys
        are JSON arrays then, null where their grouping does not name the column.
      combinations: values of all columns that are known, a text as ``declared`` has them where
        there is one grouping; an event counts if its own is among them.
    """

    columns: tuple[str, ...]
    declared: tuple[str, ...]
    observed: bool
    blocks: int
    longest: int | None = None
    groups: tuple[tuple[int, ...], ...] = ()
    combinations: tuple[str, ...] = ()

    @classmethod
    def make(
        cls,
        column: str | Sequence[str] | None,
        declared: Sequence[str] | None,
        observed: bool,
        blocks: int | None,
        longest: int | None = None,
        groups: Sequence[Sequence[str]] = (),
    ) -> Keys:
        """Chooses the number of blocks: max(16, keys / 512), a power of two.

        Keys of a grouping follow from the declared combinations. groups: names of columns.
        """
        columns = (column,) if isinstance(column, str) else tuple(column or ())
        known = combinations = tuple(declared or ()) if columns else ("",)
        places = tuple(tuple(i for i, item in enumerate(columns) if item in own) for own in groups)
        if places:
            each = (key for text in known for key in key_in_groups(text, len(columns), places))
            known = tuple(dict.fromkeys(each))
        if blocks is None:
            blocks = FEWEST
            while blocks * PER_BLOCK < len(known):
                blocks *= 2
        return cls(columns, known, observed, blocks, longest, places, combinations)

    @property
    def listed(self) -> bool:
        """Whether keys are JSON arrays (``key_text``)."""
        return len(self.columns) > 1 or bool(self.groups)

    @property
    def groupings(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each grouping, by name; of a plan without groups, all of them."""
        if not self.groups:
            return (self.columns,)
        return tuple(tuple(self.columns[i] for i in own) for own in self.groups)

    def grouped(self, combination: str) -> tuple[str, ...]:
        """A combination of values -> its key in each grouping."""
        if not self.groups:
            return (combination,)
        return key_in_groups(combination, len(self.columns), self.groups)

    @property
    def shared(self) -> dict[str, object]:
        """What several groupings add to the canonical plan; nothing where there is one.

        The combinations are in it: a further one would change sums of keys that were there before,
        which would be an additional release of their data.
        """
        if not self.groups:
            return {}
        known = json.dumps(sorted(self.combinations))
        reported: dict[str, object] = {"groups": sorted(map(list, self.groupings))}
        if not self.observed:
            reported["combinations"] = hashlib.sha256(known.encode()).hexdigest()
        return reported

    @property
    def column(self) -> str | list[str] | None:
        """As the canonical plan has it: a name, a list of several, or None."""
        return self.columns[0] if len(self.columns) == 1 else list(self.columns) or None

    @cached_property
    def ordered(self) -> tuple[bytes, ...]:
        """Declared keys as UTF-8, sorted by bytes."""
        return tuple(sorted(key.encode() for key in self.declared))

    @cached_property
    def position(self) -> dict[bytes, int]:
        """Declared key -> place in ``ordered``: block = place % blocks, row = place // blocks."""
        return {key: place for place, key in enumerate(self.ordered)}

    def block_keys(self, block: int) -> tuple[bytes, ...]:
        """Declared keys of a block, sorted by bytes."""
        return self.ordered[block :: self.blocks]

    @property
    def live_blocks(self) -> tuple[int, ...]:
        """Blocks that may hold a key: the Clock announces ticks to these."""
        return tuple(range(self.blocks if self.observed else min(self.blocks, len(self.declared))))

    def block_of(self, keys: Sequence[bytes]) -> Ints:
        """Blocks of keys (n,): by place if declared, else by a public hash of the bytes."""
        places = digests(keys, 8, b"weir.block").view(">u8").ravel().astype(np.uint64)
        out = (places % np.uint64(self.blocks)).astype(np.int64)
        for i, key in enumerate(keys if self.position else ()):
            if key in self.position:
                out[i] = self.position[key] % self.blocks
        return out


def key_in_groups(
    combination: str, columns: int, groups: tuple[tuple[int, ...], ...]
) -> tuple[str, ...]:
    """A combination of values of so many columns -> its key in each grouping."""
    values = json.loads(combination) if columns > 1 else [combination]
    return tuple(
        key_text([value if place in own else None for place, value in enumerate(values)])
        for own in groups
    )
