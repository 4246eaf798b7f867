"""Pricing: every continual sum that can carry a learner's gradients, at the same promise."""

from __future__ import annotations

from dpcore.aggregates.price import Alternative
from dpcore.config import PlanConfig
from dpcore.online.program import Learner


def compile_learner(config: PlanConfig) -> tuple[Learner, tuple[Alternative, ...]]:
    """A learner over the best continual sum for it, and every alternative, the chosen one first.

    Reads ``config.model`` (dpcore/model_config.py):
      algorithm: online.follow_the_leader, online.conditional_gradient, or online.pftal (the former
        over a full-history tree).
      features: sequence of columns. target: column. intercept: bool (last coordinate of theta).
      ranges: column -> (low, high), low < high, for every feature and the target.
      clip: ``.gradient`` (L, float) and ``.loss`` (largest loss of an event that counts, float; None
        or 0: no running loss is released).
      set: mapping for geometry.parse.parse_set. loss: text or mapping for losses.parse_loss.
      curvature: mu > 0. centre: None (zero) or d numbers. own_curvature: bool.
      step: "line_search" or "constant" (conditional gradient only).
      cap: rows a key and tick. weight: share of the squared budget that the loss takes, in (0, 1).

    Raises:
      ConfigError: nothing (or not what the user named) can serve the plan.
    """
    raise NotImplementedError
