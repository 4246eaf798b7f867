"""What a target of fuzzing is: one reader of bytes, a check of all that it must do, and seeds."""

from __future__ import annotations

import contextlib
import hashlib
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from weir.transforms.runtime import codec

CORPUS = Path(__file__).parent / "corpus"
INPUT_BYTES = 1 << 12
"""Length of an input at most."""


class Fault(AssertionError):
    """What a reader must never do; its text says which rule it broke."""


class Target(NamedTuple):
    """One reader under test.

    Attributes:
      check: reads an input, and raises where a rule is broken: any exception is a fault.
      seeds: inputs made by hand.
      words: tokens that a fuzzer puts into inputs.
    """

    check: Callable[[bytes], None]
    seeds: Callable[[], Sequence[bytes]]
    words: Sequence[bytes] = ()


def require(holds: bool, rule: str, *about: Any) -> None:
    """Raises Fault unless a rule holds."""
    if not holds:
        raise Fault(f"{rule}: {about!r}" if about else rule)


_modules: list[Any] = []


@contextlib.contextmanager
def without_kernels() -> Iterator[None]:
    """Readers use numpy alone. Modules that are imported inside for the first time keep kernels."""
    if not _modules:
        _modules.extend(
            module
            for name, module in list(sys.modules.items())
            if name.startswith("weir.transforms.") and getattr(module, "kernels", None) is not None
        )
    before = [module.kernels for module in _modules]
    try:
        for module in _modules:
            module.kernels = None
        yield
    finally:
        for module, kernels in zip(_modules, before, strict=True):
            module.kernels = kernels


def sealed(data: bytes, at: int = 0) -> bytes:
    """Packed bytes of state with a checksum that fits; at: the tick that it begins with."""
    if len(data) < codec._HEADER.size:
        return data
    head = data[: codec._SUM_AT] + bytes(4)
    start = zlib.crc32(struct.pack("<q", at)) if at else 0
    total = zlib.crc32(data[codec._HEADER.size :], zlib.crc32(head, start))
    return head[: codec._SUM_AT] + struct.pack("<I", total) + data[codec._HEADER.size :]


# The kept corpus: a file of each target with all its inputs.


def corpus_path(name: str) -> Path:
    """Where the inputs of a target are."""
    return CORPUS / f"{name}.bin"


def read_corpus(name: str) -> list[bytes]:
    """The kept inputs of a target."""
    path = corpus_path(name)
    if not path.exists():
        return []
    data, inputs = zlib.decompress(path.read_bytes()), []
    while data:
        (size,) = struct.unpack_from("<I", data)
        inputs.append(data[4 : 4 + size])
        data = data[4 + size :]
    return inputs


def write_corpus(name: str, inputs: Sequence[bytes]) -> None:
    """Keeps inputs: each once, in an order of their own, so that equal sets are equal files."""
    ordered = sorted(set(inputs), key=lambda data: (len(data), data))
    joined = b"".join(struct.pack("<I", len(data)) + data for data in ordered)
    corpus_path(name).write_bytes(zlib.compress(joined, 9))


def digest(data: bytes) -> str:
    """A short name of an input."""
    return hashlib.sha256(data).hexdigest()[:16]
