"""Noise that is too small, or that is drawn where it must not be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.audit.twins.twin import REPLACED, SUM, TREE, behind, config, patched, programs_of, twin
from tests.audit.verdict import tampered
from weir.dpcore.noise.prf import KeyedNoise

SUMS = config(
    "aggregates: {" + ", ".join(f"s{i}: {{sum: v{i}, clip: [-1, 1]}}" for i in range(16)) + "}",
    "{continual_sum: independent, noise: k_norm}",
    ticks=2,
    window=2,
    epsilon=2.0,
    delta=0.0,
)
"""An event may weigh in sixteen sums at once: four times as much in l1 as in l2."""


@twin("noise x 0.7", SUM, "all releases")
def too_quiet() -> Iterator[None]:
    with behind(lambda program: tampered(program, noise_scale=lambda scale: 0.7 * scale)):
        yield


@twin("sensitivity without the factor for replace-one", REPLACED, "all releases")
def no_factor() -> Iterator[None]:
    # Two events at the ends of the clip are twice as far apart as either is from none.
    with behind(lambda program: tampered(program, noise_scale=lambda scale: scale / 2)):
        yield


@twin("one tree level uncounted", TREE, "all releases")
def level_short() -> Iterator[None]:
    levels = 3  # of six ticks
    with behind(
        lambda program: tampered(
            program, noise_scale=lambda scale: scale * np.sqrt((levels - 1) / levels)
        )
    ):
        yield


@twin("window calibrated for W/2", config(window=6, ticks=8), "all releases")
def half_window() -> Iterator[None]:
    with behind(lambda program: programs_of(config(window=3, ticks=8))):
        yield


@twin("the tick's digest left out of the noise key", SUM, "bytes", "share noise")
def no_digest() -> Iterator[None]:
    def blank(right: Any) -> Any:
        return lambda self, leaves: np.zeros_like(right(self, leaves))

    with patched("weir.dpcore.noise.prf.KeyedNoise.leaf_digests", blank):
        yield


@twin("fresh noise on a retry", SUM, "bytes", "second run")
def fresh_on_retry() -> Iterator[None]:
    drawn = np.random.default_rng(0)

    def fresh(right: Any) -> Any:
        def draw(self: KeyedNoise, labels: Any, digests: Any, variances: Any) -> Any:
            sizes = np.sqrt(np.array(variances, dtype=np.float64))
            return np.rint(drawn.normal(size=(*digests.shape[:2], len(sizes))) * sizes).astype(int)

        return draw

    with patched("weir.dpcore.noise.prf.KeyedNoise.discrete_gaussian", fresh):
        yield


@twin("noise reused across keys", SUM, "bytes", "keys share noise")
def one_noise() -> Iterator[None]:
    def same(right: Any) -> Any:
        def draw(self: KeyedNoise, labels: Any, digests: Any, variances: Any) -> Any:
            drawn = right(self, labels, digests, variances)
            return np.repeat(drawn[:, :1], drawn.shape[1], axis=1)

        return draw

    with patched("weir.dpcore.noise.prf.KeyedNoise.discrete_gaussian", same):
        yield


@twin("a folder resumed with another secret", SUM, "bytes", "another secret")
def any_secret() -> Iterator[None]:
    with (
        patched(
            "weir.pipelines.results.secret_marks.refuse_other", lambda right: lambda *given: None
        ),
        patched("weir.transforms.sinks.held.differences", lambda right: lambda *given: False),
    ):
        yield


@twin("per-coordinate Laplace noise with an l2 scale", SUMS, "all releases")
def laplace_with_an_l2_scale() -> Iterator[None]:
    with patched("weir.dpcore.noise.prf.KeyedNoise.k_norm", lambda right: KeyedNoise.laplace):
        yield
