"""Broken twins: the real thing, sabotaged in a few lines, each of which an audit must catch.

**How a twin is added.** Write a context manager that patches the real thing (``patched`` for a name
in a module, ``behind`` for the program that runs behind the plan's back), and a ``Twin`` with a
config under which it hurts and ``catches``, a part of what the audit then says is broken:

    @contextmanager
    def too_quiet() -> Iterator[None]:
        with behind(lambda program: tampered(program, noise_scale=lambda scale: 0.7 * scale)):
            yield

    TWINS.append(Twin("noise x 0.7", too_quiet, SUM, "all releases"))

``test_twins.py`` runs every one at the audit's default number of trials, and every config once
without its twin, when nothing may be found. Twins live in tests only. A twin of a part that the
audit reaches by ``only`` names it: "all releases", "other changes", "bytes".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from dpcore.noise.prf import KeyedNoise
from dpcore.plan import Plan
from pipelines.audit import once
from pipelines.config.job import JobConfig, loads
from tests.audit.verdict import tampered

Program = Any


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
    named = f"mechanism: {mechanism}\n" if mechanism else ""
    return f"""
name: twin
source: {{{form}: nowhere/events.{form}}}
schema: {schema}
key: {{column: k, declared: [north, south]}}
clock: {{start: 2020-01-01T00:00:00Z, period: 1d, end: {end}T00:00:00Z}}
privacy: {{epsilon: {epsilon}, delta: {delta}, protect_for: {window}, relation: {relation}}}
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
class Twin:
    """A sabotage that an audit must catch.

    Attributes:
      name: what is wrong. sabotage: makes it so inside. config: under which it hurts. only: the
        audit that must see it. catches: part of what is then broken; "": as ``only``.
    """

    name: str
    sabotage: Callable[[], AbstractContextManager[None]]
    config: str
    only: str
    catches: str = ""

    @property
    def job(self) -> JobConfig:
        """The config, read."""
        return loads(self.config)


TWINS: list[Twin] = []


def twin(name: str, text: str, only: str, catches: str = "") -> Callable[..., Any]:
    """Registers a generator function as the sabotage of a twin."""

    def register(function: Callable[[], Iterator[None]]) -> Callable[[], Any]:
        made = contextmanager(function)
        TWINS.append(Twin(name, made, text, only, catches))
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


# ---- noise


@twin("noise x 0.7", SUM, "all releases")
def too_quiet() -> Iterator[None]:
    with behind(lambda program: tampered(program, noise_scale=lambda scale: 0.7 * scale)):
        yield


@twin("sensitivity without the factor for replace-one", REPLACED, "all releases")
def no_factor() -> Iterator[None]:
    # Two events at the ends of the clip are twice as far apart as either is from none.
    with behind(lambda program: tampered(program, noise_scale=lambda scale: scale / 2)):
        yield


@twin("one tree level uncounted", TREE, "all releases")
def level_short() -> Iterator[None]:
    levels = 3  # of six ticks
    with behind(
        lambda program: tampered(
            program, noise_scale=lambda scale: scale * np.sqrt((levels - 1) / levels)
        )
    ):
        yield


@twin("window calibrated for W/2", config(window=6, ticks=8), "all releases")
def half_window() -> Iterator[None]:
    with behind(lambda program: programs_of(config(window=3, ticks=8))):
        yield


@twin("the tick's digest left out of the noise key", SUM, "bytes", "share noise")
def no_digest() -> Iterator[None]:
    def blank(right: Any) -> Any:
        return lambda self, leaves: np.zeros_like(right(self, leaves))

    with patched("dpcore.noise.prf.KeyedNoise.leaf_digests", blank):
        yield


@twin("fresh noise on a retry", SUM, "bytes", "second run")
def fresh_on_retry() -> Iterator[None]:
    drawn = np.random.default_rng(0)

    def fresh(right: Any) -> Any:
        def gaussian(self: KeyedNoise, labels: Any, digests: Any, dimension: int) -> Any:
            return drawn.standard_normal((*digests.shape[:2], dimension))

        return gaussian

    with patched("dpcore.noise.prf.KeyedNoise.gaussian", fresh):
        yield


@twin("noise reused across keys", SUM, "bytes", "keys share noise")
def one_noise() -> Iterator[None]:
    def same(right: Any) -> Any:
        def gaussian(self: KeyedNoise, labels: Any, digests: Any, dimension: int) -> Any:
            drawn = right(self, labels, digests, dimension)
            return np.repeat(drawn[:, :1], drawn.shape[1], axis=1)

        return gaussian

    with patched("dpcore.noise.prf.KeyedNoise.gaussian", same):
        yield


# ---- bounding


@contextmanager
def past_the_clip(which: Callable[[Any], Any], times: float) -> Iterator[None]:
    """Values of a kind become ``times`` the upper end of the clip, and are held by nothing."""

    def loose(right: Any) -> Any:
        def clip_values(values: Any, low: float, high: float, fill: float = 0.0) -> Any:
            found = right(values, low, high, fill)
            found.values[which(values)] = times * high
            return found

        return clip_values

    def unbounded(right: Any) -> Any:
        def contribution(self: Any, values: Any) -> Any:
            found = right(self, values)
            if self.kind == "value":
                moved = values - self.centre
                far = np.abs(moved) > 1.5 * self.half
                found.amount[far] = np.rint(moved[far] / self.resolution)
            return found

        return contribution

    with (
        patched("dpcore.aggregates.clips.clip_values", loose),
        patched("dpcore.aggregates.channel.Channel.contribution", unbounded),
    ):
        yield


@twin("NaN past the clip", CSV, "other changes")
def nan_passes() -> Iterator[None]:
    with past_the_clip(np.isnan, 1e3):
        yield


@twin("infinity past the clip", CSV, "other changes")
def infinity_passes() -> Iterator[None]:
    with past_the_clip(np.isinf, 20.0):
        yield


@twin("deduplication off", IDS, "other changes")
def every_copy() -> Iterator[None]:
    def all_fresh(right: Any) -> Any:
        def remember(batch: Any, known: Any, horizon: Any) -> Any:
            fresh, new = right(batch, known, horizon)
            return np.ones(batch.num_rows, dtype=bool), new

        return remember

    with patched("transforms.select.deduplicate.remember", all_fresh):
        yield


# ---- what lies outside of values


@twin("a folder resumed with another secret", SUM, "bytes", "another secret")
def any_secret() -> Iterator[None]:
    with (
        patched("pipelines.results.secret_marks.refuse_other", lambda right: lambda *given: None),
        patched("transforms.sinks.held.differences", lambda right: lambda *given: False),
    ):
        yield
