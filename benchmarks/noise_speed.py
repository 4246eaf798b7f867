"""How fast is noise that survives a replay? Samples per second on one core, beside other libraries.

Weir's noise is keyed per user key and tick: blocks of 1,000 keys in 4 dimensions, one tick at a
time (a stream) and 128 ticks at a time (bounded input), the keying of each block and tick included.
Beside it, in the same run: one unkeyed numpy generator (what no keying could cost), and, where
installed, OpenDP (vectors of 4,000; lists in and out) and PyDP (one call a sample), as their users
call them. Those draw fresh noise, which a retry could average away.

    pip install opendp python-dp && python -m benchmarks.noise_speed
    python -m benchmarks.noise_speed --short     # the ratios alone

Each figure is the best of three rounds; writes benchmarks/results/noise_speed.csv. Ratios stand
beside numpy's normals, as many at a time, and beside our own Gaussian, turn about.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.metadata
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.beside import Ratio, beside, write
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise, RootKey

KEYS, DIMENSION, SIGMA = 1000, 4, 1000
RESULT = Path(__file__).parent / "results" / "noise_speed.csv"


class Case(NamedTuple):
    """One thing to time: ``run`` draws ``samples`` samples."""

    noise: str
    library: str
    keyed: str
    samples: int
    run: Callable[[], object]


def weir() -> Iterator[Case]:
    """Keyed noise; each call makes the noise of its stride anew."""
    root = RootKey.derive(bytes(range(32)), "benchmark", bytes(32))
    keys = tuple(b"customer %d" % i for i in range(KEYS))
    generator = np.random.default_rng(1)
    for ticks in (1, 128):
        labels = label(0, np.arange(ticks))
        leaves = generator.integers(-9, 9, (ticks, KEYS, DIMENSION))
        digests = KeyedNoise(root, 0, keys, 0).leaf_digests(leaves)
        keyed = f"per key and tick, {ticks} at a time"

        def case(
            name: str,
            method: str,
            argument: Any,
            labels: Any = labels,
            digests: Any = digests,
            keyed: str = keyed,
        ) -> Case:
            def run() -> object:
                return getattr(KeyedNoise(root, 0, keys, 0), method)(labels, digests, argument)

            return Case(name, "weir", keyed, len(labels) * KEYS * DIMENSION, run)

        yield case("Gaussian", "gaussian", DIMENSION)
        yield case("discrete Gaussian, exact", "discrete_gaussian", [SIGMA**2] * DIMENSION)
        yield case("K-norm, l2", "k_norm", DIMENSION)

        def with_digests(
            labels: Any = labels, leaves: Any = leaves
        ) -> object:  # what a mechanism does at each tick
            noise = KeyedNoise(root, 0, keys, 0)
            return noise.gaussian(labels, noise.leaf_digests(leaves), DIMENSION)

        yield Case("Gaussian and leaf digests", "weir", keyed, leaves.size, with_digests)


def numpy_bound() -> Iterator[Case]:
    """One generator, keyed once: an upper bound of sorts."""
    generator = np.random.Generator(np.random.PCG64(1))
    n = KEYS * DIMENSION
    name = f"numpy {np.__version__}"
    yield Case("Gaussian", name, "no", n, lambda: generator.standard_normal(n))
    yield Case("Laplace", name, "no", n, lambda: generator.laplace(size=n))


def opendp() -> Iterator[Case]:
    """OpenDP's measurements on vectors."""
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    name = f"opendp {importlib.metadata.version('opendp')}"
    n = KEYS * DIMENSION
    whole = dp.vector_domain(dp.atom_domain(T="i64"))
    real = dp.vector_domain(dp.atom_domain(T="f64", nan=False))
    for noise, make, domain, distance, zero in (
        ("discrete Gaussian, exact", dp.m.make_gaussian, whole, dp.l2_distance(T="i64"), 0),
        ("Gaussian", dp.m.make_gaussian, real, dp.l2_distance(T="f64"), 0.0),
        ("Laplace", dp.m.make_laplace, real, dp.l1_distance(T="f64"), 0.0),
    ):
        measurement, data = make(domain, distance, scale=float(SIGMA)), [zero] * n

        def run(measurement: Any = measurement, data: Any = data) -> object:
            return measurement(data)

        yield Case(noise, name, "no", n, run)


def pydp() -> Iterator[Case]:
    """PyDP's distributions, one call a sample."""
    module = importlib.import_module("pydp.distributions")
    name = f"python-dp {importlib.metadata.version('python-dp')}"
    n = KEYS * DIMENSION
    for noise, distribution in (
        ("Gaussian", module.GaussianDistribution(float(SIGMA))),
        ("Laplace", module.LaplaceDistribution(1.0, 1.0)),
    ):

        def run(sample: Callable[[], float] = distribution.sample) -> object:
            return [sample() for _ in range(n)]

        yield Case(noise, name, "no", n, run)


def rate(case: Case, seconds: float = 0.3, rounds: int = 3) -> float:
    """Samples per second, best of some rounds of at least ``seconds``."""
    case.run()
    best = 0.0
    for _ in range(rounds):
        calls, start = 0, time.perf_counter()
        while (passed := time.perf_counter() - start) < seconds:
            case.run()
            calls += 1
        best = max(best, calls * case.samples / passed)
    return best


AS_MANY = 1 << 20
"""Samples of a round, at least."""


def repeated(case: Case) -> Callable[[], object]:
    """As often as it takes to draw AS_MANY."""
    times = -(-AS_MANY // case.samples)
    return lambda: [case.run() for _ in range(times)]


def ratios() -> Iterator[Ratio]:
    """Each kind beside its bound."""
    generator = np.random.Generator(np.random.PCG64(1))
    cases = {(case.noise, case.keyed): case for case in weir()}
    for keyed in dict.fromkeys(keyed for _, keyed in cases):
        gaussian, stride = cases["Gaussian", keyed], "128" in keyed
        n = gaussian.samples

        def bare(n: int = n) -> object:
            return generator.standard_normal(n)

        numpy = repeated(Case("", "", "", n, bare))
        for noise, goal in (
            ("Gaussian", 0.6 if stride else 0.5),
            ("Gaussian and leaf digests", 0.6 if stride else 0.5),
        ):
            found = beside(repeated(cases[noise, keyed]), numpy)[0]
            yield Ratio(f"{noise}, {keyed}", "numpy, unkeyed", found, goal)
        exact = cases["discrete Gaussian, exact", keyed]
        found = beside(repeated(exact), repeated(gaussian))[0]
        yield Ratio(f"{exact.noise}, {keyed}", "keyed Gaussian", found, 0.35)


def main() -> None:
    """Prints a table and writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="the ratios alone")
    short = parser.parse_args().short
    write("noise_speed", list(ratios()), short)
    if not short:
        table()


def table() -> None:
    """Samples a second of every kind and library."""
    rows: list[dict[str, object]] = []
    for source, package in (
        (weir, ""), (numpy_bound, ""), (opendp, "opendp"), (pydp, "python-dp"),
    ):  # fmt: skip
        try:
            for case in source():
                speed = rate(case)
                what = f"{case.noise:26} {case.library:16} keyed: {case.keyed:32}"
                print(f"{what} {speed / 1e6:8.3f} M/s")
                rows.append(
                    {
                        "noise": case.noise,
                        "library": case.library,
                        "keyed": case.keyed,
                        "keys": KEYS,
                        "dimension": DIMENSION,
                        "samples_per_second": round(speed),
                    }
                )
        except ImportError:
            print(f"{package}: not installed: pip install {package}")
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    with RESULT.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
