"""Steps of a Beam pipeline: DoFns that wrap the operators, with Beam's state, timers and coders.

Nothing outside of this package and of ``pipelines`` imports Beam. ``PrivateReleases`` is the whole
flow as one PTransform.
"""

from weir.transforms.beam import coders, metrics

__all__ = ["coders", "metrics"]
