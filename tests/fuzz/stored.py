"""Stored state: damaged bytes are refused in words, and never read as something else.

An input is a byte of choice and stored bytes. The first bit says whether the checksum is put right,
so that a search reaches what lies behind it: even then what comes is a value or a ``CodecError``,
since a reader that fails otherwise stops a job without a word of what to do. What is read without
that has a checksum that fits, which is computed here again.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tests.fuzz.target import Target, require, sealed
from tests.transforms import stored_state as jobs_of
from tests.transforms import test_found_keys as found_keys
from tests.transforms import test_job_queue as lanes
from tests.transforms.blocks import Block
from tests.transforms.cells import Bag, One
from tests.transforms.doubles import FakePlan, random_events
from tests.transforms.test_sparse_cells import PartialLeaf
from weir.dpcore.errors import WeirError
from weir.dpcore.leaves.hash_sets import entries
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.transforms.beam import heartbeat, write_files
from weir.transforms.beam.coders import NoisyStrideCoder, RecordBatchCoder
from weir.transforms.beam.kafka.position import PositionCoder, TopicPosition
from weir.transforms.beam.pubsub.restriction import Turn, TurnCoder
from weir.transforms.beam.tick import split_overdue
from weir.transforms.operators import closed_rows, jobs, partial_rows, partial_sums, timed_cells
from weir.transforms.operators import users as user_events
from weir.transforms.operators.assembly import Assembly, outline
from weir.transforms.operators.block_cells import Cells
from weir.transforms.operators.noise_source import KeyedNoiseSource
from weir.transforms.operators.pending import due
from weir.transforms.operators.progress import Progress
from weir.transforms.operators.state_cache import StateCache
from weir.transforms.operators.stride import NoisyStride
from weir.transforms.operators.timed_cells import RING, TimedCells
from weir.transforms.operators.user_cells import Closed
from weir.transforms.runtime import codec
from weir.transforms.runtime.codec import batch_to_bytes, pack
from weir.transforms.runtime.secret import SecretRef

LAYOUT = bytes(range(32))


class Reader(NamedTuple):
    """What reads stored bytes.

    Attributes:
      good: bytes as they are stored. read: raises CodecError for others.
      at: the tick that the checksum begins with.
      packed: whether they have a header with a checksum.
    """

    good: Sequence[bytes]
    read: Callable[[bytes], Any]
    at: int = 0
    packed: bool = True


def target(make: Callable[[], Reader]) -> Target:
    """Bytes of a reader."""
    reader = make()

    def check(data: bytes) -> None:
        stored = data[1:]
        if reader.packed and data[:1] and data[0] & 1:
            stored = sealed(stored, reader.at)
        try:
            reader.read(stored)
        except WeirError as error:
            require(len(str(error)) > 20, "stored bytes are refused in words", error)
            require(stored not in reader.good, "what was stored is read", error)
            return
        if reader.packed:
            fitting = (sealed(stored, reader.at), sealed(stored, 0))
            require(stored in fitting, "a checksum that does not fit is refused")

    def seeds() -> list[bytes]:
        some = [bytes([flag]) + data for data in reader.good for flag in (0, 1)]
        return [*some, b"", *(b"\1" + data[:-8] for data in reader.good), b"\0WEIR\2"]

    return Target(check, seeds, [b"WEIR\1", b"O\x08", b"f\x08", b"\xff" * 8, b"\xff" * 7 + b"\x7f"])


# Partial sums, rows and what travels between steps.


def _sums() -> Reader:
    def read(data: bytes) -> Any:
        first, last = partial_sums.tick_range(data)
        due([data], first + 1)
        split_overdue(data, last)
        return partial_sums.decode(data)

    ones = np.ones(3, dtype=np.int64)
    named = PartialLeaf(np.array([4, 4, 9]), np.array([0, 1, 0]), ones, np.arange(6).reshape(3, 2))
    raw = named._replace(values=np.arange(6, dtype=np.int32).reshape(3, 2))
    leaves = [named, raw, named._replace(names=(b"x", b"y\xff"))]
    return Reader([partial_sums.encode(leaf) for leaf in leaves], read)


@cache
def _row_leaves() -> list[RowLeaf]:
    rng = np.random.default_rng(2)
    hashes = rng.integers(0, 1 << 62, (4, 2)).astype(np.uint64)
    wide = SparseRows(
        np.array([0, 1, 1, 3, 3]), np.array([0, 2, 3], dtype=np.int32),
        np.ones(3, dtype=np.float32), 5,
    )  # fmt: skip
    tables: list[Any] = [rng.random((4, 3)), wide]
    keys = np.array([0, 0, 1, 1])
    return [RowLeaf.from_events(keys, rows, np.arange(4), hashes, 2) for rows in tables]


def _rows() -> Reader:
    def read(data: bytes) -> Any:
        due([data], partial_sums.tick_range(data)[0] + 1)
        split_overdue(data, 0)
        return partial_rows.count_rows(data), partial_rows.decode(data)

    leaves = _row_leaves()
    return Reader([partial_rows.encode(3, leaf, (b"a", b"b")) for leaf in leaves], read)


def _bare_rows() -> Reader:
    return Reader([leaf.to_bytes() for leaf in _row_leaves()], RowLeaf.from_bytes, packed=False)


def _strides() -> Reader:
    coder, arrays = NoisyStrideCoder(), (np.ones((2, 2, 3)), np.zeros((2, 2)))
    births = np.array([0, 1])
    strides = [NoisyStride(5, 8, 2, (b"a", b"bc"), arrays), NoisyStride(0, 0, 8, (), ())]
    strides.append(NoisyStride(5, 8, 2, (b"a", b"bc"), arrays, births))
    return Reader([coder.encode(stride) for stride in strides], coder.decode)


def touched(batch: pa.RecordBatch) -> None:
    """Reads every value: what lies behind wrong offsets would end the process."""
    with contextlib.suppress(pa.ArrowException):  # of types that Weir does not send
        batch.take(pa.array(range(batch.num_rows)[::-1], pa.int64()))


def _batches() -> Reader:
    coder, batch = RecordBatchCoder(), random_events(3, FakePlan())
    good = [coder.encode(batch), batch_to_bytes(batch, "zstd")]
    return Reader(good, lambda data: touched(coder.decode(data)), packed=False)


def _parts() -> Reader:
    batch = batch_to_bytes(random_events(3, FakePlan()))
    part = write_files._PART.pack(0, 0, 4, len(batch)) + batch
    good = [pack(write_files.KIND, [np.frombuffer(part * n, dtype=np.uint8)]) for n in (0, 1, 2)]
    return Reader(good, lambda data: write_files.batches_of([data]))


def _seen() -> Reader:
    cells = np.packbits(np.ones(12, dtype=bool))
    good = [pack(write_files.SEEN_KIND, [cells])]
    return Reader(good, lambda data: write_files.seen_in(data, (3, 4)))


def _positions() -> Reader:
    coder = PositionCoder()
    some = [TopicPosition(), TopicPosition("id", {0: 5, 11: 2**40}, True)]
    return Reader([coder.encode(one) for one in some], coder.decode, packed=False)


def _turns() -> Reader:
    coder = TurnCoder()
    return Reader([coder.encode(Turn(7, True))], coder.decode, packed=False)


# Cells of steps.


def _events() -> Reader:
    good = [user_events.encode(random_events(3, FakePlan()), LAYOUT)]
    return Reader(good, lambda data: touched(user_events.decode(data, LAYOUT)))


def _timed() -> Reader:
    words = np.arange(6, dtype=np.uint64)
    some = entries(words, words + np.uint64(9), np.arange(6))
    head, ring = One(), [Bag() for _ in range(RING)]
    cells = partial(TimedCells, 0, 1, 4, LAYOUT, shelf=StateCache())
    cells(head=head, ring=ring).add(some)

    def read(data: bytes) -> Any:
        shelf: StateCache[Any] = StateCache(room=0)
        if codec.kind_of(data) == timed_cells.HEAD:
            decoded = timed_cells.Head.decode(data, LAYOUT)
            whole = data == head.read()
            return TimedCells(0, 1, 4, LAYOUT, One(data), ring, shelf).known if whole else decoded
        return timed_cells.entries_of(data, 4, LAYOUT)

    return Reader([head.read(), timed_cells.segment(some.take(slice(0, 4)), 0, 4, LAYOUT)], read)


def _marks() -> Reader:
    marks = pack(closed_rows.ROWS, [np.arange(8, dtype=np.uint64)], LAYOUT)

    def read(data: bytes) -> Any:
        rows = closed_rows.ClosedRows([Bag(data), Bag()], LAYOUT, 4)
        return rows.known(user_batch())

    return Reader([marks], read)


@cache
def user_batch() -> Any:
    """Prepared events of users."""
    from tests.dpcore.users.cap_rule import Event
    from tests.transforms.user_shards import batch_of, plan_of
    from weir.dpcore.users.cells import CapKeys
    from weir.dpcore.users.unit import ContributionBounds

    plan = plan_of(ContributionBounds(ticks=2, keys=1, events=2), 4)
    events = [Event("ann", 0, "k", "1", 1.0), Event("bob", 1, "k", None, 2.0)]
    return batch_of(events, plan, CapKeys.derive(bytes(32), "ab" * 32))


@cache
def _secret() -> SecretRef:
    path = Path(tempfile.mkdtemp()) / "key"
    path.write_text(jobs_of.SECRET.hex())
    path.chmod(0o600)
    return SecretRef(file=str(path))


def _block(name: str) -> Reader:
    """The three kinds of cells of a block, of a stored job."""
    plan = jobs_of.plan_of(name)
    noise = KeyedNoiseSource(_secret(), plan.name, plan.digest)
    cells, _ = jobs_of.split_cells(name)
    machine, names = cells.machine.read(), cells.names.read()
    good = [data for data in (machine, names, *cells.past[0].read()[:1]) if data is not None]

    def read(data: bytes) -> Any:
        kind = codec.kind_of(data)
        one = One(*([data] if kind == codec.kind_of(machine) else [machine]))
        named = One(data) if names and kind == codec.kind_of(names) else cells.names
        past = cells.past
        if len(good) > 2 and kind == codec.kind_of(good[2]):
            past = (Bag(data, *cells.past[0].read()[1:]), cells.past[1])
        elif (
            data not in (machine, names)
            and one is not None
            and kind not in map(codec.kind_of, good)
        ):
            one = One(data)
        return Block(plan, noise, Cells(one, named, past)).read(jobs_of.STOPPED)  # type: ignore[arg-type]

    return Reader(good, read, jobs_of.STOPPED)


def _discovered() -> Reader:
    plan = found_keys.plan_of()
    block = found_keys.Block(plan, _secret(), True)
    found_keys.walk(block, [0, 7], [data for data in found_keys.payloads(2)
                                    if partial_sums.tick_range(data)[1] < 7])  # fmt: skip
    machine, names = block.cells.machine.read(), block.cells.names.read()

    def read(data: bytes) -> Any:
        named = codec.kind_of(data) == codec.kind_of(names)
        cells = (One(machine), One(data)) if named else (One(data), One(names))
        again = found_keys.Block(plan, _secret(), True, Cells(*cells, block.cells.past))
        return again.stored().read(7)

    return Reader([machine], read, 7)


@cache
def _lane() -> tuple[list[bytes], lanes.Cells, list[NoisyStride], list[Any]]:
    folder = Path(tempfile.mkdtemp())
    noise = lanes.source(folder)
    payloads, strides = lanes.sent(noise)
    cells = lanes.Cells(noise)
    done = list(cells.go(1, *((payload, at) for at, payload in enumerate(payloads[:2]))))
    return payloads, cells, strides, done


def _jobs() -> Reader:
    payloads, cells, _, done = _lane()
    fitted = jobs.encode_fitted(jobs.Fitted(0, 3, tuple(lanes.TRAINING.models(2))))

    def read(data: bytes) -> Any:
        if codec.kind_of(data) == jobs.FITTED:
            return jobs.decode_fitted(data)
        if codec.kind_of(data) == jobs.KIND:
            jobs.number_of(data, lanes.LAYOUT)
            return jobs.decode(data, lanes.TRAINING, lanes.LAYOUT)
        run, kept = (cells.run, data) if cells.kept and codec.kind_of(data) == codec.kind_of(
            cells.kept
        ) else (data, cells.kept)  # fmt: skip
        lane = lanes.Cells(cells.noise, run, kept).lane()
        return lane._rows()

    goods = [payloads[0], fitted, cells.run, cells.kept]
    return Reader([data for data in goods if data is not None], read)


def _assembly() -> Reader:
    _, _, strides, _ = _lane()
    assembly = Assembly(lanes.TRAINING, lanes.LAYOUT, 0, None)
    for stride in strides:
        list(assembly.take(outline(stride)[1]))
    read = partial(Assembly, lanes.TRAINING, lanes.LAYOUT, 0)
    return Reader([assembly.dump()], read)


READERS: dict[str, Callable[[], Reader]] = {
    "sums": _sums,
    "rows": _rows,
    "bare_rows": _bare_rows,
    "strides": _strides,
    "batches": _batches,
    "parts": _parts,
    "seen": _seen,
    "positions": _positions,
    "turns": _turns,
    "heartbeats": lambda: Reader([heartbeat.encode(7)], heartbeat.decode),
    "progress": lambda: Reader(
        [Progress(3, 2).encode(LAYOUT)], lambda data: Progress.decode(data, LAYOUT)
    ),
    "closed": lambda: Reader(
        [Closed(3, 2, 1).encode(LAYOUT)], lambda data: Closed.decode(data, LAYOUT)
    ),
    "events": _events,
    "timed": _timed,
    "marks": _marks,
    "block": lambda: _block("sums-past"),
    "learner": lambda: _block("learner"),
    "discovered": _discovered,
    "jobs": _jobs,
    "assembly": _assembly,
}


def targets() -> dict[str, Callable[[], Target]]:
    """Name -> target."""
    return {f"state.{name}": partial(target, make) for name, make in READERS.items()}
