"""What ``weir predict`` tells people."""

from __future__ import annotations

from collections.abc import Iterator

from weir.pipelines.predict.predict import Done


def lines(done: Done) -> Iterator[str]:
    """A line for each fact."""
    tally = done.tally
    yield f"{done.out}: {tally.predicted:,} of {tally.events:,} events"
    yield f"  with models of tick {done.tick:,}"
    if tally.no_model:
        yield f"  {tally.no_model:,} of keys without a model"
    if tally.no_features:
        yield f"  {tally.no_features:,} that lack a feature"
    if tally.accuracy is not None:
        yield f"  {tally.accuracy:.2%} of {tally.known:,} known classes are right"
    for target, value in tally.r2().items():
        yield f"  R² of {target}: {value:.4f}"
