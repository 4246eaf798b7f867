"""The plan: everything public about a release, and what follows from it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from weir.dpcore.accounting.groupings import noise_words
from weir.dpcore.accounting.guarantee import NO_ASSUMPTIONS, Guarantee, RuntimeAssumptions
from weir.dpcore.accounting.precision import made_of_doubles, refuse_uneven
from weir.dpcore.aggregates.private_keys import found_by
from weir.dpcore.aggregates.program import Aggregates
from weir.dpcore.algorithm import Bias
from weir.dpcore.arrays import Ints
from weir.dpcore.continual.base import canonical_value
from weir.dpcore.discovery.rule import DiscoveryRule
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.leaves.keys import Keys
from weir.dpcore.leaves.lattice import LIMB
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.plan_guarantee import (
    ForEver,
    Grouping,
    caveat,
    for_ever,
    groupings_of,
    guarantee_of,
    left_out,
)
from weir.dpcore.plan_warnings import (
    WeightPrice,
    caps_priced,
    useless_outputs,
    warnings_for,
    weight_prices,
)
from weir.dpcore.pricing.calibration import Alternative, band_of
from weir.dpcore.pricing.choice import loss_json, reason
from weir.dpcore.pricing.noises import must_be_exact
from weir.dpcore.pricing.terms import FAR, LAST
from weir.dpcore.pricing.user_periods import CapPrice
from weir.dpcore.program import CAPACITY, OutputInfo, Program
from weir.dpcore.spaced import compiled
from weir.dpcore.users.unit import UserUnit


@dataclass(frozen=True)
class Plan:
    """Everything public. Reading it reads no data.

    Attributes:
      name: of the release. config: the validated sections. clock, keys: from the config.
      program: what runs. guarantee: what is guaranteed. alternatives: what else was priced.
      own_warnings: what a reader should know before running it; ``warnings`` has more.
      circumstances: what the job adds to the guarantee.
      discovery: when a key is found in private; None: keys are declared, or public.
      facts, notes, biases, doubts: see ``Compiled``, ``left_out``.

        >>> from weir import Plan
        >>> plan = Plan.from_yaml('''
        ... name: visits
        ... schema: {time: at}
        ... clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-08T00:00:00Z}
        ... privacy: {epsilon: 1, delta: 1e-6, protect_for: 2d}
        ... aggregates: {visits: {count: events}}
        ... ''')
        >>> plan.name, plan.algorithm, plan.clock.ticks, plan.guarantee.window
        ('visits', 'aggregates', 7, 2)
    """

    config: PlanConfig
    clock: Clock
    keys: Keys
    program: Program
    guarantee: Guarantee
    alternatives: tuple[Alternative, ...]
    own_warnings: tuple[str, ...]
    circumstances: RuntimeAssumptions = NO_ASSUMPTIONS
    discovery: DiscoveryRule | None = None
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    biases: Mapping[str, Bias] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()

    @classmethod
    def from_config(
        cls, config: PlanConfig, circumstances: RuntimeAssumptions = NO_ASSUMPTIONS
    ) -> Plan:
        """Chooses a mechanism and prices it.

        Args:
          config: the sections. circumstances: what the job adds to the guarantee; see ``under``.

        Raises:
          ConfigError: the config cannot be served.
        """
        if config.lookup is not None and config.lookup.table is None:
            raise ConfigError(
                "lookup.public",
                config.lookup.public,
                "has not been read, and a plan is made of what it says. Make the plan of a job: "
                "weir plan, weir run or weir.release.",
            )
        terms = config.terms()
        keys = config.keys()
        built = compiled(config.algorithm, terms, config.release_every)
        program, alternatives = built.program, built.alternatives
        if program.doubles and must_be_exact(terms):
            raise made_of_doubles(" and ".join(program.doubles))
        share = refuse_uneven(program.sums, terms.epsilon)
        guarantee = guarantee_of(config, terms, program, circumstances)
        warnings = warnings_for(config, guarantee, terms.horizon, built, share)
        rule, notes = None, built.notes
        if isinstance(program, Aggregates):
            rule = found_by(program, terms)
            notes += noise_words(keys.groupings, program.times)
        own = (config, terms.clock, keys, program, guarantee, alternatives, warnings)
        return cls(*own, circumstances, rule, built.facts, notes, built.left_out, built.doubts)

    @classmethod
    def from_yaml(cls, text: str) -> Plan:
        """A plan from the text of a config; sections that shape no plan are passed over."""
        return cls.from_config(PlanConfig.from_yaml(text))

    def under(self, circumstances: RuntimeAssumptions) -> Plan:
        """The same plan with the guarantee that holds under these circumstances.

        Noise, digest and layout stay: circumstances say what the guarantee means, and change
        nothing that is released of the events that count.
        """
        promised = guarantee_of(self.config, self.config.terms(), self.program, circumstances)
        return replace(self, guarantee=promised, circumstances=circumstances)

    def dp_event(self) -> Any:
        """All that the plan releases within the window of an event's arrival, as one event of
        ``dp_accounting``: composed adaptively already.

        Raises:
          ConfigError: keys are found in private, which takes a delta that no event there has.
        """
        if self.discovery is not None:
            result = self.guarantee.delta_sel
            raise ConfigError(
                "key.discover",
                self.discovery.discover.min_users,
                f"takes {result:g} of delta next to the noise, for which dp_accounting has no "
                "event: price plan.program.loss(plan.guarantee.window).dp_event() and add that to "
                "delta, once for each plan and period.",
            )
        return self.program.loss(self.guarantee.window).dp_event()

    @property
    def name(self) -> str:
        """Name of the release."""
        return self.config.name

    @property
    def version(self) -> int:
        """Which defaults it has, and which noise: that of the config, or the newest."""
        return self.config.plan_version

    @property
    def algorithm(self) -> str:
        """What runs: aggregates, or the name of a learner."""
        return self.config.algorithm.name

    @property
    def band(self) -> float:
        """Half the width of a 95 % margin of error of its noise, in standard deviations."""
        return band_of(next((a.noise for a in self.alternatives if a.chosen), "gaussian"))

    @cached_property
    def person(self) -> UserUnit | None:
        """The user as privacy unit, its caps and periods; None: the unit is an event."""
        return self.config.person(self.clock)

    @property
    def where(self) -> str | None:
        """The public predicate."""
        return self.config.where

    @property
    def blocks(self) -> int:
        """Number of blocks of keys."""
        return self.keys.blocks

    def block_keys(self, block: int) -> tuple[bytes, ...]:
        """Declared keys of a block, sorted by bytes."""
        return self.keys.block_keys(block)

    def block_of(self, keys: Sequence[bytes]) -> Ints:
        """Blocks of keys."""
        return self.keys.block_of(keys)

    @cached_property
    def cap_prices(self) -> tuple[CapPrice, ...]:
        """What other contribution bounds would cost in noise; empty where the unit is an event."""
        ticks = self.ticks_to_look_at()
        return caps_priced(self.config, self.program, self.outputs, self.alternatives, ticks)

    @cached_property
    def canonical(self) -> Mapping[str, Any]:
        """Everything that shapes a release, JSON-able: no blocks, no list of keys, no places."""
        clock, privacy, lookup = self.config.clock, self.config.privacy, self.config.lookup
        return {
            "version": self.version,
            "name": self.name,
            "epsilon": privacy.epsilon.hex(),
            "delta": privacy.delta.hex(),
            "unit": self.guarantee.unit,
            "relation": privacy.relation,
            "window": self.guarantee.window,
            "clock": {"once": True} if clock is None else clock.canonical(self.clock),
            "key": self.keys.column,
            **self.keys.shared,
            "where": self.where,
            **({} if lookup is None else {"lookup": lookup.canonical()}),
            "schema": canonical_value(self.config.schema_.shaping),
            "program": self.program.canonical(),
            **({} if self.person is None else {"person": self.person.canonical()}),
            **({} if self.discovery is None else {"discovery": self.discovery.canonical()}),
        }

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of the canonical plan: the noise is a function of it.

        The declared keys are not in it: adding a key must not re-draw the noise of the others,
        which would be an additional release of their data.
        """
        return sha_of(self.canonical)

    @cached_property
    def layout(self) -> str:
        """Hex SHA-256 of (digest, keys, blocks): stored state and result folders belong to it."""
        keys = [key.decode() for key in self.keys.ordered]
        return sha_of([self.digest, self.blocks, self.keys.observed, keys])

    @cached_property
    def groupings(self) -> tuple[Grouping, ...]:
        """What each grouping has of the budget; empty where there is one."""
        return groupings_of(self.config, self.keys, self.program, self.outputs, self.alternatives)

    @cached_property
    def for_ever(self) -> ForEver | None:
        """What the same loss for ever would cost without a protection horizon; None: see there."""
        return for_ever(self.config, self.program, self.outputs, self.alternatives)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know before running it; remedies are priced when it is read."""
        return (*self.own_warnings, *useless_outputs(self.config, self.program))

    @cached_property
    def weight_prices(self) -> tuple[WeightPrice, ...]:
        """What twice the weight of each output would buy; empty where there is one."""
        return weight_prices(self.config, self.program, self.alternatives)

    def ticks_to_look_at(self) -> Ints:
        """Ticks at which worst errors are looked for."""
        last = self.clock.ticks or min(max(FAR, 4 * (self.guarantee.window or 1)), LAST)
        powers = 2 ** np.arange(int(math.log2(last)) + 1) - 1
        return np.union1d(powers, np.linspace(0, last - 1, 401).astype(int)).astype(np.int64)

    @cached_property
    def outputs(self) -> tuple[OutputInfo, ...]:
        """What is released."""
        return self.program.describe(self.ticks_to_look_at())

    def to_json(self, prices: bool = True) -> dict[str, Any]:
        """The fields of ``weir plan --json``.

        prices: those that compare with other plans, which are made for it.
        """
        promise = self.guarantee
        algorithm = self.config.algorithm
        columns = algorithm.columns_read()
        return {
            "name": self.name,
            "version": self.version,
            "digest": self.digest,
            "layout": self.layout,
            "algorithm": algorithm.name,
            "reading": algorithm.reading._asdict(),
            "noun": self.config.schema_.noun,
            "model": None if columns is None else columns._asdict(),
            "guarantee": {
                "epsilon": promise.epsilon,
                "delta": promise.delta,
                "relation": promise.relation,
                "unit": promise.unit,
                "window": promise.window,
                "statement": promise.statement,
                **({} if self.discovery is None else {"delta_sel": promise.delta_sel}),
            },
            "expiration": [
                {**vars(row), "epsilon": finite(row.epsilon)} for row in promise.expiration
            ],
            "id_horizon": self.circumstances.id_horizon,
            "id_shards": self.circumstances.id_shards,
            "copies": [{**vars(row), "epsilon": finite(row.epsilon)} for row in promise.copies],
            **({"for_ever": self.for_ever and self.for_ever._asdict()} if prices else {}),
            "user": self._user_json(prices),
            "releases": [
                {
                    "name": out.name,
                    "over": out.over,
                    "dimension": out.dimension,
                    "sensitivity": out.sensitivity,
                    "stddev_worst": finite(out.stddev_worst),
                    "labels": list(out.labels),
                    "sparse": out.sparse,
                    "interval": out.interval,
                    "additive": out.additive,
                    **algorithm.shown(out.name)._asdict(),
                    "left_out": self.left_out(out.name),
                    "caveat": self.caveat(out.name),
                    "below": self.biases.get(out.name, Bias()).below,
                }
                for out in self.outputs
            ],
            "alternatives": [
                {
                    "mechanism": a.mechanism,
                    "noise": a.noise,
                    "chosen": a.chosen,
                    "score": finite(a.score),
                    "state_bytes_per_key": a.state_bytes,
                    "epsilon_10w": None if a.epsilon_10w is None else finite(a.epsilon_10w),
                    "loss": loss_json(a.loss),
                    "stddev_worst": a.stddev,
                    "note": a.note,
                }
                for a in self.alternatives
            ],
            "choice": reason(self.alternatives, self.config.terms()),
            "state_bytes_per_key": self.program.state_bytes(),
            "keys": None if self.keys.observed else len(self.keys.declared),
            "blocks": self.blocks,
            "ticks": self.clock.ticks,
            "clock": dict(self.canonical["clock"]),
            "warnings": list(self.warnings),
            "canonical": self.canonical,
            **({} if self.discovery is None else {"discovery": dict(self.discovery.told())}),
            **(
                {"groupings": [grouping._asdict() for grouping in self.groupings]}
                if self.groupings
                else {}
            ),
        }

    def caveat(self, output: str) -> str:
        """What is known of what is left out; see ``caveat``."""
        return caveat(output, self.config, self.person, self.biases.get(output, Bias()))

    def bias_words(self, output: str) -> str:
        """What is left out, and what is known of it."""
        return ". ".join(filter(None, [self.left_out(output), self.caveat(output)]))

    def left_out(self, output: str) -> str:
        """What public bounds keep out of a release, as a clause; "": nothing. No margin of error
        covers it."""
        return left_out(self.config, self.person, self.biases.get(output, Bias()))

    def _repr_html_(self) -> str:
        """For notebooks."""
        from weir.dpcore.plan_html import plan_html  # a plan in the terminal does without

        return plan_html(self.to_json())

    def _user_json(self, prices: bool) -> dict[str, Any] | None:
        """What is guaranteed to users, and what their caps cost; None: the unit is an event."""
        if self.person is None:
            return None
        promise = self.guarantee
        return {
            **self.person.canonical(),
            "period_ticks": self.person.periods.longest,
            "event_epsilon": promise.event,
            "delta_sel": promise.delta_sel,
            "periods": [row.to_json() for row in promise.together],
            "every_period": promise.every_period and promise.every_period.to_json(),
            **({"cap_prices": [vars(price).copy() for price in self.cap_prices]} if prices else {}),
        }


def sha_of(value: Any) -> str:
    """Hex SHA-256 of a JSON-able value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def finite(value: float) -> float | None:
    """JSON has no infinity: None means no bound."""
    return value if math.isfinite(value) else None


assert CAPACITY.bit_length() - 1 + 21 < LIMB
