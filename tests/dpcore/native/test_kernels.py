"""Kernels in C give the bits of the paths in numpy next to them: workers may lack them."""

from __future__ import annotations

import importlib
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weir.dpcore import arrays, native
from weir.dpcore.continual import blt, exact
from weir.dpcore.continual.blt import BufferState, correlated
from weir.dpcore.leaves import lattice
from weir.dpcore.noise import gaussian

FOLDER = Path(native.__file__).parent


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Modules of the list fall back to numpy."""
    for module in (gaussian, blt):
        monkeypatch.setattr(module, "kernels", None)
    return monkeypatch


def test_normals_are_the_same_to_the_bit(
    compiled: Any, without: pytest.MonkeyPatch, hard_words: np.ndarray[Any, Any]
) -> None:
    words = hard_words
    fast = np.empty(words.size)
    compiled.normal(words, fast)
    slow = gaussian.normal_from_bits(words)
    assert np.abs(slow).max() > 9  # both tails were there
    assert np.array_equal(fast.view(np.uint64), slow.view(np.uint64))


def test_exponentials_and_logarithms_are_the_same_to_the_bit(
    compiled: Any, without: pytest.MonkeyPatch, hard_words: np.ndarray[Any, Any]
) -> None:
    sizes, logs = np.empty(hard_words.size), np.empty(hard_words.size)
    compiled.exponential(hard_words, sizes)
    slow = gaussian.exponential_from_bits(hard_words)
    assert slow.min() < 1e-18 and slow.max() > 44
    assert sizes.tobytes() == slow.tobytes()
    for values in (sizes, 2.0 ** np.arange(-1022, 1024), 1 + 2.0 ** -np.arange(53.0)):
        compiled.logarithm(values, logs[: values.size])
        assert logs[: values.size].tobytes() == gaussian.exact_log(values).tobytes()


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1000])
def test_normals_of_any_length(compiled: Any, without: pytest.MonkeyPatch, n: int) -> None:
    words = np.random.default_rng(n).integers(0, 2**64, n, dtype=np.uint64)
    room = np.full(n + 2, 7.0)
    compiled.normal(words, room[1:-1])
    assert room[0] == room[-1] == 7.0
    assert np.array_equal(room[1:-1], gaussian.normal_from_bits(words))


def test_a_module_of_other_sources_is_not_used(
    compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiled.version() == native.VERSION
    sources = sorted([*FOLDER.glob("*.c"), *FOLDER.glob("*.h")])
    assert zlib.crc32(b"".join(path.read_bytes() for path in sources)) == native.VERSION
    monkeypatch.setattr(compiled, "version", lambda: native.VERSION - 1)
    try:
        assert importlib.reload(native).kernels is None
    finally:
        monkeypatch.undo()
        assert importlib.reload(native).kernels is compiled


@pytest.mark.parametrize("path", [*FOLDER.glob("*.c"), *FOLDER.glob("*.h")], ids=lambda p: p.name)
def test_what_a_source_says_of_files_and_names_is_so(path: Path) -> None:
    """A kernel is read next to the path in numpy: its comment says where that is."""
    top = FOLDER.parents[1]
    text = path.read_text()
    for name in re.findall(r"\b(?:dpcore|transforms)/[\w/]+\.py\b", text):
        assert (top / name).is_file(), name
    for names, place in re.findall(
        r"((?:`[\w.]+`[ and,]*)+) of ((?:dpcore|transforms)/[\w/]+\.py)", text
    ):
        for name in re.findall(r"`(?:\w+\.)?(\w+)`", names):
            assert re.search(rf"\b(?:def|class) {name}\b", (top / place).read_text()), name


def test_buffers_that_do_not_fit_are_refused(compiled: Any) -> None:
    with pytest.raises(ValueError, match="as long as each other"):
        compiled.normal(np.zeros(4, dtype=np.uint64), np.zeros(3))
    with pytest.raises((BufferError, TypeError)):
        compiled.normal(np.zeros(4, dtype=np.uint64), np.zeros(8)[::2])
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    with pytest.raises((BufferError, TypeError)):
        compiled.normal(np.zeros(4, dtype=np.uint64), frozen)
    for kernel in (compiled.exponential, compiled.logarithm):
        with pytest.raises(ValueError, match="as long as each other"):
            kernel(np.zeros(4), np.zeros(3))
        with pytest.raises(ValueError, match="read-only"):
            kernel(np.zeros(4), frozen)
        with pytest.raises(TypeError, match="expected 2 buffers, got 1"):
            kernel(np.zeros(4))


class Form:
    """What ``correlated`` asks of a rational form."""

    def __init__(self, poles: int) -> None:
        rng = np.random.default_rng(poles)
        self.theta, self.omega = rng.uniform(0.3, 1, poles), rng.normal(size=poles)


@pytest.mark.parametrize("keys", [0, 1, 3, 64, 501])
@pytest.mark.parametrize("poles", [0, 1, 2, 5, 8])
def test_buffers_move_on_with_the_same_bits(
    compiled: Any, monkeypatch: pytest.MonkeyPatch, poles: int, keys: int
) -> None:
    form: Any = Form(poles)
    rng = np.random.default_rng(keys)
    state = BufferState(rng.normal(size=(keys, 3, poles)) * 2.0 ** rng.integers(-900, 900))
    kept = state.buffers.copy()
    units = rng.normal(size=(17, keys, 3)) * 10.0 ** rng.integers(-300, 300, (17, keys, 3))
    fast = correlated(form, state, units)
    monkeypatch.setattr(blt, "kernels", None)
    slow = correlated(form, state, units)
    assert fast[1].tobytes() == slow[1].tobytes()
    assert fast[0].buffers.tobytes() == slow[0].buffers.tobytes()
    assert np.array_equal(state.buffers, kept)  # a retry steps from the same state


def test_strides_that_do_not_fit_are_refused(compiled: Any) -> None:
    one, two = np.zeros(1), np.zeros(2)
    with pytest.raises(ValueError, match=r"\(poles, columns\)"):
        compiled.correlate(np.zeros(4), np.zeros(4), np.zeros(3), two, two)
    with pytest.raises(ValueError, match=r"\(poles, columns\)"):
        compiled.correlate(np.zeros(4), np.zeros(4), np.zeros(2), two, one)
    with pytest.raises(ValueError, match=r"\(poles, columns\)"):
        compiled.correlate(np.zeros(5), np.zeros(5), np.zeros(4), two, two)


@pytest.mark.parametrize("keys", [0, 1, 3, 501])
@pytest.mark.parametrize("poles", [0, 1, 4])
def test_buffers_of_integers_move_on_with_the_same_bits(
    compiled: Any, monkeypatch: pytest.MonkeyPatch, poles: int, keys: int
) -> None:
    rng = np.random.default_rng(keys)
    theta, omega = (tuple(rng.integers(1, 2**52, poles).tolist()) for _ in range(2))
    fixed = exact.FixedPoint(theta, omega, 13, 0.0, 1.0, 1.0)
    state = exact.FixedState(rng.integers(-(2**57), 2**57, (keys, 3, poles + 1)))
    before = state.buffers.copy()
    zeta = rng.integers(-(2**40), 2**40, (17, keys, 3))
    curves = exact.curves_of(np.linspace(1.0, 0.3, 18))
    fast = exact.filtered_units(fixed, state, zeta.copy(), curves)
    monkeypatch.setattr(exact, "kernels", None)
    slow = exact.filtered_units(fixed, state, zeta, curves)
    assert fast[1].tobytes() == slow[1].tobytes()
    assert fast[0].buffers.tobytes() == slow[0].buffers.tobytes()
    assert np.array_equal(state.buffers, before)
    if keys:
        with pytest.raises(ValueError, match=r"curves \(n, 3\)"):
            compiled.correlate_exact(zeta, before, np.zeros(2 * poles), np.zeros(2), np.array([13]))


@pytest.mark.parametrize("shape", [(1, 3), (5, 1), (17, 3, 2), (4, 511), (4, 512), (3, 1025)])
@pytest.mark.parametrize("operation", [np.add, np.bitwise_xor])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32, np.float64])
def test_rows_are_accumulated_with_the_same_bits(
    compiled: Any, operation: Any, shape: tuple[int, ...], dtype: Any
) -> None:
    values = np.random.default_rng(3).integers(-(2**62), 2**62, shape).astype(dtype)
    if dtype is np.float64 and operation is np.bitwise_xor:
        return
    expected = operation.accumulate(values, axis=0, dtype=dtype)
    gaps = np.repeat(values, 2, axis=-1)[..., ::2]
    for own in (values, gaps):
        arrays.accumulate(operation, own)
        assert own.tobytes() == expected.tobytes()
    with pytest.raises(ValueError, match="a kind"):
        compiled.accumulate(values, np.array([len(values) + 1 << 40, 0]))
    with pytest.raises(ValueError, match="a kind"):
        compiled.accumulate(values, np.array([1, 2]))


@pytest.mark.parametrize("keys", [0, 1, 3, 511, 512, 1025])
@pytest.mark.parametrize("size", [1, 40, 61, 62])
def test_running_sums_move_on_with_the_same_bits(
    compiled: Any, monkeypatch: pytest.MonkeyPatch, keys: int, size: int
) -> None:
    rng = np.random.default_rng(keys)
    total = np.stack(
        [rng.integers(0, 2**62, (keys, 1)), rng.choice([-1, 0, 1, 7, -(2**61)], (keys, 1))], axis=-1
    )
    before = total.copy()
    leaves = rng.integers(-(1 << size) + 1, 1 << size, (5, keys, 1))
    drawn = rng.integers(-(1 << 60), 1 << 60, leaves.shape)
    drawn[:, ::3] = -leaves[:, ::3] % (1 << 61) * -1  # totals near 0, on both sides
    asked = [(noisy, shown) for noisy in (False, True) for shown in (False, True)]
    fast = [lattice.running_sums(total, leaves, drawn, noisy=a, shown=b) for a, b in asked]
    monkeypatch.setattr(lattice, "kernels", None)
    slow = [lattice.running_sums(total, leaves, drawn, noisy=a, shown=b) for a, b in asked]
    for pair in zip(fast, slow, strict=True):
        assert all(one.shape == two.shape for one, two in zip(*pair, strict=True))
        assert all(one.tobytes() == two.tobytes() for one, two in zip(*pair, strict=True))
    assert np.array_equal(total, before)  # a retry steps from the same state
    if keys:
        none = np.zeros(0)
        with pytest.raises(ValueError, match="or empty"):
            compiled.running(total, leaves, drawn, np.zeros(3), none)
        with pytest.raises(ValueError, match="or empty"):
            compiled.running(total, leaves, drawn[1:], none, none)
