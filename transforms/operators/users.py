"""Events on their way to the caps of users: hashes in place of who, which key and which id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weir.dpcore.arrays import Digests
from weir.dpcore.errors import in_words
from weir.dpcore.leaves.hashes import IdHashes
from weir.dpcore.plan import Plan
from weir.dpcore.program import Program, takes_rows
from weir.dpcore.users.cap import KeptEvents
from weir.dpcore.users.cells import (
    CapKeys,
    Hashed,
    cell_hashes,
    contents_of,
    lasting_hashes,
    name_hashes,
    pair_hashes,
    row_hashes,
    user_hashes,
)
from weir.dpcore.users.coarse import coarse_pairs
from weir.dpcore.users.unit import UserUnit
from weir.transforms.columns.keys import KEY, compact
from weir.transforms.columns.names import (
    CELL,
    GAP,
    HIGH,
    LOW,
    NEW,
    STEP,
    UNIT_HIGH,
    UNIT_LOW,
    new_in,
)
from weir.transforms.operators.bound import columns_of
from weir.transforms.operators.hash_partition import hashed
from weir.transforms.runtime import counters
from weir.transforms.runtime.codec import batch_from_bytes, batch_to_bytes, pack, unpack
from weir.transforms.runtime.dead_letters import SOURCE, count_dead, dead_letters

EVENTS = b"U"
"""Kind of bytes."""
PAIR_HIGH, PAIR_LOW, HAS_ID = "@pair_high", "@pair_low", "@has_id"
SEEN_HIGH, SEEN_LOW = "@seen_high", "@seen_low"
"""Hash of user and key in any period, where a program asks for gaps."""
CELL_HIGH, CELL_LOW = "@cell_high", "@cell_low"
"""Hash of user, key and tick, where cells stay by it."""
PLACE = (SOURCE, "@position")
"""Columns that only dead letters need."""


def of_users(batch: pa.RecordBatch, keys: CapKeys) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """Events with the hashes of their users; and dead letters of those that are nobody's."""
    users = user_hashes(batch.column("@unit"), keys)
    named = hashed(batch, "@unit", (UNIT_HIGH, UNIT_LOW), users.hashes)
    if not users.null.any():
        return named, None
    nobodys = named.select(PLACE).filter(pa.array(users.null))
    positions = nobodys.column("@position").to_numpy()
    letters = dead_letters(nobodys.column(SOURCE), positions, "no_user")
    count_dead(letters)
    return named.filter(pa.array(~users.null)), letters


def prepared(batch: pa.RecordBatch, plan: Plan, keys: CapKeys) -> pa.RecordBatch:
    """Events of known users, with every hash that caps choose by; ids leave.

    Args:
      batch: with the hashes of users.
    """
    assert plan.person is not None
    named: Digests | None = None
    if KEY in batch.schema.names:
        entries = name_hashes(batch.column(KEY).dictionary, keys)
        named = entries.take(batch.column(KEY).indices.to_numpy(), axis=0)
    return completed(in_groups(batch, plan, keys), named, plan.program, plan.person, keys)


def in_groups(batch: pa.RecordBatch, plan: Plan, keys: CapKeys) -> pa.RecordBatch:
    """Events with the hashes of user, period and key of each coarser grouping, where a program
    asks which are new."""
    program = plan.program
    if not (program.merges_cells and program.reads_new):
        return batch
    assert plan.person is not None
    key = compact(batch.column(KEY))
    pairs = coarse_pairs(
        words(batch, UNIT_HIGH, UNIT_LOW),
        plan.person.periods.of(batch.column("@tick").to_numpy()),
        key.dictionary.cast(pa.string()).to_pylist(),
        key.indices.to_numpy(),
        plan.keys.grouped,
        program.coarser,
        keys,
    )
    columns: dict[str, Any] = {}
    for at, hashes in zip(program.coarser, pairs, strict=True):
        columns |= {f"{PAIR_HIGH}{at}": hashes[:, 0], f"{PAIR_LOW}{at}": hashes[:, 1]}
    return _with(batch, columns)


def completed(
    batch: pa.RecordBatch, named: Digests | None, program: Program, person: UserUnit, keys: CapKeys
) -> pa.RecordBatch:
    """The same. named: (n, 2) hashes of their keys; None: there is one key."""
    users, ticks = words(batch, UNIT_HIGH, UNIT_LOW), batch.column("@tick").to_numpy()
    pairs = pair_hashes(users, person.periods.of(ticks), named, keys)
    columns = {PAIR_HIGH: pairs[:, 0], PAIR_LOW: pairs[:, 1]}
    if program.reads_gaps:
        seen = lasting_hashes(users, named, keys)
        columns |= {SEEN_HIGH: seen[:, 0], SEEN_LOW: seen[:, 1]}
    if person.caps.by_hash:
        cells = cell_hashes(users, ticks, pairs, keys)
        columns |= {CELL_HIGH: cells[:, 0], CELL_LOW: cells[:, 1]}
    return _with(with_row_hashes(batch, program, keys), columns)


