"""Models that say more of a row than their noise hides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.audit.twins.twin import config, patched, twin
from tests.constant_noise import NoNoise


def model(section: str, schema: str = "{time: at}", ticks: int = 6, **more: Any) -> str:
    """A config of a model of a few features."""
    given = {"delta": 1e-3, "epsilon": 4.0} | more
    return config(f"model: {{{section}}}", "", "replace_one", ticks, "all", schema=schema, **given)


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
)


@twin("the un-noised iterate of POCG released", POCG, "all releases", short=2000)
def iterate_released() -> Iterator[None]:
    def bare(right: Any) -> Any:
        def publish(self: Any, x: Any, noise: Any, average: Any = ()) -> Any:
            return right(self, x, NoNoise(noise.first_tick), average)

        return publish

    with patched("dpcore.models.online.implicit_descent.ImplicitDescent.publish", bare):
        yield


@twin(
    "the norm check left out in a projection of one dimension",
    PROJECTED,
    "all releases",
    short=6000,
)
def rows_of_any_length() -> Iterator[None]:
    with patched("dpcore.models.regression.rows._shorten", lambda right: lambda *given: 0):
        yield
