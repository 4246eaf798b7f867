"""How fast is noise that survives a replay, compared with numpy's and other libraries'?

Weir's noise is keyed per user key and tick: blocks of 1,000 keys in 4 dimensions, one tick at a
time (a stream) and 128 ticks at a time (bounded input), the keying of each block and tick included.
The peer of the ratios is one unkeyed numpy generator (what no keying could cost), as many at a
time, and our own Gaussian. The table, which the short form leaves out, has OpenDP (vectors of
4,000; lists in and out) and PyDP (one call a sample) too, where they are installed (the extra
``bench``), as their users call them. Those draw fresh noise, which a retry could average away.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Bench, main, rate
from weir.dpcore.noise.noise import label
from weir.dpcore.noise.prf import KeyedNoise, RootKey

KEYS, DIMENSION, SIGMA = 1000, 4, 1000
SAMPLES = KEYS * DIMENSION
TIMED = 1 << 20
"""Samples of a round, at least."""


class Case(NamedTuple):
    """One thing to time: ``run`` draws ``samples`` samples."""

    noise: str
    library: str
    keyed: str
    samples: int
    run: Callable[[], object]

    @property
    def repeated(self) -> Callable[[], object]:
        """As often as it takes to draw TIMED."""
        return lambda: [self.run() for _ in range(-(-TIMED // self.samples))]


def weir() -> Iterator[Case]:
    """Keyed noise; each call makes the noise of its ticks again."""
    root = RootKey.derive(bytes(range(32)), "benchmark", bytes(32))
    keys = tuple(b"customer %d" % i for i in range(KEYS))
    generator = np.random.default_rng(1)

    def draw(method: str, labels: Any, digests: Any, argument: Any) -> object:
        return getattr(KeyedNoise(root, 0, keys, 0), method)(labels, digests, argument)

    def with_digests(labels: Any, leaves: Any) -> object:
        """What a mechanism does at each tick."""
        noise = KeyedNoise(root, 0, keys, 0)
        return noise.gaussian(labels, noise.leaf_digests(leaves), DIMENSION)

    for ticks in (1, 128):
        labels = label(0, np.arange(ticks))
        leaves = generator.integers(-9, 9, (ticks, KEYS, DIMENSION))
        digests = KeyedNoise(root, 0, keys, 0).leaf_digests(leaves)
        keyed, n = f"per key and tick, {ticks} at a time", ticks * SAMPLES
        for name, method, argument in (
            ("Gaussian", "gaussian", DIMENSION),
            ("discrete Gaussian, exact", "discrete_gaussian", [SIGMA**2] * DIMENSION),
            ("K-norm, l2", "k_norm", DIMENSION),
        ):
            yield Case(name, "weir", keyed, n, partial(draw, method, labels, digests, argument))
        own = partial(with_digests, labels, leaves)
        yield Case("Gaussian and tick digests", "weir", keyed, n, own)


def numpy_bound() -> Iterator[Case]:
    """One generator, keyed once: an upper bound of sorts."""
    generator = np.random.Generator(np.random.PCG64(1))
    name = f"numpy {np.__version__}"
    yield Case("Gaussian", name, "no", SAMPLES, lambda: generator.standard_normal(SAMPLES))
    yield Case("Laplace", name, "no", SAMPLES, lambda: generator.laplace(size=SAMPLES))


def opendp() -> Iterator[Case]:
    """OpenDP's measurements on vectors."""
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    name = f"opendp {importlib.metadata.version('opendp')}"
    whole = dp.vector_domain(dp.atom_domain(T="i64"))
    real = dp.vector_domain(dp.atom_domain(T="f64", nan=False))
    for noise, make, domain, distance, zero in (
        ("discrete Gaussian, exact", dp.m.make_gaussian, whole, dp.l2_distance(T="i64"), 0),
        ("Gaussian", dp.m.make_gaussian, real, dp.l2_distance(T="f64"), 0.0),
        ("Laplace", dp.m.make_laplace, real, dp.l1_distance(T="f64"), 0.0),
    ):
        measurement = make(domain, distance, scale=float(SIGMA))
        yield Case(noise, name, "no", SAMPLES, partial(measurement, [zero] * SAMPLES))


def pydp() -> Iterator[Case]:
    """PyDP's distributions, one call a sample."""
    module = importlib.import_module("pydp.distributions")
    name = f"python-dp {importlib.metadata.version('python-dp')}"

    def draw(sample: Callable[[], float]) -> object:
        return [sample() for _ in range(SAMPLES)]

    for noise, distribution in (
        ("Gaussian", module.GaussianDistribution(float(SIGMA))),
        ("Laplace", module.LaplaceDistribution(1.0, 1.0)),
    ):
        yield Case(noise, name, "no", SAMPLES, partial(draw, distribution.sample))


def measure(bench: Bench) -> None:
    """Ratios to numpy and to the Gaussian, then all libraries."""
    generator = np.random.Generator(np.random.PCG64(1))
    cases = {(case.noise, case.keyed): case for case in weir()}
    for keyed in dict.fromkeys(keyed for _, keyed in cases):
        gaussian = cases["Gaussian", keyed]
        draw = partial(generator.standard_normal, gaussian.samples)
        bare = Case("", "", "", gaussian.samples, draw).repeated
        for noise in ("Gaussian", "Gaussian and tick digests"):
            goal, ours = 0.6 if "128" in keyed else 0.5, cases[noise, keyed].repeated
            bench.compare(f"{noise}, {keyed}", "numpy, unkeyed", ours, bare, goal)
        exact = cases["discrete Gaussian, exact", keyed]
        what = f"{exact.noise}, {keyed}"
        bench.compare(what, "keyed Gaussian", exact.repeated, gaussian.repeated, 0.6)
    if bench.short:
        return
    for source in (weir, numpy_bound, opendp, pydp):
        try:
            for case in source():
                bench.row(
                    noise=case.noise,
                    library=case.library,
                    keyed=case.keyed,
                    keys=KEYS,
                    dimension=DIMENSION,
                    samples_per_second=rate(case.run, case.samples, 0.3),
                )
        except ImportError as error:
            print(f"{source.__name__} is left out: {error}. Run: pip install -e '.[bench]'")


if __name__ == "__main__":
    main(measure)
