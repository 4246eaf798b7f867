"""What is said of estimates wherever they are shown."""

from __future__ import annotations

WHAT = (
    "Estimated from the releases alone, by a model of how such figures move. It is not the "
    "release; epsilon does not change. Its interval held about 95 % of the time on the series it "
    "was tried on; right after a sudden change it often misses, the release's margin does not. "
    "Never feed estimates back as data, add them up, or take them as independent of the release."
)
SURPRISE = (
    "Release and estimate are further apart than the noise explains: a sudden change, or one of "
    "the 4 to 5 % of ticks at which this happens by chance. Read the release."
)
