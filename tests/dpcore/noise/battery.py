"""Is keyed noise what it is said to be, over 10^9 samples and across neighbouring streams?

    python -m tests.dpcore.noise.battery                       # 10^9 Gaussian, 10^8 discrete: 2 min
    python -m tests.dpcore.noise.battery --gaussian 1e8 --discrete 1e7

Samples come as jobs draw them, in blocks of ticks by keys by coordinates, each (key, tick) a stream
of its own. Asked is, of Gaussian noise: are values as frequent as they should be (cells of 1/64 of
a standard deviation), so are pairs of neighbouring keys, ticks and coordinates, and of the same
place under two secrets (16 by 16 cells of even chance), is every frequency of a spectrum along keys
and along ticks as strong as every other; of its words, is each bit even and each byte as frequent;
of discrete Gaussian noise, has each whole number its exact mass. Every p is of a chi-square, and a
p below 10^-6 rejects (some twenty are taken). ``test_battery.py`` holds a short
form of it in the suite, and sources that are wrong on purpose, each of which it rejects.
Writes battery.csv next to this file.
"""

from __future__ import annotations

import argparse
import csv
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise, RootKey

TICKS, KEYS, DIMENSION = 128, 1024, 4
BLOCK = TICKS * KEYS * DIMENSION
PER_SIGMA, FAR, QUANTILES = 64, 7, 16
LEAST = 1e-6
"""A p below this rejects."""
VARIANCES = (1, 10, 10**6)
"""Of the discrete Gaussian, a third of the samples each."""
RESULT = Path(__file__).with_suffix(".csv")

Values = NDArray[np.float64]
Source = Callable[[int], Values]
"""Standard normal values (TICKS, KEYS, DIMENSION) of a block by its number."""


class Verdict(NamedTuple):
    """One question: what was asked, of how many samples, and how likely so odd an answer is."""

    what: str
    samples: int
    statistic: float
    freedom: float
    p: float


def chi_square(what: str, seen: NDArray[Any], expected: NDArray[Any]) -> Verdict:
    """Counts against expected ones; neighbouring cells of fewer than 20 are taken together."""
    merged: list[tuple[float, float]] = []
    count = mass = 0.0
    for each, chance in zip(seen.ravel(), expected.ravel(), strict=True):
        count, mass = count + float(each), mass + float(chance)
        if mass >= 20:
            merged.append((count, mass))
            count = mass = 0.0
    if merged:
        last = merged.pop()
        merged.append((last[0] + count, last[1] + mass))
    found, wanted = np.array(merged).T
    statistic = float(((found - wanted) ** 2 / wanted).sum())
    freedom = len(merged) - 1
    p = 2 * min(stats.chi2.sf(statistic, freedom), stats.chi2.cdf(statistic, freedom))
    return Verdict(what, int(seen.sum()), statistic, freedom, min(1.0, float(p)))


