"""Nothing is released from bounded input of which no record fits the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from weir.transforms.decode.first_look import Evidence, FirstLook
from weir.transforms.decode.first_look_words import Place, refusal
from weir.transforms.decode.python_events import ALLOWED

EVENTS = Place("events", "...", "events", f"give {ALLOWED}")


class Refuse(beam.DoFn):
    """Releases pass, unless what was seen of all events leaves a doubt: then the job fails."""

    def __init__(self, look: FirstLook) -> None:
        self._look = look

    def process(self, release: Any, seen: Evidence) -> Iterator[Any]:
        """Raises ConfigError: what none of the events has, and the remedy."""
        doubts = self._look.doubts(seen)
        if doubts:
            error = refusal(self._look, seen, doubts, EVENTS)
            # Beam's own mark: it leaves the text of such an error alone.
            error._tagged_with_step = True  # type: ignore[attr-defined]  # Beam sets it, too
            raise error
        yield release


class Gate(beam.PTransform[Any, Any]):
    """Holds releases until all events were looked at; the types of batches stay.

    Args:
      look: which looked. seen: PCollection of Evidence.
    """

    def __init__(self, look: FirstLook, seen: Any) -> None:
        super().__init__()
        self._look, self._seen = look, seen

    def expand(self, releases: Any) -> Any:
        """Sum, Refuse."""
        total = self._seen | "Sum" >> beam.CombineGlobally(_sum).with_output_types(Evidence)
        return releases | "Refuse" >> beam.ParDo(
            Refuse(self._look), AsSingleton(total)
        ).with_output_types(releases.element_type)


def _sum(found: Iterable[Evidence]) -> Evidence:
    return sum(found, Evidence())
