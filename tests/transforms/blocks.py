"""A block of Tick in memory: stepped and stored as a worker does it, without Beam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.transforms.cells import Bag, One
from weir.transforms.operators.block_cells import Cells, Content, Held, Stored
from weir.transforms.operators.pending import due
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.operators.tick import BlockState


def no_cells() -> Cells:
    """Cells of a block of which nothing is stored."""
    return Cells(One(), One(), (Bag(), Bag()))


def copied(cells: Cells) -> Cells:
    """As a checkpoint keeps them."""
    bags = Bag(*cells.past[0].values), Bag(*cells.past[1].values)  # type: ignore[attr-defined]
    return Cells(One(*cells.machine.values), One(*cells.names.values), bags)  # type: ignore[attr-defined]


def bytes_of(cells: Cells) -> dict[str, list[bytes]]:
    """Everything that is stored."""
    flat: dict[str, Any] = {"machine": cells.machine, "names": cells.names}
    flat |= {f"past{i}": bag for i, bag in enumerate(cells.past)}
    return {name: list(cell.values) for name, cell in flat.items()}


class Block:
    """One block; ``forgets``: nothing is at hand, so that each batch reads its cells."""

    def __init__(
        self,
        plan: Any,
        noise: Any,
        cells: Cells | None = None,
        block: int = 0,
        every: int = 128,
        forgets: bool = False,
    ) -> None:
        self.plan, self.noise, self._block, self._every = plan, noise, block, every
        self.cells = no_cells() if cells is None else cells
        self._shelf: StateCache[Held] = StateCache(room=0 if forgets else 1 << 30)

    def stored(self) -> Stored:
        """Made again for each batch."""
        plan = self.plan
        declared = None if plan.keys.observed else plan.keys.block_keys(self._block)
        layout = bytes.fromhex(plan.layout)
        return Stored(
            plan.program, self.noise, layout, self._block, declared, self.cells, self._shelf
        )

    def read(self, first: int) -> Content:
        """What is stored before a tick."""
        return self.stored().read(first)

    def advance(self, payloads: Sequence[bytes], first: int, stop: int) -> Iterator[Any]:
        """Reads, steps, and stores; first gives back what is for later, as bytes."""
        stored, plan = self.stored(), self.plan
        state = BlockState(
            plan.program,
            self.noise,
            bytes.fromhex(plan.layout),
            self._block,
            self._every,
            stored.read(first),
            plan.keys.observed,
        )
        self.state = state
        leaves, later = due(payloads, stop)
        yield from later
        yield from state.advance(leaves, first, stop)
        stored.write(state.content, stop)
