"""Where runners differ from Beam's model, found by running them; the list is of Flink's.

- It drains a job without telling its sources (see ``DrainWatch``).
- It declares bundles safe that are in no checkpoint yet (see ``Confirmations``).
- Apache's job servers keep whole seconds of the wait and of the watermark of a splittable DoFn. A
  watermark is only ever moved back by that: ticks that end on whole seconds lose nothing. That of
  ``make flink`` keeps both to the millisecond.
- Before Beam 2.76 every call of a splittable DoFn costs Apache's memory for good: some 600 bytes
  for each group of keyed state in a worker (128 of them over all workers). So the fewer calls, the
  better.
- It fires a timer once the watermark is beyond it, not at it.
- What is put out while a checkpoint is taken it keeps until the next bundle of the same step, while
  the watermark goes on at once; where no bundle follows, it keeps it for ever. The option
  ``finish_bundle_before_checkpointing`` ends that; a stream is not built without it.
"""

from __future__ import annotations

from typing import Any

from apache_beam.options.pipeline_options import DebugOptions, PortableOptions, StandardOptions

from weir.dpcore.errors import ConfigError

WHOLE_BUNDLES = "finish_bundle_before_checkpointing"
"""Option of Flink's runner."""
AT_ONCE = 1000
"""Microseconds, Flink's least step: a timer set so much earlier fires there when it is due."""


def on_flink(pipeline: Any) -> bool:
    """Whether a pipeline is built for Flink."""
    return "flink" in str(pipeline.options.view_as(StandardOptions).runner or "").lower()


def require_whole_bundles(pipeline: Any) -> None:
    """Refuses to build an unbounded pipeline that would lose events at checkpoints.

    Raises:
      ConfigError: it is for Flink, without the option.
    """
    if not on_flink(pipeline):
        return
    options = pipeline.options.get_all_options(retain_unknown_options=True)
    if str(options.get(WHOLE_BUNDLES)).lower() != "true":
        raise ConfigError(
            f"--{WHOLE_BUNDLES}",
            options.get(WHOLE_BUNDLES),
            "has to be set for a stream on Flink: without it, what a checkpoint interrupts is sent "
            f"on behind the watermark, and its events are lost. Add --{WHOLE_BUNDLES} to the "
            "options of the pipeline.",
        )


def has_own_workers(pipeline: Any) -> bool:
    """Whether workers are elsewhere: on Dataflow, or on Flink but in this process (LOOPBACK)."""
    if "dataflow" in str(pipeline.options.view_as(StandardOptions).runner or "").lower():
        return True
    kind = str(pipeline.options.view_as(PortableOptions).environment_type or "")
    return on_flink(pipeline) and kind.upper() != "LOOPBACK"


NO_SPLITS = "prism_disable_sdf_split"
"""Experiment of Prism's: no bundle is split, neither of a splittable DoFn nor of any other."""
_MAY_BE_PRISM = ("prism", "direct", "portable")
"""In names of runners. Beam's default runs on Prism what it can; a portable one may be Prism."""


def keep_bundles_whole(pipeline: Any) -> None:
    """Asks Prism, if that is what will run a pipeline, to leave bundles as they are."""
    name = str(pipeline.options.view_as(StandardOptions).runner or "direct").lower()
    if any(word in name for word in _MAY_BE_PRISM):
        pipeline.options.view_as(DebugOptions).add_experiment(NO_SPLITS)
