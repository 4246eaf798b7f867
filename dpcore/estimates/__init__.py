"""Estimates from releases alone: exact filters of noise whose law is public.

Post-processing: everything here is a function of released values and of the plan, so it costs no
privacy. ``laws`` gives the noise of a mechanism as a state that moves from tick to tick, ``bank``
runs one exact filter for each model of a signal, all keys at once, ``hindsight`` smooths over the
whole series. ``rules`` says when an estimate is shown, and what its margin is; ``series`` joins
them to estimates of counts and sums, and ``sources`` says which outputs of a plan have one.
``reconcile`` moves releases of several groupings of keys onto their sums.
"""

__all__ = ["bank", "hindsight", "laws", "reconcile", "rules", "series", "sources"]
