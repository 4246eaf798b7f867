"""State of single steps in memory, without Beam: what a runner stores, and what it has to move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from weir.transforms.operators.block_cells import Cells, Held, Stored
from weir.transforms.operators.closed_rows import BAGS as GONE
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.operators.tick import BlockState
from weir.transforms.operators.timed_cells import RING
from weir.transforms.operators.user_cells import BAGS


class Cell:
    """A cell of one value, or a bag. Attributes: values; moved: bytes read and written so far."""

    def __init__(self, bag: bool = False) -> None:
        self.values: list[bytes] = []
        self.moved, self._bag = 0, bag

    def read(self) -> Any:
        """The values of a bag, or the one value, or None."""
        self.moved += sum(map(len, self.values))
        return list(self.values) if self._bag else self.values[0] if self.values else None

    def write(self, value: bytes) -> None:
        """In place of what is there."""
        self.values = []
        self.add(value)

    def add(self, value: bytes) -> None:
        """In addition to what is there."""
        self.moved += len(value)
        self.values.append(value)

    def clear(self) -> None:
        """Nothing is left."""
        self.values = []

    @property
    def size(self) -> int:
        """Bytes stored."""
        return sum(map(len, self.values))


class Timer:
    """Timers that nobody fires."""

    def set(self, time: Any, dynamic_timer_tag: str = "") -> None:
        """As Beam's."""


class IdShard:
    """A shard of ``DropSeen``."""

    def __init__(self) -> None:
        self.head, self.seen = Cell(), Cell()
        self.ring = [Cell(bag=True) for _ in range(RING)]

    def cells(self) -> dict[str, Any]:
        """By the names of the step's parameters."""
        slices = {f"slice_{place}": bag for place, bag in enumerate(self.ring)}
        return {"head": self.head, **slices, "seen": self.seen, "timer": Timer()}


class UserShard:
    """A shard of ``CloseTicks``."""

    def __init__(self) -> None:
        self.closed, self.users, self.pairs, self.seen = Cell(), Cell(), Cell(), Cell()
        self.users_log, self.pairs_log = Cell(bag=True), Cell(bag=True)
        self.seen_log = Cell(bag=True)
        self.gone = [Cell(bag=True) for _ in range(GONE)]
        self.waiting = [Cell(bag=True) for _ in range(BAGS)]

    def waits(self) -> dict[str, Any]:
        """By the names of the parameters of ``process``."""
        bags = {f"waiting_{place}": bag for place, bag in enumerate(self.waiting)}
        bags |= {f"gone_{place}": bag for place, bag in enumerate(self.gone)}
        return {"closed": self.closed, **bags, "timer": Timer()}

    def cells(self) -> dict[str, Any]:
        """By the names of the parameters of ``on_close``."""
        spent = {"users": self.users, "users_log": self.users_log}
        spent |= {"pairs": self.pairs, "pairs_log": self.pairs_log}
        return {**self.waits(), **spent, "seen": self.seen, "seen_log": self.seen_log}


class TickBlock:
    """A block of keys of ``Tick``. forgets: nothing is at hand, so each batch reads its cells."""

    def __init__(
        self, plan: Any, noise: Any, block: int, every: int = 128, forgets: bool = False
    ) -> None:
        self.plan, self._noise, self._block, self._every = plan, noise, block, every
        self._bags = Cell(bag=True), Cell(bag=True)
        self._cells = Cells(Cell(), Cell(), self._bags)
        self._shelf: StateCache[Held] = StateCache(room=0 if forgets else 1 << 30)

    def stored(self) -> list[bytes]:
        """Everything that is stored."""
        cells: Any = (self._cells.machine, self._cells.names, *self._bags)
        return [data for cell in cells for data in cell.values]

    def advance(self, payloads: Sequence[bytes], first: int, stop: int) -> Iterator[Any]:
        """Reads, steps, and stores."""
        plan, layout = self.plan, bytes.fromhex(self.plan.layout)
        declared = None if plan.keys.observed else plan.keys.block_keys(self._block)
        where = plan.program, self._noise, layout, self._block
        stored = Stored(*where, declared, self._cells, self._shelf)
        content = stored.read(first)
        self.state = BlockState(*where, self._every, content, plan.keys.observed)
        yield from self.state.advance(payloads, first, stop)
        stored.write(self.state.content, stop)
