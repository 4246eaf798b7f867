from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves import hashes
from weir.dpcore.leaves.hashes import hash_spans, id_hashes

KEY = bytes(range(16))


def scalar(message: bytes, key: bytes = KEY) -> bytes:
    """The definition, one block at a time."""
    encrypt = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update
    state = encrypt(len(message).to_bytes(16, "little"))
    for at in range(0, len(message), 16):
        frame = message[at : at + 16].ljust(16, b"\0")
        state = encrypt(bytes(a ^ b for a, b in zip(state, frame, strict=True)))
    return state


def hashed(ids: object, key: bytes = KEY) -> list[bytes]:
    return [row.tobytes() for row in id_hashes(ids, key).hashes]


some_ids = st.lists(
    st.one_of(st.binary(max_size=40), st.binary(min_size=500, max_size=530)), max_size=12
)


@pytest.mark.slow
@settings(max_examples=150)
@given(some_ids)
@example([b""])
@example([b"", b"a" * 512, b"b" * 513])
@example([b"a" * 16] * 3)
def test_equals_the_definition_whatever_the_batch(ids: list[bytes]) -> None:
    assert hashed(ids) == [scalar(message) for message in ids]


def test_known_answers() -> None:
    known = {
        b"": "c6a13b37878f5b826f4f8162a1c8d879",
        b"order-1": scalar(b"order-1").hex(),
    }
    assert hashed([b""])[0].hex() == known[b""]
    assert hashed([b"order-1"])[0].hex() == known[b"order-1"]


def test_chunks_and_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    ids = [rng.bytes(int(n)) for n in rng.integers(0, 70, 500)]
    whole = hashed(ids)
    monkeypatch.setattr(hashes, "CHUNK", 7)
    monkeypatch.setattr(hashes, "LONG", 32)
    assert hashed(ids) == whole == [scalar(message) for message in ids]


def test_padding_never_collides() -> None:
    ids = [b"a" + b"\0" * n for n in range(40)] + [b"\0" * n for n in range(40)]
    assert len(set(hashed(ids))) == len(ids)
    # The encoding of a length is no prefix of another message.
    head = (16).to_bytes(16, "little")
    assert len(set(hashed([b"x" * 16, head + b"x" * 16, b"", head]))) == 4


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=12), st.data())
def test_every_arrow_form_hashes_alike(ids: list[str | None], data: st.DataObject) -> None:
    raw = [None if s is None else s.encode() for s in ids]
    expected = [bytes(16) if m is None else scalar(m) for m in raw]
    forms = [
        pa.array(ids, pa.string()),
        pa.array(ids, pa.large_string()),
        pa.array(raw, pa.binary()),
        pa.array(raw, pa.large_binary()),
        pa.array(ids, pa.string()).dictionary_encode(),
        pa.chunked_array([pa.array(ids[:3], pa.string()), pa.array(ids[3:], pa.string())]),
        raw,
    ]
    for form in forms:
        result = id_hashes(form, KEY)
        assert [row.tobytes() for row in result.hashes] == expected
        assert result.null.tolist() == [m is None for m in raw]
    start = data.draw(st.integers(0, len(ids)))
    sliced = id_hashes(forms[0].slice(start), KEY)
    assert [row.tobytes() for row in sliced.hashes] == expected[start:]
    assert sliced.null.tolist() == [m is None for m in raw[start:]]


def test_fixed_size_and_empty() -> None:
    raw = [b"0123456789abcdef", None, b"fedcba9876543210"]
    fixed = id_hashes(pa.array(raw, pa.binary(16)), KEY)
    assert fixed.hashes[2].tobytes() == scalar(b"fedcba9876543210")
    assert fixed.null.tolist() == [False, True, False]
    for empty in ([], pa.array([], pa.string()), pa.chunked_array([], pa.string())):
        assert id_hashes(empty, KEY).hashes.shape == (0, 2)


def test_dictionary_may_hold_null() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None]))
    result = id_hashes(column, KEY)
    assert result.null.tolist() == [False, True, True]
    nothing = pa.DictionaryArray.from_arrays(
        pa.array([None], pa.int32()), pa.array([], pa.string())
    )
    assert id_hashes(nothing, KEY).null.tolist() == [True]


def test_the_key_matters() -> None:
    assert hashed([b"a"]) != hashed([b"a"], key=bytes(16))
    assert scalar(b"a", bytes(16)) == hashed([b"a"], key=bytes(16))[0]


def test_spans_may_start_anywhere() -> None:
    data = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)
    offsets = np.array([3, 3, 10, 27, 36])
    got = [row.tobytes() for row in hash_spans(offsets, data, KEY)]
    whole = data.tobytes()
    expected = [whole[a:b] for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
    assert got == [scalar(message) for message in expected]
    for wrong in ([0, 37], [-1, 3], [5, 3]):
        with pytest.raises(ValueError):
            hash_spans(np.array(wrong), data, KEY)


def test_a_whole_number_hashes_as_its_digits() -> None:
    for kind in ("int8", "int32", "int64", "uint8", "uint64"):
        info = np.iinfo(kind)
        numbers = [info.min, info.max, 0, 1, 9, 10, 99, None]
        got = id_hashes(pa.array(numbers, pa.type_for_alias(kind)), KEY)
        texts = id_hashes(pa.array([None if n is None else str(n) for n in numbers]), KEY)
        assert np.array_equal(got.hashes, texts.hashes) and np.array_equal(got.null, texts.null)


def test_refuses_other_types() -> None:
    with pytest.raises(ConfigError) as refusal:
        id_hashes(pa.array([1.0, 2.0]), KEY)
    assert refusal.value.field == "schema.id"
