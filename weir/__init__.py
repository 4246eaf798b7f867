"""Weir: differentially private releases from live streams, on Apache Beam.

This is the public face: what is imported from ``weir`` stays where it is; what lies in the packages
behind it (``dpcore``, ``transforms``, ``pipelines``) may move between versions.

    >>> from weir import Plan
    >>> plan = Plan.from_yaml('''
    ... name: visits
    ... schema: {time: at}
    ... clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-08T00:00:00Z}
    ... privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
    ... aggregates: {visits: {count: events}}
    ... ''')
    >>> plan.guarantee.epsilon, plan.clock.ticks
    (1.0, 7)

Names are looked up when they are used: planning and simulating import no Beam.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.dpcore.accounting.guarantee import Guarantee
    from weir.dpcore.bounded_events import Events
    from weir.dpcore.errors import ConfigError, WeirError
    from weir.dpcore.plan import Plan
    from weir.dpcore.plan_config import PlanConfig
    from weir.dpcore.simulate import Simulated, simulate
    from weir.pipelines.notebook.release import release
    from weir.pipelines.notebook.released import Released
    from weir.pipelines.results.verdict import InputRejected
    from weir.transforms.beam.private_releases import PrivateReleases, Releases
    from weir.transforms.beam.releases import FlatReleases, ReleaseRow, ReleaseRows
    from weir.transforms.release.table import RELEASE_SCHEMA
    from weir.transforms.runtime.secret import SecretRef as Secret

_PLACES = {
    "ConfigError": "weir.dpcore.errors:ConfigError",
    "Events": "weir.dpcore.simulate:Events",
    "FlatReleases": "weir.transforms.beam.releases:FlatReleases",
    "Guarantee": "weir.dpcore.accounting.guarantee:Guarantee",
    "InputRejected": "weir.pipelines.results.verdict:InputRejected",
    "Plan": "weir.dpcore.plan:Plan",
    "PlanConfig": "weir.dpcore.plan_config:PlanConfig",
    "PrivateReleases": "weir.transforms.beam.private_releases:PrivateReleases",
    "RELEASE_SCHEMA": "weir.transforms.release.table:RELEASE_SCHEMA",
    "ReleaseRow": "weir.transforms.beam.releases:ReleaseRow",
    "ReleaseRows": "weir.transforms.beam.releases:ReleaseRows",
    "Released": "weir.pipelines.notebook.released:Released",
    "Releases": "weir.transforms.beam.private_releases:Releases",
    "Secret": "weir.transforms.runtime.secret:SecretRef",
    "Simulated": "weir.dpcore.simulate:Simulated",
    "WeirError": "weir.dpcore.errors:WeirError",
    "release": "weir.pipelines.notebook.release:release",
    "simulate": "weir.dpcore.simulate:simulate",
}

__all__ = [
    "RELEASE_SCHEMA",
    "ConfigError",
    "Events",
    "FlatReleases",
    "Guarantee",
    "InputRejected",
    "Plan",
    "PlanConfig",
    "PrivateReleases",
    "ReleaseRow",
    "ReleaseRows",
    "Released",
    "Releases",
    "Secret",
    "Simulated",
    "WeirError",
    "release",
    "simulate",
]

__version__ = version("weir-dp")


def __getattr__(name: str) -> Any:
    """Looks up a public name where it lies."""
    if name not in _PLACES:
        raise AttributeError(
            f"module 'weir' has no attribute {name!r}; it has {', '.join(__all__)}."
        )
    module, _, attribute = _PLACES[name].partition(":")
    result = getattr(import_module(module), attribute)
    globals()[name] = result
    return result


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
