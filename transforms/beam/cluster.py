"""Whether a pipeline is for a cluster: machines that others use too."""

from __future__ import annotations

from typing import Any

from apache_beam.options.pipeline_options import PortableOptions, StandardOptions

from weir.transforms.beam.flink_quirks import on_flink


def has_own_workers(pipeline: Any) -> bool:
    """Whether workers are elsewhere: on Dataflow, or on Flink but in this process (LOOPBACK)."""
    if "dataflow" in str(pipeline.options.view_as(StandardOptions).runner or "").lower():
        return True
    kind = str(pipeline.options.view_as(PortableOptions).environment_type or "")
    return on_flink(pipeline) and kind.upper() != "LOOPBACK"
