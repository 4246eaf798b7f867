"""Where Flink's runner differs from Beam's model; found by running it, held by tests that run it.

- It drains a job without telling its sources (see haste).
- It keeps whole seconds of the wait and of the watermark of a splittable DoFn. A watermark is only
  ever moved back by that: ticks that end on whole seconds lose nothing.
- Before Beam 2.76 every call of a splittable DoFn costs it memory for good: some 600 bytes for each
  group of keyed state in a worker (128 of them over all workers). So the fewer calls, the better.
- It fires a timer once the watermark is beyond it, not at it.
"""

from __future__ import annotations

from typing import Any

from apache_beam.options.pipeline_options import StandardOptions

AT_ONCE = 1000
"""Microseconds, Flink's least step: a timer set so much earlier fires there when it is due."""


def on_flink(pipeline: Any) -> bool:
    """Whether a pipeline is built for Flink."""
    return "flink" in str(pipeline.options.view_as(StandardOptions).runner or "").lower()
