"""What a replay audit reports: the largest use of each claim, and what is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.audit.replay import SLACK


@dataclass
class ReplayRow:
    """What the worst neighbour changes within a span.

    Attributes:
      what: which releases. ticks: of the span. delta: of the claim, without that of partition
        selection. claimed: of the plan. moved: the largest loss of a pair. paid: of the same pair,
        had each of its calls changed by all that it paid for. change: the pair in words.
    """

    what: str
    ticks: int | None
    epsilon: float
    delta: float
    claimed: PrivacyLoss
    moved: PrivacyLoss
    paid: PrivacyLoss
    change: str = ""

    @property
    def share(self) -> float:
        """Of the claim that is used: of mu, of the root of rho, of pure epsilon."""
        if self.moved.value == 0:
            return 0.0
        ratio = self.moved.value / self.claimed.value if self.claimed.value else math.inf
        return math.sqrt(ratio) if self.claimed.kind == "zcdp" else ratio

    @property
    def broken(self) -> bool:
        """Whether a pair loses more than is claimed."""
        return self.moved.value > self.claimed.value * SLACK

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it; null: infinite."""
        proven, paid = (_epsilon(loss, self.delta) for loss in (self.moved, self.paid))
        return {
            "what": self.what,
            "claimed": _finite(self.epsilon),
            "proven": proven,
            "share": _finite(self.share),
            "recomputed": paid,
            "claimed_loss": {"kind": self.claimed.kind, "value": _finite(self.claimed.value)},
            "ticks": self.ticks,
            "neighbours": self.change,
            "broken": self.broken,
        }


def _epsilon(loss: PrivacyLoss, delta: float) -> float | None:
    """At a delta; None: infinite."""
    return _finite(loss.epsilon(delta)) if delta or loss.kind == "pure" else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@dataclass
class ReplayReport:
    """What a replay audit found.

    Attributes:
      name: of the plan. audits: a row for each span. notes: what differs from the config.
      faults: what is wrong in itself, with the pair that shows it. largest: largest change of
        what a call is given, over its declared sensitivity; of which mechanism; under which pair.
      calls: of one run, by mechanism, noise, scale and sensitivity.
      early: largest chance that a key is released by noise alone. early_claimed: of the plan.
      tried: pairs. seconds: of all.
    """

    name: str
    audits: list[ReplayRow]
    notes: tuple[str, ...]
    early_claimed: float
    faults: dict[str, str] = field(default_factory=dict)
    largest: tuple[float, str, str] = (0.0, "", "")
    calls: list[dict[str, Any]] = field(default_factory=list)
    early: float = 0.0
    tried: int = 0
    seconds: float = 0.0

    @property
    def broken(self) -> tuple[str, ...]:
        """Everything that is wrong, in words."""
        results = [row.what for row in self.audits if row.broken]
        if self.early > self.early_claimed * SLACK:
            results.append("keys are released by their noise more often than delta allows")
        return (*results, *self.faults)

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "name": self.name,
            "audits": [row.to_json() for row in self.audits],
            "largest_ratio": _finite(self.largest[0]),
            "largest_of": self.largest[1],
            "calls": self.calls,
            "early_delta": {"claimed": self.early_claimed, "reached": self.early},
            "tried": self.tried,
            "broken": list(self.broken),
            "faults": [{"what": what, "neighbours": pair} for what, pair in self.faults.items()],
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }
