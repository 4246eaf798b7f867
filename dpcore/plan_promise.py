"""The promise of a plan: what its program keeps, in numbers and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from weir.dpcore.accounting.circumstances import NONE, Circumstances
from weir.dpcore.accounting.groupings import of_one
from weir.dpcore.accounting.guarantee import Copies, Expiration, Guarantee
from weir.dpcore.accounting.statement import statement
from weir.dpcore.accounting.user_statement import user_statement
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.keys import Keys, grouping_of
from weir.dpcore.plan_config import PlanConfig
from weir.dpcore.pricing.price import Alternative
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.pricing.together import every_period, together
from weir.dpcore.program import OutputInfo, Program
from weir.dpcore.spaced import compiled

COPIES = (2, 10)
"""Copies of one id whose common loss is told where ids are forgotten."""


def guarantee_of(
    config: PlanConfig, terms: Terms, program: Program, circumstances: Circumstances = NONE
) -> Guarantee:
    """The promise that the program keeps; never weaker than what the config asks.

    Where the unit is a user, windows begin with the last tick of their period, and what finding
    keys spends of delta comes on top of the noise's.

    Raises:
      ConfigError: the program's loss exceeds the budget (a defect, caught before anything runs).
    """
    window, delta = terms.lasting, terms.delta
    promised = delta + terms.delta_sel  # finding keys adds its own, at every epsilon
    loss = program.loss(window)
    spent = loss.epsilon(delta)
    if spent > terms.epsilon * (1 + 1e-9):
        raise ConfigError(
            "privacy.epsilon", terms.epsilon, f"would be overspent by this plan ({spent:.6g})."
        )
    rows: list[Expiration] = []
    if window is None:
        rows.append(Expiration(None, spent, promised))
    else:
        for times in (1, 2, 10, 100):
            after = program.loss(times * window).epsilon(delta)
            rows.append(Expiration(times * window, after, promised))
    keys_public = config.key is not None and config.key.observed_keys_are_public
    told = Guarantee(
        terms.epsilon, promised, terms.unit, terms.relation, window, tuple(rows), "", (),
        delta_sel=terms.delta_sel,
    )  # fmt: skip
    if terms.person is not None:
        event = program.loss_of_event(window).epsilon(delta)
        told = replace(
            told,
            together=together(program, terms),
            every_period=every_period(program, terms),
            event=event,
        )
        text = user_statement(
            told,
            terms.person.pattern,
            terms.person.caps.events,
            terms.person.periods.words,
            terms.horizon,
            adaptive=bool(program.sums) and all(part.adaptive for part in program.sums),
            keys_public=keys_public,
            min_users=None if terms.discover is None else terms.discover.min_users,
            circumstances=circumstances,
        )
        return replace(told, statement=text)
    has_id = config.schema_.id is not None
    copies: tuple[Copies, ...] = ()
    if has_id and circumstances.id_horizon is not None:
        copies = tuple(
            Copies(count, loss.of_group(count).epsilon(delta), delta) for count in COPIES
        )
    text = statement(
        terms.relation,
        window,
        terms.epsilon,
        promised,
        tuple(rows),
        has_id=has_id,
        keys_public=keys_public,
        horizon=terms.horizon,
        has_key=config.key is not None,
        has_unit=config.schema_.unit is not None,
        circumstances=circumstances,
        copies=copies,
        groupings=terms.groupings,
    )
    return replace(told, statement=text, copies=copies)


class Grouping(NamedTuple):
    """What one of several groupings has of the budget.

    Attributes:
      columns: that it groups by; (): the total of all keys. keys: how many are known; None: they
        are observed.
      share: of mu^2 (rho, epsilon). epsilon: against its releases alone, within the window.
      noise: of its releases, over what they would have with the budget to themselves.
    """

    columns: tuple[str, ...]
    keys: int | None
    share: float
    epsilon: float
    noise: float


def groupings_of(
    config: PlanConfig,
    keys: Keys,
    program: Program,
    outputs: Iterable[OutputInfo],
    alternatives: Iterable[Alternative],
) -> tuple[Grouping, ...]:
    """Shares of several groupings, by the mechanism that was chosen; empty where there is one."""
    if not keys.groups:
        return ()
    terms, count = config.terms(), len(keys.groups)
    chosen = next((one for one in alternatives if one.chosen), None)
    alone = replace(terms, groupings=1, noise=None if chosen is None else chosen.noise)
    single = compiled(config.algorithm, alone, config.release_every).program
    pairs = zip(outputs, single.describe(np.asarray(terms.ticks())), strict=True)
    noise = max((a.stddev_worst / b.stddev_worst for a, b in pairs if b.stddev_worst), default=1.0)
    epsilon = of_one(program.loss(terms.lasting), count).epsilon(terms.delta)
    found = Counter(map(grouping_of, keys.declared))
    sizes = [found[tuple(i in own for i in range(len(keys.columns)))] for own in keys.groups]
    return tuple(
        Grouping(columns, None if keys.observed else size, 1 / count, epsilon, noise)
        for columns, size in zip(keys.groupings, sizes, strict=True)
    )
