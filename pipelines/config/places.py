"""Places of a job that must lie apart."""

from __future__ import annotations

from weir.dpcore.errors import ConfigError
from weir.pipelines.connectors.paths import is_inside
from weir.pipelines.sinks.dead_letters import DeadLetters
from weir.pipelines.sinks.sink import Sink


def refuse_mixed(letters: DeadLetters | None, sink: Sink | None) -> None:
    """Refuses dead letters in the folder of the releases, and releases in that of dead letters.

    Raises:
      ConfigError: names ``dead_letters.<format>``.
    """
    if letters is None or sink is None or letters.place is None or sink.place is None:
        return
    if is_inside(letters.place, sink.place):
        how = "is or lies in the folder of the releases"
    elif is_inside(sink.place, letters.place):
        how = "holds the folder of the releases"
    else:
        return
    raise ConfigError(
        letters.field,
        letters.place,
        f"{how} ({sink.field} = {sink.place!r}), and only operators may see dead letters: give "
        "them a folder of their own beside it.",
    )


__all__ = ["refuse_mixed"]
