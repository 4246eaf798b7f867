"""Jobs on their way from Tick to Train, and models from Train to Assemble, as bytes.

**A job** (kind J) is, in the header, the layout of keys and the mark of the secrets up to its tick,
and then these arrays: the head, (form of rows, block, number, tick) as int64; the names of the keys
in order of their rows, as two arrays; digests; numbers; and the arrays of the rows, as the form
says (see ``Training.form``). A form that the program does not have is refused, not guessed at.

**Models** (kind O) are the head, (block, tick), and the released arrays of the block's keys.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from weir.dpcore.arrays import arrays_of
from weir.dpcore.errors import CodecError, in_words
from weir.dpcore.training import Job, Models, Training
from weir.transforms.runtime.codec import pack, pack_names, restore, unpack, unpack_names

KIND = b"J"
FITTED = b"O"

_LANE = struct.Struct(">q")


class Numbered(NamedTuple):
    """A job and where it belongs.

    Attributes:
      block: of keys. number: its place among the jobs of the block, from 0.
      keys: names, in order of their rows. job: what is fitted.
    """

    block: int
    number: int
    keys: tuple[bytes, ...]
    job: Job


class Fitted(NamedTuple):
    """Released models of a block at a tick."""

    block: int
    tick: int
    models: Models


def lane_of(block: int) -> bytes:
    """The key of a block's jobs: they run one after the other, and next to those of other
    blocks."""
    return _LANE.pack(block)


def encode(sent: Numbered, form: int, layout: bytes, mark: bytes) -> bytes:
    """A job to bytes."""
    job = sent.job
    head = np.array([form, sent.block, sent.number, job.tick], dtype=np.int64)
    names, rows = pack_names(sent.keys), arrays_of(job.rows)
    return pack(KIND, [head, *names, job.digests, job.numbers, *rows], layout, mark)


@in_words
def decode(data: bytes, training: Training, layout: bytes) -> Numbered:
    """The inverse of ``encode``.

    Raises:
      CodecError: of another layout, or with rows in a form that this program does not have.
    """
    head, offsets, joined, digests, numbers, *rows = unpack(KIND, data, layout)
    form, block, number, tick = head.tolist()
    if form != training.form:
        raise CodecError(
            f"a stored job has rows of form {form}, this build fits rows of form {training.form}: "
            "go on with the build that wrote it."
        )
    job = Job(tick, digests, numbers, restore(training.no_rows(1), rows))
    return Numbered(block, number, tuple(unpack_names(offsets, joined)), job)


@in_words
def number_of(data: bytes, layout: bytes) -> int:
    """The number of an encoded job."""
    return int(unpack(KIND, data, layout)[0][2])


def encode_fitted(fitted: Fitted) -> bytes:
    """Models to bytes."""
    head = np.array([fitted.block, fitted.tick], dtype=np.int64)
    return pack(FITTED, [head, *fitted.models])


@in_words
def decode_fitted(data: bytes) -> Fitted:
    """The inverse of ``encode_fitted``."""
    head, *models = unpack(FITTED, data)
    block, tick = head.tolist()
    return Fitted(block, tick, tuple(models))
