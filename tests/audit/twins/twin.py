"""What a broken twin is: a sabotage, a config under which it hurts, and how it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from weir.dpcore.audit.changes import Placed, UnitChange
from weir.dpcore.plan import Plan
from weir.pipelines.audit import attack as attacking
from weir.pipelines.audit import trial as once
from weir.pipelines.audit.attack import Report, attack
from weir.pipelines.audit.choice import Choice
from weir.pipelines.config.job import loads

Program = Any
Context = AbstractContextManager[None]


def config(
    body: str = "aggregates: {s: {sum: v, clip: [-10, 10]}}",
    mechanism: str = "{continual_sum: blt, noise: gaussian}",
    relation: str = "add_remove",
    ticks: int = 6,
    window: int | str = 4,
    epsilon: float = 4.0,
    delta: float = 1e-3,
    form: str = "ndjson",
    schema: str = "{time: at}",
) -> str:
    """A config of one small stream; no file of it exists."""
    end = np.datetime_as_string(np.datetime64("2020-01-01") + ticks)
    lasting = window if window == "all" else f"{window} ticks"
    named = f"mechanism: {mechanism}\n" if mechanism else ""
    return f"""
name: twin
source: {{{form}: nowhere/events.{form}}}
schema: {schema}
key: {{column: k, declared: [north, south]}}
clock: {{start: 2020-01-01T00:00:00Z, period: 1d, end: {end}T00:00:00Z}}
privacy: {{epsilon: {epsilon}, delta: {delta}, protect_for: {lasting}, relation: {relation}}}
{named}{body}
secret: {{file: nowhere/secret.key}}
sink: {{parquet: nowhere/out}}
"""


SUM = config()
TREE = config(mechanism="{continual_sum: tree, noise: gaussian}", window=6)
REPLACED = config(relation="replace_one")
CSV = config(form="csv")
IDS = config(schema="{time: at, id: id}")


@dataclass(frozen=True)
class Aim:
    """A change that shows what is wrong, where the worst of a family does not.

    Attributes:
      here, there: events of a trial with the change and without. behind: events of every trial.
      slots: keys of a trial. whole: whether the changed events are those of one user.
    """

    here: tuple[Placed, ...]
    there: tuple[Placed, ...] = ()
    behind: tuple[Placed, ...] = ()
    slots: int = 1
    whole: bool = False

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Inside, audits make this change and no other."""
        change = UnitChange("aimed at", self.here, self.there, self.slots, self.whole)

        def worst(self: Choice, spans: Sequence[int | None]) -> list[UnitChange]:
            return [change] * len(spans)

        behind = self.behind
        with (
            patch.object(attacking, "needs_search", lambda choice: False),
            patch.object(Choice, "worst", worst),
            patch.object(Choice, "background", property(lambda self: behind)),
            patch.object(Choice, "slotted", lambda self, change: behind),
        ):
            yield


@dataclass(frozen=True)
class Twin:
    """A sabotage that an audit must catch.

    Attributes:
      name: what is wrong. sabotage: makes it so inside. config: under which it hurts. only: the
        audit that must see it. catches: part of what is then broken; "": as ``only``.
      aim: what neighbours differ in; None: what the audit finds worst. short: trials that are
        enough in the suite; None: the audit's default.
    """

    name: str
    sabotage: Callable[[], Context]
    config: str
    only: str
    catches: str = ""
    aim: Aim | None = None
    short: int | None = None

    def attacked(self, sound: bool = False, trials: int | None = None) -> Report:
        """What an audit finds; ``sound``: without the sabotage; ``trials``: None: by default."""
        aimed = self.aim.taken() if self.aim else nullcontext()
        with aimed, nullcontext() if sound else self.sabotage():
            return attack(loads(self.config), trials=trials, only=self.only)

    def caught(self, report: Report) -> tuple[str, ...]:
        """What of a report says that it is broken as it is."""
        return tuple(words for words in report.broken if (self.catches or self.only) in words)


TWINS: list[Twin] = []


def twin(
    name: str,
    text: str,
    only: str,
    catches: str = "",
    aim: Aim | None = None,
    short: int | None = None,
) -> Callable[..., Any]:
    """Registers a generator function as the sabotage of a twin."""

    def register(function: Callable[[], Iterator[None]]) -> Callable[[], Any]:
        made = contextmanager(function)
        TWINS.append(Twin(name, made, text, only, catches, aim, short))
        return made

    return register


@contextmanager
def patched(target: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """``module.name`` (or ``module.Class.name``) as ``change`` makes it of what it was."""
    import importlib

    module, _, name = target.rpartition(".")
    try:
        owner: Any = importlib.import_module(module)
    except ModuleNotFoundError:
        above, _, cls = module.rpartition(".")
        owner = getattr(importlib.import_module(above), cls)
    with patch.object(owner, name, change(getattr(owner, name))):
        yield


@contextmanager
def behind(change: Callable[[Program], Program]) -> Iterator[None]:
    """Another program runs than the plan tells of; the claim stays."""
    right = once.parts_of

    def wrong(*args: Any, **named: Any) -> Any:
        parts = right(*args, **named)
        return replace(parts, plan=replace(parts.plan, program=change(parts.plan.program)))

    with patch.object(once, "parts_of", wrong):
        yield


def programs_of(text: str) -> Program:
    """The program of another config."""
    return Plan.from_config(loads(text).plan_config()).program


def stepping(
    program: Program,
    before: Callable[[Any], Any] = lambda leaves: leaves,
    after: Callable[[Any, Any], Any] = lambda leaves, noisy: noisy,
) -> Program:
    """The program, to whose steps leaves (n, K, D) come as ``before`` makes them, and whose noisy
    arrays leave as ``after`` makes them of both."""

    class Stepping(type(program)):  # type: ignore[misc]
        def step(self, state: Any, leaves: Any, noise: Any) -> Any:
            new, noisy = super().step(state, before(leaves), noise)
            return new, after(leaves, noisy)

    return Stepping(**{one.name: getattr(program, one.name) for one in fields(program)})
