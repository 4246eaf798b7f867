"""The promise of a plan: what its program keeps, in numbers and in words."""

from __future__ import annotations

from dataclasses import replace

from dpcore.accounting.circumstances import NONE, Circumstances
from dpcore.accounting.guarantee import Copies, Expiration, Guarantee
from dpcore.accounting.statement import statement
from dpcore.accounting.user_statement import user_statement
from dpcore.errors import ConfigError
from dpcore.plan_config import PlanConfig
from dpcore.pricing.terms import Terms
from dpcore.pricing.together import one_event, together
from dpcore.program import Program

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
        event = one_event(program, window).epsilon(delta)
        told = replace(told, together=together(program, terms), event=event)
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
    )
    return replace(told, statement=text, copies=copies)