class Battery:
    """Counts that grow with each block, and what they say in the end."""

    def __init__(self) -> None:
        edges = np.arange(-FAR * PER_SIGMA, FAR * PER_SIGMA + 1) / PER_SIGMA
        self.chances = np.diff(special.ndtr(np.concatenate(([-np.inf], edges, [np.inf]))))
        below = np.cumsum(self.chances) - self.chances / 2
        self.quantile = np.minimum(below * QUANTILES, QUANTILES - 1).astype(np.intp)
        even = np.bincount(self.quantile, self.chances, QUANTILES)
        self.even = np.outer(even, even)
        self.seen = np.zeros(len(self.chances), np.int64)
        self.pairs: dict[str, NDArray[np.int64]] = {}
        self.power = {"keys": np.zeros(KEYS // 2 - 1), "ticks": np.zeros(TICKS // 2 - 1)}
        self.blocks = 0

    def pair(self, what: str, one: NDArray[np.intp], other: NDArray[np.intp]) -> None:
        """Counts cells of two values side by side."""
        cells = np.bincount((one * QUANTILES + other).ravel(), minlength=QUANTILES**2)
        self.pairs[what] = self.pairs.get(what, np.zeros(QUANTILES**2, np.int64)) + cells

    def add(self, values: Values, twin: Values | None = None) -> None:
        """A block, and where given the same block under another secret."""
        cell = self.cells(values)
        self.seen += np.bincount(cell.ravel(), minlength=len(self.seen))
        where = self.quantile[cell]
        # Every second one with the next, so that pairs are independent of each other.
        self.pair("neighbouring ticks", where[:-1:2], where[1::2])
        self.pair("neighbouring keys", where[:, :-1:2], where[:, 1::2])
        self.pair("neighbouring coordinates", where[..., :-1:2], where[..., 1::2])
        if twin is not None:
            self.pair("two secrets", where, self.quantile[self.cells(twin)])
        for axis, name in ((1, "keys"), (0, "ticks")):
            spectrum = np.fft.rfft(values, axis=axis)
            power = (spectrum.real**2 + spectrum.imag**2).sum(tuple({0, 1, 2} - {axis}))
            self.power[name] += power[1:-1] * 2 / values.shape[axis]
        self.blocks += 1

    def cells(self, values: Values) -> NDArray[np.intp]:
        """Which cell of 1/64 each value is in."""
        raw = np.floor(values * PER_SIGMA) + (FAR * PER_SIGMA + 1)
        return np.clip(raw, 0, len(self.chances) - 1).astype(np.intp)

    def verdicts(self) -> Iterator[Verdict]:
        """What was asked of all blocks."""
        samples = self.blocks * BLOCK
        yield chi_square("values", self.seen, self.chances * samples)
        for what, seen in self.pairs.items():
            yield chi_square(f"pairs of {what}", seen, self.even.ravel() * seen.sum())
        for name, power in self.power.items():
            # Each is a chi-square variable of two degrees for every row and block.
            length = KEYS if name == "keys" else TICKS
            freedom = 2 * samples // length
            score = (power - freedom) / np.sqrt(2 * freedom)
            statistic = float((score**2).sum())
            p = 2 * min(stats.chi2.sf(statistic, len(score)), stats.chi2.cdf(statistic, len(score)))
            yield Verdict(f"spectrum along {name}", samples, statistic, len(score), float(p))
            tone = float(np.abs(score).max())
            alone = -np.expm1(len(score) * np.log1p(-2 * stats.norm.sf(tone)))
            yield Verdict(f"loudest tone along {name}", samples, tone, 1, float(alone))


def keyed(number: int, secret: int = 0) -> tuple[KeyedNoise, Any, Any]:
    """Noise of keys by name over a stride of ticks, as a job makes it."""
    root = RootKey.derive(bytes([secret]) * 32, "battery", bytes(32))
    keys = tuple(b"customer %d" % i for i in range(KEYS))
    noise = KeyedNoise(root, 0, keys, number * TICKS)
    labels = label(0, np.arange(number * TICKS, (number + 1) * TICKS))
    return noise, labels, noise.leaf_digests(np.zeros((TICKS, KEYS, 1), np.int64))


def gaussian(number: int, secret: int = 0) -> Values:
    """A block of standard normal values."""
    noise, labels, digests = keyed(number, secret)
    return np.asarray(noise.gaussian(labels, digests, DIMENSION))


def words(blocks: int) -> Iterator[Verdict]:
    """Bits and bytes of what all noise is made of."""
    ones = np.zeros(64, np.int64)
    octets = np.zeros((8, 256), np.int64)
    total = 0
    for number in range(blocks):
        noise, labels, digests = keyed(number)
        raw = np.asarray(noise.bits(labels, digests, DIMENSION)).astype("<u8").ravel()
        total += len(raw)
        parts = raw.view(np.uint8).reshape(-1, 8)
        for place in range(8):
            octets[place] += np.bincount(parts[:, place], minlength=256)
    table = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    ones = (octets @ table).ravel()
    score = (ones - total / 2) / np.sqrt(total / 4)
    statistic = float((score**2).sum())
    p = 2 * min(stats.chi2.sf(statistic, 64), stats.chi2.cdf(statistic, 64))
    yield Verdict("bits of words", total, statistic, 64, float(p))
    yield chi_square("bytes of words", octets, np.full((8, 256), total / 256))


def masses(variance: int, reach: int) -> NDArray[np.float64]:
    """exp(-x^2 / (2 S)) / Z of x = -reach .. reach, the ends with all that lies beyond."""
    far = reach + 60 * int(np.sqrt(variance)) + 60
    weights = np.exp(-(np.arange(-far, far + 1, dtype=np.float64) ** 2) / (2 * variance))
    weights /= weights.sum()
    middle = weights[far - reach : far + reach + 1].copy()
    middle[0] += weights[: far - reach].sum()
    middle[-1] += weights[far + reach + 1 :].sum()
    return middle


def discrete(variance: int, blocks: int, draw: Callable[[int, int], Any]) -> Verdict:
    """Frequencies of whole numbers against their exact masses."""
    reach = 5 * int(np.sqrt(variance)) + 5
    seen = np.zeros(2 * reach + 1, np.int64)
    for number in range(blocks):
        found = np.clip(draw(variance, number), -reach, reach) + reach
        seen += np.bincount(found.ravel(), minlength=len(seen))
    return chi_square(
        f"discrete Gaussian of variance {variance}", seen, masses(variance, reach) * seen.sum()
    )


def drawn(variance: int, number: int) -> Any:
    """A block of discrete Gaussian noise."""
    noise, labels, digests = keyed(number)
    return np.asarray(noise.discrete_gaussian(labels, digests, [variance] * DIMENSION)).astype(
        np.int64
    )


def normal(blocks: int, source: Source, twin: Source | None = None) -> Iterator[Verdict]:
    """All questions to a source of Gaussian noise."""
    battery = Battery()
    for number in range(blocks):
        battery.add(source(number), twin(number) if twin and number % 8 == 0 else None)
    yield from battery.verdicts()


def main() -> None:
    """Draws, asks and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gaussian", type=float, default=1e9)
    parser.add_argument("--discrete", type=float, default=1e8)
    options = parser.parse_args()
    blocks = math.ceil(options.gaussian / BLOCK)
    few = math.ceil(options.discrete / BLOCK / len(VARIANCES))
    rows: list[dict[str, Any]] = []

    def keep(verdicts: Iterator[Verdict]) -> None:
        began = time.perf_counter()
        for each in verdicts:
            row: dict[str, Any] = each._asdict()
            row["statistic"], row["p"] = f"{each.statistic:.4g}", f"{each.p:.3g}"
            row["rejected"] = each.p < LEAST
            rows.append(row)
            print(row, f"{time.perf_counter() - began:.0f} s", flush=True)

    keep(normal(blocks, gaussian, lambda number: gaussian(number, 1)))
    keep(words(max(1, blocks // 10)))
    keep(discrete(variance, few, drawn) for variance in VARIANCES)
    with RESULT.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    if any(row["rejected"] for row in rows):
        raise SystemExit("noise is not what it is said to be")


if __name__ == "__main__":
    main()
