"""The budget of a run: asked for before anything is submitted, closed when the job is over."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.pipelines.connectors.paths import resolved
from weir.pipelines.graph.parts import Parts
from weir.pipelines.ledger.entries import OutputPlace, RunIdentity, noted_in, plan_in
from weir.pipelines.ledger.reservations import (
    ChargeRequest,
    Reservation,
    key_of,
    refuse_full,
    reserve,
)
from weir.transforms.runtime.secret import SecretRef, mark_of
from weir.transforms.runtime.stream_time import PRESENT

_log = logging.getLogger(__name__)
DATAFLOW = "dataflow"
"""State that the service keeps: it is in no folder."""


@dataclass(frozen=True)
class Spent:
    """What a run has entered.

    Attributes:
      parts: what is to run: the job, of the very events and secrets that are entered.
      spending: the entry; None: the config names no ledger.
    """

    parts: Parts
    spending: Reservation | None = None

    @property
    def facts(self) -> dict[str, Any] | None:
        """How the budget stands with the run, JSON-able."""
        return None if self.spending is None else self.spending.facts()

    def start(self) -> None:
        """Right before the job is submitted: says so in the ledger, and next to results and state.

        Raises:
          ConfigError: the entry is another run's by now.
        """
        if self.spending is not None:
            self.parts.sink.note("ledger", self.spending.facts())
            from weir.pipelines.results import plan_file

            if self.parts.streaming and plan_in(self.parts.state) is not None:
                plan_file.note(self.parts.state, "ledger", self.spending.facts())
            self.spending.begin()

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


def resumes(runner: str, flags: Sequence[str], resume: str | None) -> bool:
    """Whether a stream goes on from what a job before it stored.

    Args:
      flags: options for Beam. resume: of a target on Flink.
    """
    if runner == "dataflow":
        return any(flag.partition("=")[0] == "--update" for flag in flags)
    return runner == "flink" and resume is not None


@contextlib.contextmanager
def entered(
    parts: Parts, rehearsal: bool = False, runner: str = "direct", resumed: bool = False
) -> Iterator[Spent]:
    """Enters a run in its ledger. One that is refused before it was submitted gives it back.

    Args:
      resumed: see ``resumes``.

    Raises:
      ConfigError: there is no room, the ledger or a secret cannot be read, or the secret was used
        for other events.
    """
    ledger = parts.ledger
    if ledger is None or rehearsal:
        yield Spent(parts)
        return
    marks = {tick: mark_of(_resolved(secret)) for tick, secret in parts.secrets}
    place = OutputPlace.of(parts.sink)
    state = DATAFLOW if runner == DATAFLOW else resolved(parts.state)
    run = RunIdentity(
        marks,
        place,
        state=state if parts.streaming else None,
        bounded=not parts.streaming,
        live=parts.streaming and parts.source.stream == PRESENT,
        resumed=parts.streaming and resumed,
    )
    asking = ChargeRequest(parts.plan, run, noted_in(place))
    refuse_full(ledger, asking)
    asking, parts = _looked_at(parts, asking, *key_of(ledger))
    spending = reserve(ledger, asking)
    try:
        yield Spent(parts, spending)
    except BaseException:
        with contextlib.suppress(ConfigError):  # then it stays spent
            spending.give_back()
        raise


def _looked_at(
    parts: Parts, asking: ChargeRequest, mark: str, key: bytes
) -> tuple[ChargeRequest, Parts]:
    """The request with its events, and the job that reads those and draws with those secrets."""
    events, source = parts.source.seal(key)
    run = replace(asking.run, events=events)
    if run.bounded and events is not None:
        run = replace(run, key=mark, reading=_reading(parts))
    secrets = tuple((tick, ref.pinned(run.secrets[tick])) for tick, ref in parts.secrets)
    return replace(asking, run=run), replace(parts, source=source, secrets=secrets)


def _reading(parts: Parts) -> str:
    """Digest of how the events are read, as far as the plan does not say it.

    Which keys are declared decides which events of a user the caps keep, and which copy of an id
    counts. Elsewhere a key more changes nothing of the others.
    """
    settings = parts.source.reading(parts.limits)
    if parts.plan.person is not None or parts.plan.config.schema_.id is not None:
        settings["keys"] = [key.hex() for key in parts.plan.keys.ordered]
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _resolved(secret: SecretRef) -> bytes:
    """A secret of the run.

    Raises:
      ConfigError: it cannot be read here.
    """
    try:
        return secret.resolve()
    except ConfigError as error:
        raise ConfigError(
            "secret",
            "(not shown)",
            f"cannot be read on this machine, and the ledger knows a run by it ({error}). Start "
            "the job where every secret of it can be read.",
        ) from None


__all__ = ["Spent", "entered", "resumes"]
