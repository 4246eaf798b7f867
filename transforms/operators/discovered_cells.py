"""How a block whose keys are found in private lies in its cells.

**Machine**, one cell: the arrays of live keys and of those that are tested, rewritten with every
batch of ticks, since noise moves with every tick. It names the other cell by its checksum.

**Names**, one cell: names of all keys, and the leaves of those with too few users; written when any
of it changes. A silent tick leaves it alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import State, arrays_of
from weir.dpcore.discovery.waiting import Block, Faint, KeyCells, Tested, Watched
from weir.dpcore.errors import in_words
from weir.dpcore.program import Program
from weir.transforms.operators import block_cells
from weir.transforms.operators import sliding_history as past
from weir.transforms.operators.noise_source import NoiseSource
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.runtime.codec import pack, pack_names, restore, unpack, unpack_names

KIND, NAMES = b"F", b"K"


class Held(NamedTuple):
    """What memory keeps of a block.

    Attributes:
      content: of the block. stop: the next tick. names: checksum of the cell of names, or NONE.
    """

    content: Block
    stop: int
    names: int = past.NONE


class DiscoveredCells:
    """One block between its cells and memory. Made again for every batch of ticks.

    Args:
      program: what runs. noise: names the secrets behind what is stored.
      layout: 32 bytes that name the plan and its blocks. block: which.
      cells: of the block. shelf: what this process has at hand.
    """

    def __init__(
        self,
        program: Program,
        noise: NoiseSource,
        layout: bytes,
        block: int,
        cells: block_cells.Cells,
        shelf: StateCache[Any],
    ) -> None:
        self._program, self._noise, self._layout = program, noise, layout
        self._block, self._cells, self._shelf = block, cells, shelf

    def read(self, first: int) -> Block:
        """The block before tick ``first``; before any was stored, without a key.

        Raises:
          CodecError: it belongs to another plan, another layout of keys, another secret, or a codec
            that this build does not know; or is damaged.
        """
        data = self._cells.machine.read()
        if data is None:
            self._held = Held(Block.empty(self._program.dimension), first)
            return self._held.content
        held: Held | None = self._shelf.get(self._block, data)
        if held is None or held.stop != first:
            held = self._decode(data, first)
            block_cells.refuse_other_secrets(data, self._noise, first)
        self._held = held
        return held.content

    def write(self, content: Block, stop: int) -> None:
        """Stores the block before tick ``stop``, which is behind that of ``read``."""
        names, before = self._held.names, self._held.content
        if (
            names == past.NONE
            or _named(content) != _named(before)
            or content.faint is not before.faint
        ):
            cell = pack(NAMES, _slow(content), self._layout)
            self._cells.names.write(cell)
            names = past.link_of(cell)
        states = [_arrays(state) for state in (content.state, content.tested.state)]
        # Where keys may be retired, what the rule knows of them lies behind the tested ones.
        head, watched = [len(states[0]), names], list[NDArray[Any]]()
        if len(content.watched.quiet):
            head, watched = [*head, len(content.watched)], list(content.watched)
        first = [np.array(head, dtype=np.int64), *states[0]]
        moved = [*first, content.tested.users, content.tested.gone, *watched, *states[1]]
        data = pack(KIND, moved, self._layout, self._noise.mark(stop), stop)
        self._cells.machine.write(data)
        self._shelf.put(self._block, data, Held(content, stop, names), size_of(content))

    @in_words
    def _decode(self, data: bytes, first: int) -> Held:
        head, *arrays = unpack(KIND, data, self._layout, first)
        n_live, named, *watches = head.tolist()
        cell = self._cells.names.read()
        if cell is None or past.link_of(cell) != named:
            raise block_cells.damaged(self._block)
        slow = unpack(NAMES, cell, self._layout)
        live, tested, faint = (tuple(unpack_names(*slow[i : i + 2])) for i in (0, 2, 4))
        users, gone, *rest = arrays[n_live:]
        watched = Watched(*rest[: watches[0]]) if watches else Watched.none()
        rest = rest[watches[0] :] if watches else rest
        state = self._restored(arrays[:n_live])
        content = Block(
            live,
            state,
            Tested(tested, users, gone, self._restored(rest)),
            Faint(faint, slow[6], KeyCells(*slow[7:])),
            watched,
        )
        return Held(content, first, named)

    def _restored(self, arrays: list[NDArray[Any]]) -> State | None:
        return restore(self._program.init(1), arrays) if arrays else None


def size_of(content: Block) -> int:
    """Bytes of a block in memory."""
    arrays = [*_arrays(content.state), *_arrays(content.tested.state), *_slow(content)]
    names = (*content.live, *content.tested.names, *content.faint.names)
    return sum(array.nbytes for array in arrays) + 40 * len(names)


def _arrays(state: State | None) -> list[NDArray[Any]]:
    return [] if state is None else arrays_of(state)


def _named(content: Block) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    return content.live, content.tested.names


def _slow(content: Block) -> list[NDArray[Any]]:
    """What the cell of names holds."""
    faint = content.faint
    lists = (content.live, content.tested.names, faint.names)
    return [*(array for names in lists for array in pack_names(names)), faint.users, *faint.cells]
