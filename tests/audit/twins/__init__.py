"""Broken twins: the real thing, sabotaged in a few lines, each of which an audit must catch.

**How a twin is added.** In the room that it belongs to write a generator that patches the real
thing (``patched`` for a name in a module, ``behind`` for the program that runs behind the plan's
back), under ``twin`` with a config under which it hurts and ``catches``, a part of what the audit
then says is broken:

    @twin("noise x 0.7", SUM, "all releases")
    def too_quiet() -> Iterator[None]:
        with behind(lambda program: tampered(program, noise_scale=lambda scale: 0.7 * scale)):
            yield

``test_twins.py`` runs every one at the audit's default number of trials, and every config once
without its twin, when nothing may be found. Twins live in tests only. A twin of a part that the
audit reaches by ``only`` names it: "all releases", "other changes", "bytes". Where the worst change
of a family does not show what is wrong, ``aim`` says which does, to the real thing as well.
"""

from __future__ import annotations

from tests.audit.twins import bounding, channels, discovery, models, noise, presence, reading
from tests.audit.twins.twin import TWINS, Twin, config

ROOMS = (noise, bounding, reading, presence, discovery, models, channels)
"""Importing them registers their twins."""

__all__ = ["ROOMS", "TWINS", "Twin", "config"]
