"""Models that say more of a row than their noise hides."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from tests.audit.twins.twin import Aim, behind, config, patched, twin
from tests.constant_noise import NoNoise
from weir.dpcore.audit.changes import Placed
from weir.dpcore.models.blocks.level import level_for


def model(
    section: str, schema: str = "{time: at}", ticks: int = 6, mechanism: str = "", **more: Any
) -> str:
    """A config of a model of a few features."""
    given = {"delta": 1e-3, "epsilon": 4.0} | more
    body = f"model: {{{section}}}"
    return config(body, mechanism, "replace_one", ticks, "all", schema=schema, **given)


POCG = model(
    "algorithm: online.pocg, features: [u], target: y, set: {l2_ball: 2}, "
    "ranges: {u: [0, 2], y: [0, 16]}",
    ticks=2,
)
WIDE = ", ".join(f"f{i}" for i in range(8))
PROJECTED = model(
    f"algorithm: regression.projected, features: [{WIDE}], target: y, set: {{l2_ball: 2}}, "
    f"ranges: {{{', '.join(f'f{i}: [-1, 1]' for i in range(8))}, y: [-1, 1]}}, "
    "projection: {dimension: 1}, statistics: true, intercept: false",
    ticks=2,
    mechanism="{noise: gaussian}",
)


@twin("the un-noised iterate of POCG released", POCG, "all releases", short=2000)
def iterate_released() -> Iterator[None]:
    def bare(right: Any) -> Any:
        def publish(self: Any, x: Any, noise: Any, average: Any = ()) -> Any:
            return right(self, x, NoNoise(noise.first_tick), average)

        return publish

    with patched("weir.dpcore.models.online.implicit_descent.ImplicitDescent.publish", bare):
        yield


@twin(
    "the norm check left out in a projection of one dimension",
    PROJECTED,
    "all releases",
    short=6000,
)
def rows_of_any_length() -> Iterator[None]:
    with patched("weir.dpcore.models.regression.rows._shorten", lambda right: lambda *given: 0):
        yield


LABELS = "features: [u], target: y, ranges: {u: [-1, 1]}, classes: [0, 1], loss: hinge"
SAMPLED = model(
    f"algorithm: erm.sampled, {LABELS}, intercept: false, block: 4, sample: 0.25, doublings: 0, "
    "regularise: 1",
    "{time: at, id: id}",
    ticks=1,
    delta=0.0,
    epsilon=1.0,
)
LARGE, LIKELY = 14.0, 0.05
LASSO = model(
    f"algorithm: optimize.frank_wolfe, {LABELS}, intercept: false, block: 1, iterations: 32, "
    "set: {l1_ball: 0.5}",
    "{time: at, id: id}",
    ticks=1,
    epsilon=LARGE,
    delta=LIKELY,
).replace("model:", "mechanism: {noise: laplace}\nmodel:")
TURNED = Aim(here=(Placed(0, 0, 0),), there=(Placed(0, 0, 1),))
"""A row alone in its block, whose label turns."""


@twin(
    "the printed sampling variant of Watson et al.",
    SAMPLED,
    "all releases",
    aim=replace(TURNED, behind=(Placed(0, 0, 1),) * 3),
    short=10_000,
)
def noise_of_all_rows() -> Iterator[None]:
    """The fit runs on a sample, its noise is that of a fit of all rows (Appendix B)."""

    def printed(program: Any) -> Any:
        (right,) = program.levels
        budget, rows = program.loss(None), right.of
        whole = level_for(program.objective, 1, float(rows), rows, 1, budget, Fraction(1))
        fields = {"resolution": whole.noise.resolution, "scale": whole.noise.scale}
        return replace(program, levels=(replace(right, noise=replace(right.noise, **fields)),))

    with behind(printed):
        yield


@twin(
    "the printed Laplace scale of Talwar et al.",
    LASSO,
    "all releases",
    aim=TURNED,
    short=10_000,
)
def printed_laplace_scale() -> Iterator[None]:
    """L1 |C|_1 sqrt(8 T ln(1 / delta)) / (n epsilon), where 4 L1 |C|_1 / n is what a row moves."""

    def printed(program: Any) -> Any:
        way = program.way
        logs = math.log(1 / LIKELY)
        scale = way.sensitivity / 4 * math.sqrt(8 * way.steps * logs) / LARGE
        return replace(program, way=replace(way, scale=scale))

    with behind(printed):
        yield