def with_row_hashes(batch: pa.RecordBatch, program: Program, keys: CapKeys) -> pa.RecordBatch:
    """Events with the hashes by which those of a cell are chosen, in place of their ids.

    Args:
      batch: with the hashes of users, and with ids, or with hashes of ids where a row has one.
    """
    names, users = batch.schema.names, words(batch, UNIT_HIGH, UNIT_LOW)
    ticks = batch.column("@tick").to_numpy()
    times = batch.column("@time").view(pa.int64()).to_numpy()
    ids: Any = None
    if "@id" in names:
        ids = batch.column("@id")
    elif HAS_ID in names:
        value = batch.column(HAS_ID).to_numpy(zero_copy_only=False)
        ids = IdHashes(words(batch, HIGH, LOW), ~value)
    rows, has_id = row_hashes(users, ticks, times, contents(batch, program), ids, keys)
    if "@id" in names:
        batch = batch.drop_columns(["@id"])
    return _with(batch, {HIGH: rows[:, 0], LOW: rows[:, 1], HAS_ID: has_id})


def _with(batch: pa.RecordBatch, columns: dict[str, Any]) -> pa.RecordBatch:
    """A batch with more columns, or with others in their places."""
    result = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name, values in columns.items():
        result[name] = pa.array(np.ascontiguousarray(values))
    return pa.RecordBatch.from_arrays(list(result.values()), names=list(result))


def contents(batch: pa.RecordBatch, program: Program) -> Any:
    """What events say, bit by bit."""
    times = batch.column("@time").view(pa.int64()).to_numpy()
    return contents_of(times, list(columns_of(batch, program).values()))


def words(batch: pa.RecordBatch, high: str, low: str) -> Any:
    """Two columns of a hash as (n, 2)."""
    return np.stack([batch.column(high).to_numpy(), batch.column(low).to_numpy()], axis=1)


def hashes_of(batch: pa.RecordBatch, program: Program) -> Hashed:
    """A prepared batch as caps take it."""
    return Hashed(
        words(batch, UNIT_HIGH, UNIT_LOW),
        words(batch, PAIR_HIGH, PAIR_LOW),
        words(batch, HIGH, LOW),
        batch.column("@tick").to_numpy(),
        batch.column(HAS_ID).to_numpy(zero_copy_only=False),
        contents(batch, program),
        words(batch, SEEN_HIGH, SEEN_LOW) if program.reads_gaps else None,
        words(batch, CELL_HIGH, CELL_LOW) if CELL_HIGH in batch.schema.names else None,
        _coarse_of(batch, program) if program.merges_cells else None,
    )


def _coarse_of(batch: pa.RecordBatch, program: Program) -> tuple[Digests, ...]:
    if not program.reads_new:
        return ()
    return tuple(words(batch, f"{PAIR_HIGH}{at}", f"{PAIR_LOW}{at}") for at in program.coarser)


def encode(batch: pa.RecordBatch, layout: bytes) -> bytes:
    """Prepared events as bytes, with a checksum. A third of them is ticks and places, which a
    compression makes vanish: what waits is in memory several times where a runner moves it."""
    return pack(EVENTS, [np.frombuffer(batch_to_bytes(batch, "zstd"), dtype=np.uint8)], layout)


@in_words
def decode(data: bytes, layout: bytes) -> pa.RecordBatch:
    """The inverse.

    Raises:
      CodecError: damaged bytes, or of another plan.
    """
    return batch_from_bytes(unpack(EVENTS, data, layout)[0].data)


ROWS = 1 << 19
"""Events that leave in one batch, at most, but for a cell of more."""
CHOICE = (PAIR_HIGH, PAIR_LOW, SEEN_HIGH, SEEN_LOW, CELL_HIGH, CELL_LOW, HAS_ID, "@id")
"""Columns that only caps read."""
ROW = (UNIT_HIGH, UNIT_LOW, HIGH, LOW, "@time")
"""Columns that only leaves of rows read."""


def without_hashes(batch: pa.RecordBatch, program: Program) -> pa.RecordBatch:
    """Events without the columns that caps alone have read."""
    gone = CHOICE if takes_rows(program) else CHOICE + ROW
    pairs = (PAIR_HIGH, PAIR_LOW)  # of coarser groupings, too
    left = [name for name in batch.schema.names if name not in gone]
    return batch.select([name for name in left if not name.startswith(pairs)])


def batches(
    due: pa.RecordBatch, kept: KeptEvents, coarser: Sequence[int] = ()
) -> Iterator[pa.RecordBatch]:
    """Events that stay, as batches; no cell is in two of them, and none of what meets in the
    coarser groupings, by their places."""
    together = kept.cell if kept.coarse is None else kept.coarse.step
    first = np.flatnonzero(np.diff(together, prepend=-1))
    at, n = 0, len(kept.rows)
    while at < n:
        end = n
        if n - at > ROWS:
            end = int(first[np.searchsorted(first, at + ROWS, side="right") - 1])
            if end <= at:  # a cell of more
                after = np.searchsorted(first, at, side="right")
                end = int(first[after]) if after < len(first) else n
        part = due.take(pa.array(kept.rows[at:end]))
        cells = kept.cell[at:end] - kept.cell[at]
        columns = {CELL: cells, NEW: kept.new[at:end]}
        if kept.gap is not None:
            columns[GAP] = kept.gap[at:end]
        if kept.coarse is not None:
            columns[STEP] = kept.coarse.step[at:end]
            for place, new in zip(coarser, kept.coarse.new, strict=False):
                columns[new_in(place)] = new[at:end]
        yield _with(part, columns)
        at = end


def count(dropped: dict[str, int]) -> None:
    """Tells the operator which caps left no room for how many events."""
    for why, n in dropped.items():
        counters.add("duplicate" if why == "copies" else f"capped_{why}", n)
