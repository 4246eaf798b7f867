"""The terms of a release: all that an algorithm gets in addition its own section of the config."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir.dpcore.accounting.groupings import KeyGroupings
from weir.dpcore.accounting.guarantee import Relation
from weir.dpcore.arrays import Ints
from weir.dpcore.config.key import DiscoverConfig
from weir.dpcore.config.schema import PLAN_VERSION
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.users.unit import UserUnit

FAR = 1 << 20
"""Without an end, errors are compared up to this tick (or four windows, whichever is later)."""


LAST = (1 << 40) - 1
"""But not beyond what a clock without end is served for."""


@dataclass(frozen=True)
class Terms:
    """What is guaranteed, over which clock, and what the user fixed of the mechanism. Public.

    Attributes:
      epsilon, delta: the budget of the noise within the window. relation: which neighbours. unit:
        what they differ in.
      window: protection horizon in ticks; None: for ever. clock: the release clock.
      may_vanish: whether another payload may filter an event out, or make it late.
      has_id: whether events have ids.
      continual_sum: the mechanism for running sums that the user named. noise: the one named.
      declared: whether the config names the mechanism or the noise: what it releases then does not
        follow new defaults.
      pure: whether pure noise is priced where delta is above 0.
      options: what else the user fixed of the mechanism (buffers, gamma), passed to ``calibrated``.
      events: that a key is expected to have in a tick; None: nobody said. No bound follows from it.
      version: of the plan. A default that differs between versions is chosen by it.
      person: the user as privacy unit: caps and periods; None: the unit is an event.
      users: the same of users, where they are the unit.
      delta_sel: what finding keys spends of the guarantee's delta in addition ``delta``, for one
      unit
        and under the relation; 0: no key is found in private.
      discover: how keys are found in private; None: they are not.
      groupings: in how many keys each event counts, one of each grouping.
      groups: these, where the unit is a user or their noise differs; None: an event moves the same
        in each.
      known_keys: keys that there are; None: any number.
      compare: whether mechanisms that cannot be chosen are priced too, to be shown.
    """

    epsilon: float
    delta: float
    relation: Relation
    unit: str
    window: int | None
    clock: Clock
    may_vanish: bool = True
    has_id: bool = False
    continual_sum: str | None = None
    noise: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    events: float | None = None
    version: int = PLAN_VERSION
    person: UserUnit | None = None
    users: float | None = None
    delta_sel: float = 0.0
    discover: DiscoverConfig | None = None
    groupings: int = 1
    groups: KeyGroupings | None = None
    pure: bool = True
    declared: bool = False
    known_keys: int | None = None
    compare: bool = True

    def written(self, error: ConfigError) -> ConfigError:
        """An error with the value of epsilon or delta in the config: what finds that it leaves too
        little knows only the budget that it became."""
        delta = float(f"{self.delta + self.delta_sel:.12g}")
        values = {"privacy.epsilon": self.epsilon, "privacy.delta": delta}
        if error.field not in values:
            return error
        return type(error)(error.field, values[error.field], error.remedy)

    @property
    def horizon(self) -> int | None:
        """Ticks of the clock; None: no end."""
        return self.clock.ticks

    @property
    def cell_relation(self) -> Relation:
        """The relation under which the sensitivity of one cell is taken.

        A user's cell is there or not; that another relation has other users' periods in its place
        is charged on the whole (``factor``), not a cell at a time.
        """
        return self.relation if self.person is None else "add_remove"

    @property
    def factor(self) -> int:
        """Periods of a user that two neighbours differ in: 2 where one is replaced by another."""
        return 2 if self.person is not None and self.relation == "replace_one" else 1

    @property
    def lasting(self) -> int | None:
        """The window; None where it covers the whole clock, after which nothing is released, or
        would begin with the last tick of a period that has none."""
        if self.person is not None and self.person.periods.longest is None:
            return None
        if self.window is not None and self.horizon is not None and self.window >= self.horizon:
            return None
        return self.window

    def ticks(self) -> Ints:
        """Where worst errors are looked for: all ticks of a short clock, a spread of a long one."""
        last = self.horizon or min(max(FAR, 4 * (self.window or 1)), LAST)
        if last <= 2048:
            return np.arange(last, dtype=np.int64)
        powers = 2 ** np.arange(int(math.log2(last)) + 1, dtype=np.int64)
        some = [powers - 2, powers - 1, powers, np.linspace(0, last - 1, 401).astype(np.int64)]
        spread = np.concatenate([*some, [last - 1]])
        return np.unique(spread[(spread >= 0) & (spread < last)])


def events_of(terms: Terms) -> int:
    """Events of the unit in a cell."""
    return 1 if terms.person is None else terms.person.caps.events
