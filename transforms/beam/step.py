"""A step of a pipeline, of which Beam looks through no more than there is to find."""

from __future__ import annotations

import apache_beam as beam


class Step(beam.DoFn):
    """A DoFn of Weir's.

    Beam looks for states and timers among the arguments of all methods that ``dir`` names, some ten
    times for each step of a pipeline: a fifth of a short run. Its own methods take none, nor do
    private ones, which it never calls.
    """

    def __dir__(self) -> list[str]:
        own = (kind for kind in type(self).__mro__ if not issubclass(beam.DoFn, kind))
        return sorted({name for kind in own for name in vars(kind) if not name.startswith("_")})
