"""What sections of a config must say together; each is checked by itself before."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from weir.dpcore.accounting.groupings import KeyGroupings
from weir.dpcore.aggregates.aggregate import Aggregate
from weir.dpcore.config.key import Key
from weir.dpcore.config.privacy import Privacy
from weir.dpcore.config.schema import DryRun, Schema
from weir.dpcore.config.section import refusal


def check_columns(key: Key, schema: Schema) -> None:
    """Raises where a key of several columns is grouped by a time or an id."""
    time = None if schema.time is None else schema.time.column
    taken = {time: "schema.time", schema.id: "schema.id"}
    for name in key.columns or ():
        if name in taken:
            raise refusal(
                "key.columns",
                name,
                f"is the column of {taken[name]} too; group by another column.",
            )


def check_groups(
    key: Key, privacy: Privacy, has_model: bool, aggregates: Mapping[str, Aggregate]
) -> None:
    """Raises where several groupings are asked for and that cannot be served."""
    if key.groups is None:
        return
    asked = [list(own) for own in key.groups]
    if has_model:
        raise refusal(
            "key.groups",
            asked,
            "is for aggregates; give each grouping of models a plan of its own.",
        )
    for name, aggregate in aggregates.items():
        if aggregate.distinct:
            raise refusal(
                "key.groups",
                asked,
                f"cannot be combined with aggregates.{name}: what distinct users of several ticks "
                "move in several groupings at once is not known. Count users with over: 1 or per: "
                "period, or give them a plan with one grouping.",
            )
        if getattr(aggregate, "at", None) == "events":
            raise refusal(
                f"aggregates.{name}.at",
                "events",
                "is of one key's bound, and key.groups has coarser keys in which several bounds "
                "meet; remove it, or give it a plan with one grouping.",
            )
    discover = key.discover
    if discover is None:
        return
    if key.weights is not None:
        raise refusal(
            "key.weights",
            [*key.weights],
            "cannot be combined with key.discover, where all groupings have the same noise; "
            "remove it, or list the keys (key.declared).",
        )
    if discover.sample < 1:
        raise refusal(
            "key.discover.sample",
            discover.sample,
            "would leave out totals as well as keys; remove it, or key.groups.",
        )


def check_users(
    privacy: Privacy, schema: Schema, users: float | None, all_ticks: bool = False
) -> None:
    """Raises where users are spoken of and are not the unit, or nothing says who they are.

    Args:
      users: that are expected. all_ticks: whether a bound on ticks may be left out.
    """
    if privacy.unit != "user":
        if users is not None:
            raise refusal(
                "expect.users", users, "belongs to privacy.unit: user; set it, or remove this."
            )
        return
    if schema.unit is None:
        raise refusal(
            "schema.unit",
            None,
            "is missing: privacy.unit: user needs the column that says whom an event belongs to.",
        )
    caps = privacy.contributions
    if caps is None or caps.ticks is not None:
        return
    if not all_ticks:
        raise refusal(
            "privacy.contributions.ticks",
            None,
            "is missing; write ticks: 8, the most ticks of a period in which a user counts. Only "
            "{count: users, over: N} of several ticks can do without.",
        )
    if privacy.per == "all":
        raise refusal(
            "privacy.contributions.ticks",
            None,
            "is missing, and privacy.per: all has no last tick; write ticks: 365, or a period like "
            "per: 30d.",
        )


def check_order(privacy: Privacy, once: bool) -> None:
    """Raises where an order of time is asked for and rows have no time.

    Args:
      once: whether there is no clock.
    """
    order = None if privacy.contributions is None else privacy.contributions.order
    if once and order == "time":
        raise refusal(
            "privacy.contributions.order",
            order,
            "needs a clock, and this config has none: rows without a time stay by keyed hashes. "
            "Remove it, or add a clock.",
        )


def check_dry_run(dry_run: DryRun, aggregates: Mapping[str, Aggregate]) -> None:
    """Raises where a share of a dry run is of no output whose bounds only take away."""
    fitting = [name for name, item in aggregates.items() if item.left_out.below is not None]
    for name, share in dry_run.lost.items():
        if name not in fitting:
            known = " or ".join(fitting) or "none here"
            raise refusal(
                f"dry_run.lost.{name}",
                share,
                "is of no count, and of no sum with a clip from 0 on, of this config; name such an "
                f"output ({known}), or remove it.",
            )


def check_discovery(key: Key, privacy: Privacy, has_model: bool, every: int | None) -> None:
    """Raises where keys are to be found in private and that cannot be served.

    Args:
      every: ticks from one release to the next.
    """
    if key.discover is None:
        return
    asked = key.discover.model_dump(exclude_defaults=True)
    if privacy.unit != "user":
        raise refusal(
            "key.discover",
            asked,
            "counts the users of each key, and this plan protects events; set privacy.unit: user "
            "with privacy.per and privacy.contributions, or list the keys (key.declared).",
        )
    if privacy.delta == 0:
        raise refusal(
            "privacy.delta",
            0.0,
            "must be above 0 where keys are discovered: a user alone at a key is found with a "
            "small chance, however little the noise tells; set 1e-6, or list the keys.",
        )
    if has_model:
        raise refusal(
            "key.discover",
            asked,
            "is for aggregates; models need their keys listed (key.declared).",
        )
    if every is not None:
        raise refusal(
            "release_every",
            every,
            "cannot be combined with key.discover, which looks at every tick; remove it, or take a "
            "longer clock.period.",
        )
    if key.discover.retire is not None and privacy.per == "all":
        raise refusal(
            "key.discover.retire",
            key.discover.retire.model_dump(),
            "is for the end of a period, and privacy.per: all has one without end; say a shorter "
            "one, like 30d, or leave it out.",
        )


def groups_of(
    key: Key | None, privacy: Privacy, aggregates: Mapping[str, Aggregate]
) -> KeyGroupings | None:
    """Groupings of users, or of which the noise differs; None: there is one, or all are alike."""
    caps = privacy.contributions
    if key is None or key.groups is None or (caps is None and key.weights is None):
        return None
    named = tuple(tuple(name in own for name in key.names) for own in key.groups)
    listed = None
    if key.declared is not None:
        combinations = [(item,) if isinstance(item, str) else item for item in key.declared]
        listed = [
            [tuple(itertools.compress(values, row)) for values in combinations] for row in named
        ]
    once = all(item.of_users is not None for item in aggregates.values())
    shape = (key.weights, 1 if caps is None else caps.keys, once, key.discover is not None)
    return KeyGroupings.of(named, listed, *shape)


def with_relation(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A config that is not yet checked: a model's neighbours differ in one payload, unless it says
    otherwise or speaks of users."""
    privacy = data.get("privacy")
    if data.get("model") is None or _unit_of(privacy) == "user":
        return data
    if isinstance(privacy, Privacy) and "relation" not in privacy.model_fields_set:
        return {**data, "privacy": privacy.model_copy(update={"relation": "replace_one"})}
    if isinstance(privacy, Mapping) and "relation" not in privacy:
        return {**data, "privacy": {**privacy, "relation": "replace_one"}}
    return data


def _unit_of(privacy: Any) -> Any:
    """The unit of a section that is not yet checked."""
    if isinstance(privacy, Privacy):
        return privacy.unit
    return privacy.get("unit") if isinstance(privacy, Mapping) else None
