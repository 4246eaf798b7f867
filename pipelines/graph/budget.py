"""The budget of a run: asked for before anything is submitted, closed when the job is over."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.pipelines.graph.parts import Parts
from weir.pipelines.ledger.desk import Asking, Spending, mark_of, reserve
from weir.pipelines.ledger.places import Place, noted_in, plan_in

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Spent:
    """What a run has entered; nothing where the config names no ledger."""

    spending: Spending | None = None

    @property
    def facts(self) -> dict[str, Any] | None:
        """How the budget stands with the run, JSON-able."""
        return None if self.spending is None else self.spending.facts()

    def start(self, parts: Parts) -> None:
        """Right before the job is submitted: says so in the ledger, and beside results and state.

        Raises:
          ConfigError: the entry is another run's by now.
        """
        if self.spending is not None:
            parts.sink.note("ledger", self.spending.facts())
            from weir.pipelines.results import plan_file

            if parts.streaming and plan_in(parts.state) is not None:
                plan_file.note(parts.state, "ledger", self.spending.facts())
            self.spending.run()

    def over(self) -> None:
        """The job is over: nothing more will be released. Who cannot say so has spent it anyway."""
        if self.spending is None:
            return
        try:
            self.spending.close()
        except ConfigError as error:
            _log.warning(
                "%s The run is well, and its entry %s stays open: weir ledger close says that it "
                "is over.",
                error,
                self.spending.entry,
            )


@contextlib.contextmanager
def entered(parts: Parts, rehearsal: bool = False) -> Iterator[Spent]:
    """Enters a run in its ledger. One that is refused before it was submitted gives it back.

    Raises:
      ConfigError: there is no room, or the ledger or the secret cannot be read.
    """
    if parts.ledger is None or rehearsal:
        yield Spent()
        return
    try:
        secret = parts.secret.resolve()
    except ConfigError as error:
        raise ConfigError(
            "secret",
            "(not shown)",
            f"cannot be read on this machine, and the ledger knows a run by it ({error}). Start "
            "the job where the secret can be read.",
        ) from None
    fresh = parts.secret.is_fresh
    source = None if fresh else parts.source.seal(secret)
    place = Place.of(parts.sink)
    asking = Asking(parts.plan, mark_of(secret), place, source, noted_in(place))
    spending = reserve(parts.ledger, asking)
    try:
        yield Spent(spending)
    except BaseException:
        with contextlib.suppress(ConfigError):  # then it stays spent
            spending.give_back()
        raise
