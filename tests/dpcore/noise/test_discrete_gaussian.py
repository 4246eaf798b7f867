from __future__ import annotations

import ast
import collections
import inspect
import re
import sys
from collections.abc import Iterator
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtri, ndtri_exp

from weir.dpcore import native
from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise import discrete_gaussian as module
from weir.dpcore.noise.acceptance import (
    MARGIN,
    OFFSET_BITS,
    TABLE,
    TABLE_BITS,
    Envelope,
    Rows,
    envelope,
    exponential,
    settle,
)
from weir.dpcore.noise.discrete_gaussian import WIDER
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.streams import Streams

SPREAD = [1, 2, 3, 4, 7, 10, 100, 1000, 1025, 10**6, 10**12 + 7, 2**62, 2**80]


def probability(variance: int, strip: int, magnitude: int) -> Decimal:
    """Acceptance of one attempt in a strip to 100 digits; strips beyond the table's are the tail's,
    four of them as likely as each other, and half as likely as the four before."""
    shape = envelope(variance)
    with localcontext() as context:
        context.prec = 100
        power = (-(Decimal(magnitude) ** 2) / (2 * Decimal(variance))).exp() * shape.counts[0]
        return power / Decimal(proposed(shape, strip))


def proposed(shape: Envelope, strip: int) -> Decimal:
    """How many of the table's entries a strip is worth."""
    n = len(shape.counts)
    if strip < n:
        return Decimal(shape.counts[strip])
    return Decimal(TABLE - sum(shape.counts)) / 4 / 2 ** ((strip - n) // 4 + 1)


def word(shape: Envelope, strip: int, offset: int, sign: int) -> int:
    """A first word that proposes this; a strip of the tail comes with ``tail``."""
    entry = int(np.flatnonzero(shape.table == min(strip, len(shape.counts)))[0])
    whole, fine = offset >> shape.shift, offset % (1 << shape.shift)
    bits = OFFSET_BITS - shape.shift
    first = -(-(whole << bits) // shape.step)  # the first whose product leads with ``whole``
    first += (first * shape.step) % (1 << bits) < (1 << bits) % shape.step
    return entry | sign << TABLE_BITS | (first << shape.shift | fine) << (TABLE_BITS + 1)


def tail(shape: Envelope, strip: int) -> int:
    """The further word that leads to a strip of the tail, v below 62."""
    v, w = divmod(strip - len(shape.counts), 4)
    return 1 << v + 2 | w


def never(number: int) -> tuple[int, int]:
    raise AssertionError("asked for more bits")


@pytest.mark.parametrize("variance", [1, 2, 10, 1000, 1025, 10**12 + 7, 2**80])
def test_settle_accepts_with_exactly_the_right_probability(variance):
    """The largest accepted uniform, by bisection, is floor(2^64 p) - 1 or its neighbour."""
    shape = envelope(variance)
    width, n = shape.step << shape.shift, len(shape.counts)
    for strip in {0, 1, n // 3, n // 2, n - 1, n, n + 2, n + 9}:
        for offset in {0, width // 3, width - 1}:
            for sign in (0, 1):
                y = offset + strip * width
                expected = -1 - y if sign else y
                low = word(shape, strip, offset, sign)
                more = never if strip < n else lambda number: (tail(shape, strip), 0)  # noqa: B023
                threshold = probability(variance, strip, abs(expected)) * 2**64
                assert threshold <= 2**64
                at = int(threshold)
                if at:
                    assert settle(shape, low, at - 1, more) == expected
                if at + 1 < 2**64:
                    assert settle(shape, low, at + 1, more) is None


@pytest.mark.parametrize("variance", [1, 2, 5, 40, 5000])
def test_every_integer_has_one_way_to_be_drawn_and_its_exact_weight(variance):
    """Enumerates (strip, offset, sign): P(x) / P(0) equals exp(-x^2 / 2 S) to 60 digits."""
    shape = envelope(variance)
    width = shape.step << shape.shift
    weight: dict[int, Decimal] = {}
    strips = len(shape.counts) + 20
    for strip in range(strips):
        for offset in range(width):
            for sign in (0, 1):
                y = offset + strip * width
                x = -1 - y if sign else y
                assert x not in weight
                with localcontext() as context:
                    context.prec = 100
                    chance = probability(variance, strip, abs(x))
                    assert chance <= 1
                    weight[x] = chance * proposed(shape, strip)
    assert sorted(weight) == list(range(-strips * width, strips * width))
    with localcontext() as context:
        context.prec = 80
        for x, mass in weight.items():
            exact = (-(Decimal(x) ** 2) / (2 * Decimal(variance))).exp()
            assert abs(mass / weight[0] / exact - 1) < Decimal(10) ** -60


@pytest.mark.parametrize("step", [1, 3, 64, 100, 127, 128])
def test_every_offset_has_as_many_words(step):
    """All words of an envelope whose offsets have 12 leading bits; what ``settle`` and vectorised
    attempts make of each."""
    shift = OFFSET_BITS - 12
    shape = envelope(2**80)._replace(shift=shift, step=step, variance=2**200)
    rows = Rows.for_variances([2**80])
    excess = (1 << 12) % step
    mine = (shift, (1 << shift) - 1, 12, (1 << 12) - 1, step, excess, step << shift)
    numbers = rows.numbers.copy()
    numbers[0, :7] = mine
    words = np.zeros((1, 1 << 12, 2), dtype=np.uint64)
    words[0, :, 0] = np.arange(1 << 12, dtype=np.uint64) << np.uint64(shift + TABLE_BITS + 1)
    values, accepted, hard = module._attempt(
        words, rows._replace(numbers=numbers), np.zeros(1 << 12, dtype=np.int64)
    )
    assert not hard.any() and not (values & ((1 << shift) - 1)).any()
    assert (np.bincount(values[accepted] >> shift, minlength=step) == (1 << 12) // step).all()
    for low, value, taken in zip(words[0, :, 0].tolist(), values[0], accepted[0], strict=True):
        assert settle(shape, low, 0, never) == (value if taken else None)


def test_an_undecided_uniform_is_extended():
    shape = envelope(1000)
    low = word(shape, 5, 0, 0)
    with localcontext() as context:
        context.prec = 100
        scaled = probability(1000, 5, 5) * Decimal(2) ** 128
        first, rest = divmod(int(scaled), 2**64)
    asked: list[int] = []

    def extend(with_bits: int) -> object:
        def more(number: int) -> tuple[int, int]:
            asked.append(number)
            return 0, with_bits

        return more

    assert settle(shape, low, first, extend(rest - 1)) == 5
    assert settle(shape, low, first, extend(rest + 1)) is None
    assert asked == [1, 1]


def test_the_tail_goes_on_in_further_blocks():
    """v = 62 + 64 + 2 at g = 1, where x is B + 4 v + w."""
    shape = envelope(1)
    asked: list[int] = []

    def extend(number: int) -> tuple[int, int]:
        asked.append(number)
        return (3, 2**64 - 1) if number == 1 else (0, 1) if number == 2 else (4, 1)

    assert settle(shape, word(shape, 8, 0, 0), 2**63, extend) is None
    assert asked == [1, 2, 3]
    for strip in (8, 9, 11, 12, 20):
        low = word(shape, strip, 0, 0)
        assert settle(shape, low, 0, lambda number, at=strip: (tail(shape, at), 0)) == strip
        assert settle(shape, low | 1 << TABLE_BITS, 0,
                      lambda number, at=strip: (tail(shape, at), 0)) == -1 - strip  # fmt: skip


def edges(shape: Envelope, rows: Rows, low: list[int]) -> list[list[int]]:
    """32 bits that lead a uniform number: for each word, at the ends of every decision."""
    out = []
    for one in low:
        strip, sign = int(shape.table[one % TABLE]), one >> TABLE_BITS & 1
        value = settle(shape, one, 0, lambda number: (1 << 2, 0))
        magnitude = 0 if value is None else abs(value)
        under, over = divmod(int(rows.bounds[0, strip]), 1 << 32)
        if strip < len(shape.counts):
            top, count = shape.counts[0], shape.counts[strip]
            curve = rows.numbers[0, 9:12].tolist()
            chance = int(exponential(np.array([magnitude], dtype=np.uint64), *curve)[0])
            inner = chance * top // count, -(-(chance + MARGIN) * top // count)
        else:
            inner = 0, over
        near = {at + d for at in (under, over, *inner) for d in (-2, -1, 0, 1)}
        out.append(sorted(min(max(at, 0), 2**32 - 1) for at in near | {0, sign, 2**32 - 1}))
    most = max(map(len, out))
    return [row + row[-1:] * (most - len(row)) for row in out]


@pytest.mark.parametrize("variance", SPREAD)
def test_fast_decisions_are_the_exact_ones(variance):
    """Random blocks, blocks of every strip, and at the very ends of every decision."""
    shape, rows = envelope(variance), Rows.for_variances([variance])
    random = np.random.default_rng(variance % 1000)
    words = random.integers(0, 2**64, (40, 200, 2), dtype=np.uint64)
    places = np.linspace(0, TABLE - 1, 200).astype(np.uint64)
    words[20:, :, 0] = words[20, :, 0] >> np.uint64(TABLE_BITS) << np.uint64(TABLE_BITS) | places
    ends = np.array(edges(shape, rows, words[20, :, 0].tolist())).T
    for row, end in enumerate(ends[:20], 20):
        words[row, :, 1] = end.astype(np.uint64) << np.uint64(32) | words[row, :, 1] >> np.uint64(
            32
        )
    values, accepted, hard = module._attempt(words, rows, np.zeros(200, dtype=np.int64))
    assert not (accepted & hard).any() and not hard[:20].any()
    assert hard[20:].any() and accepted[20:].any()
    assert hard[20:].mean() < 0.5
    for row, i in zip(*np.nonzero(~hard), strict=True):
        low, high = (int(one) for one in words[row, i])
        exact = settle(shape, low, high, lambda number: (1 << 2, 0))
        assert (exact is not None) == accepted[row, i]
        assert exact is None or exact == values[row, i]


class Watched(np.ndarray):
    """Keeps the kinds of everything that a ufunc reads or makes."""

    kinds: ClassVar[collections.Counter[str]] = collections.Counter()

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **options: Any
    ) -> object:
        given = [np.asarray(one) for one in inputs]
        if "out" in options:
            options["out"] = tuple(np.asarray(one) for one in options["out"])
        made = getattr(ufunc, method)(*given, **options)
        results = made if isinstance(made, tuple) else (made,)
        self.kinds.update(one.dtype.kind for one in (*given, *map(np.asarray, results)))
        return made.view(Watched) if isinstance(made, np.ndarray) else made


def test_only_integers_between_random_bits_and_samples(draw, monkeypatch):
    expected = draw("discrete_gaussian", [1, 10**6, 2**80], rows=2, keys=50)
    monkeypatch.setattr(module, "ciphers", None)
    original = Streams.encrypt

    def encrypt(self: Streams, source: np.ndarray, out: np.ndarray) -> np.ndarray:
        return original(self, source, out).view(Watched)

    monkeypatch.setattr(Streams, "encrypt", encrypt)
    Watched.kinds.clear()
    assert np.array_equal(draw("discrete_gaussian", [1, 10**6, 2**80], rows=2, keys=50), expected)
    assert set(Watched.kinds) == {"u", "b"}
    assert Watched.kinds["u"] > 60


def test_no_floating_point_in_the_source():
    """Neither a literal, nor a true division, nor the name of a type or of a function with one."""
    for one in (module, sys.modules[exponential.__module__]):
        for node in ast.walk(ast.parse(inspect.getsource(one))):
            assert not isinstance(node, ast.Div)
            assert not (isinstance(node, ast.Constant) and isinstance(node.value, float))
            if isinstance(node, ast.Attribute | ast.Name):
                name = node.attr if isinstance(node, ast.Attribute) else node.id
                assert "float" not in name.lower()
                assert name not in {"exp", "log", "log2", "sqrt", "double"}
    kernel = (Path(native.__file__).parent / "discrete.c").read_text()
    assert not re.search(r"float|double|sqrt|\d\.|\.\d|\de\d", kernel.replace(".py", ""))


def mass(variance: float, cells: np.ndarray) -> np.ndarray:
    """P(x in [cells[i], cells[i + 1])), tails included."""
    if variance <= 2 * 10**6:
        reach = np.arange(-12 * int(variance**0.5) - 12, 12 * int(variance**0.5) + 13)
        weights = np.exp(-(reach.astype(float) ** 2) / (2 * variance))
        return np.histogram(reach, cells, weights=weights / weights.sum())[0]
    return np.diff(stats.norm.cdf(cells - 0.5, scale=variance**0.5))


@pytest.mark.slow
@pytest.mark.parametrize("variance", [1, 2, 10, 1000, 10**6, 10**12])
def test_right_scale_passes_and_wrong_ones_fail(draw, variance):
    sample = draw("discrete_gaussian", [variance] * 4).reshape(-1)
    assert sample.size == 200_000
    sigma = variance**0.5
    if variance <= 10:
        cells = np.arange(-int(4 * sigma), int(4 * sigma) + 2).astype(float)
    else:
        cells = np.unique(np.round(stats.norm.ppf(np.linspace(0, 1, 102)[1:-1]) * sigma))
    cells = np.concatenate([[-1e15], cells, [1e15]])
    counts = np.histogram(sample.astype(float), cells)[0]

    def p_value(scale: float) -> float:
        expected = mass(variance * scale**2, cells)
        return float(stats.chisquare(counts, expected / expected.sum() * sample.size).pvalue)

    assert p_value(1.0) > 1e-3
    assert p_value(1.05) < 1e-9
    assert p_value(0.95) < 1e-9
    assert abs(sample.mean()) < 5 * sigma / sample.size**0.5


def test_offsets_inside_a_bucket_are_uniform(draw):
    sample = draw("discrete_gaussian", [2**80] * 4)
    low = np.bincount((sample.reshape(-1) & 63), minlength=64)
    assert stats.chisquare(low).pvalue > 1e-3


def test_coordinates_are_independent_and_need_not_be_alike(draw):
    sample = draw("discrete_gaussian", [100, 0, 10**8, 2**80], rows=20)
    assert not sample[..., 1].any()
    x = sample[..., [0, 2, 3]].reshape(-1, 3).astype(float) / [10, 1e4, 2.0**40]
    assert np.abs(x.std(axis=0) - 1).max() < 0.03
    assert np.abs(np.corrcoef(x.T) - np.eye(3)).max() < 5 / np.sqrt(len(x))
    alone = draw("discrete_gaussian", [0, 0, 10**8], rows=20)
    assert np.array_equal(alone[..., 2], sample[..., 2])


def test_all_zero_variances(draw):
    assert draw("discrete_gaussian", [0, 0], rows=2, keys=3).tolist() == [[[0, 0]] * 3] * 2
    assert draw("discrete_gaussian", [], rows=2, keys=3).shape == (2, 3, 0)


@pytest.mark.parametrize("variance", [-1, 2**80 + 1])
def test_refused_variances(draw, variance):
    with pytest.raises(ConfigError, match="variance"):
        draw("discrete_gaussian", [variance], rows=1, keys=1)
    with pytest.raises(TypeError):
        draw("discrete_gaussian", [1.5], rows=1, keys=1)


@pytest.fixture
def forced() -> Iterator[list[int]]:
    """Makes every first attempt one of the tail that has to be settled; counts these."""
    calls: list[int] = []
    original, settled = Streams.encrypt, module.settle

    def encrypt(self: Streams, source: np.ndarray, out: np.ndarray) -> np.ndarray:
        words = original(self, source, out)
        if len(source) > 1 and not calls:
            words[:, 0] |= np.uint64(TABLE - 1)
            words[:, 1] = 1 << 40
        return words

    def count(*arguments: object) -> int | None:
        calls.append(1)
        return settled(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ciphers", None)
        patch.setattr(Streams, "encrypt", encrypt)
        patch.setattr(module, "settle", count)
        yield calls


def test_settled_attempts_fit_into_the_batch(draw, forced):
    sample = draw("discrete_gaussian", [10**4], rows=1, keys=300).reshape(-1)
    assert len(forced) == 300 * (module._ELEMENTS // 300)
    assert 80 < sample.std() < 120


def test_an_attempts_extensions_have_their_own_blocks(root):
    streams = Streams(
        root.mac(), root.stream(), root.heads((b"a",)), 3, 0, label(0, 0),
        np.zeros((1, 1, 2), dtype=np.uint64),
    )  # fmt: skip
    _, seeds = next(streams.chunks(1))
    seen = {
        module._extension(streams, seeds[0], coordinate, attempt, number)
        for coordinate in (0, 1)
        for attempt in (0, 1)
        for number in (1, 2)
    }
    assert len(seen) == 8
    with pytest.raises(OverflowError):
        module._extension(streams, seeds[0], 0, 1 << 24, 1)


def quantiles(s: float, reach: float = 3.0) -> tuple[Floats, Floats]:
    """m / s, and s times the normal quantiles of P[X >= m], for m = 1, 2, .. up to ``reach`` s^2:
    as far as the tail of s turns from a normal one to that of single steps."""
    top = int(reach * s * s) + 2
    weights = -((np.arange(top + int(40 * s) + 10) / s) ** 2) / 2
    tails = np.logaddexp.accumulate(weights[::-1])[::-1]
    tails -= np.logaddexp(tails[0], tails[1])
    return np.arange(1, top) / s, -ndtri_exp(tails[1:top]) * s


@pytest.mark.parametrize("s", [4.0, 16.0, 64.0])
def test_the_lemma_holds_at_every_step(s: float) -> None:
    """Both bounds of the proof, and how far off they are: the truth is 1 + 1 / (24 s^2)."""
    v, y = quantiles(s)
    more = np.append(np.diff(y) - 1, 2 * y[0] - 1)  # the last: of the step 0
    near = np.append(np.maximum(v[1:], 1) / s, 1 / s**2)
    assert (more[:-1] <= near[:-1]).all() and more[-1] <= near[-1]
    far = v[:-1] > 4
    w = v[:-1][far]
    assert (more[:-1][far] <= (1 + w**-2) / (1 - 2 / (s * w) - 2 * w**-4) - 1).all()
    assert (y / s <= v + 1e-12).all() and (y / s >= v - 2 / s - 2 / v**3)[v > 4].all()
    assert more.max() * 24 * s * s == pytest.approx(1, abs=0.01)
    assert float(WIDER - 1) >= 2.0**-17 and float(WIDER - 1) > 2.0**-19 + 2.0**-18 + 2.0**-33


@pytest.mark.parametrize("moved", [1, 3, 10])
def test_tests_of_two_neighbours_are_no_better_than_of_gaussians_and_a_smaller_price_is_rejected(
    moved: int,
) -> None:
    """The best tests of X against X + D, at a small s where the difference shows."""
    s = 2.0
    steps = np.arange(-400, 401)
    mass = np.exp(-(steps**2) / (2 * s * s))
    mass /= mass.sum()
    below = np.concatenate([[0.0], np.cumsum(mass)])  # P[X < m] for m = -400 .. 401
    first, second = 1 - below[moved:], below[: len(below) - moved]  # P[X >= m], P[X < m - D]
    some = (first > 1e-9) & (second > 1e-9)
    apart = -ndtri(first[some]) - ndtri(second[some])
    assert apart.max() <= moved / s * (1 + 1 / (24 * s * s) + 1e-3)
    assert apart.max() > moved / s * (1 + 1e-3), "a Gaussian's own price is a little too low here"
