"""Where Prism differs from Beam's model; found by running it, held by tests that run it.

- A bundle that shows no progress for a tenth of a second is split, whatever its step is. What is
  split off a step with state becomes a bundle beside the first, of the same keys: both begin with
  what was stored before, and the one that ends last overwrites what the other has stored. A fit, a
  file or a machine that is busy with other things is slow enough. An experiment of Prism's turns
  splits off; waiting readers need none.
"""

from __future__ import annotations

from typing import Any

from apache_beam.options.pipeline_options import DebugOptions, StandardOptions

NO_SPLITS = "prism_disable_sdf_split"
"""Experiment of Prism's: no bundle is split, neither of a splittable DoFn nor of any other."""
_MAY_BE_PRISM = ("prism", "direct", "portable")
"""In names of runners. Beam's default runs on Prism what it can; a portable one may be Prism."""


def keep_bundles_whole(pipeline: Any) -> None:
    """Asks Prism, if that is what will run a pipeline, to leave bundles as they are."""
    name = str(pipeline.options.view_as(StandardOptions).runner or "direct").lower()
    if any(word in name for word in _MAY_BE_PRISM):
        pipeline.options.view_as(DebugOptions).add_experiment(NO_SPLITS)
