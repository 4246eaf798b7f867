"""Keys and blocks: which key lives where. Public arithmetic; results never depend on it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpcore.arrays import Ints

FEWEST = 16
PER_BLOCK = 512

_PLAIN = re.compile(r"[^\s\",\x00-\x1f]+( +[^\s\",\x00-\x1f]+)*\Z")
"""Values that need no quotes between commas."""


def key_text(values: Sequence[str]) -> str:
    """Values of several key columns -> the only spelling of their key: a compact JSON array.

    No two lists of values share one: what could end a value or begin the next is escaped.

        >>> key_text(["paris", "shoes"]), key_text(["a", "b,c"]) == key_text(["a,b", "c"])
        ('["paris","shoes"]', False)
    """
    return json.dumps(list(values), ensure_ascii=False, separators=(",", ":"))


def shown_key(key: str) -> str:
    """How people read the key of several columns: its values, with commas between them.

    A value that could be misread stays in quotes, so that no two keys read alike. A text that is no
    list of texts stays as it is.

        >>> shown_key('["paris","shoes"]'), shown_key('["a, b",""]')
        ('paris, shoes', '"a, b", ""')
    """
    try:
        values = json.loads(key)
    except ValueError:
        return key
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return key
    return ", ".join(
        value if _PLAIN.match(value) else json.dumps(value, ensure_ascii=False) for value in values
    )


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
    """

    columns: tuple[str, ...]
    declared: tuple[str, ...]
    observed: bool
    blocks: int
    longest: int | None = None

    @classmethod
    def make(
        cls,
        column: str | Sequence[str] | None,
        declared: Sequence[str] | None,
        observed: bool,
        blocks: int | None,
        longest: int | None = None,
    ) -> Keys:
        """Chooses the number of blocks: max(16, keys / 512), a power of two."""
        columns = (column,) if isinstance(column, str) else tuple(column or ())
        known = tuple(declared or ()) if columns else ("",)
        if blocks is None:
            blocks = FEWEST
            while blocks * PER_BLOCK < len(known):
                blocks *= 2
        return cls(columns, known, observed, blocks, longest)

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
        out = np.empty(len(keys), dtype=np.int64)
        for i, key in enumerate(keys):
            place = self.position.get(key)
            if place is None:
                digest = hashlib.blake2b(key, digest_size=8, person=b"weir.block").digest()
                place = int.from_bytes(digest, "big")
            out[i] = place % self.blocks
        return out
