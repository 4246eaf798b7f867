"""Mechanisms that serve a plan: which are tried, at which noise, and which is best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from pydantic import Field

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.config.section import Says, Section
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.noise import is_pure
from weir.dpcore.pricing.calibration import Alternative, SummedLeaf, budget_of, calibrated
from weir.dpcore.pricing.noises import noises_for, noises_of_sums
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import Program
from weir.dpcore.registry import CONTINUAL_SUMS

SLACK = 1.05
"""Among mechanisms within 5 % of the smallest error, the one with the smallest state is chosen."""

SPLIT = "separate"
"""Name of the alternative that gives each ``over`` a mechanism of its own."""


BY_NAME = "name it to take it: "
"""How the note of a mechanism begins that gives something up."""

BY_GAIN = "chosen by itself at delta 0 alone, where every output gains"
"""The note of a mechanism that is ``by_gain``, under pure noise."""


P = TypeVar("P", bound=Program)


@dataclass(frozen=True)
class Offer(Generic[P]):
    """A program over a mechanism.

    Attributes:
      program: what would run.
      score: its worst squared error over the ticks of the terms; only comparisons count.
      stddev: "name over=N" -> worst stddev of what it releases or follows.
    """

    program: P
    score: float
    stddev: Mapping[str, float]


class Try(NamedTuple, Generic[P]):
    """What came of a mechanism under a noise.

    Attributes:
      priced: what it costs. program: what would run; None where it cannot serve. refusal: why not.
    """

    priced: Alternative
    program: P | None
    refusal: ConfigError | None = None


Strategy = Callable[[PrivacyLoss], Offer[P]]
"""The budget in the currency of a noise -> a program within it; ConfigError where there is none."""


def best_sum(
    leaf: SummedLeaf, terms: Terms, build: Callable[[ContinualSum], Offer[P]]
) -> tuple[P, tuple[Alternative, ...]]:
    """A program over the best continual sum for a leaf, and every alternative, the chosen first.

    Args:
      leaf: what is summed. build: a calibrated sum -> the program over it, with its error.

    Raises:
      ConfigError: nothing (or not what the user named) can serve.
    """
    return best_way(terms, lambda noise: sums_for(noise, leaf, terms, build))


def sums_for(
    noise: str, leaf: SummedLeaf, terms: Terms, build: Callable[[ContinualSum], Offer[P]]
) -> dict[str, Strategy[P]]:
    """Name of each continual sum that has the noise and serves the leaf -> a program over it.

    Laplace noise is for leaves whose sensitivity is measured in the l1 norm, and for no others.
    """
    if (noise == "laplace") != (leaf.norm == 1):
        return {}

    def over(name: str, budget: PrivacyLoss) -> Offer[P]:
        return build(calibrated(name, leaf, terms, budget))

    named = terms.continual_sum
    # One release of all rows: no mechanism over ticks has less noise than one that adds it once.
    names = [named] if terms.clock.once and named is not None else list(CONTINUAL_SUMS.own)
    if named is not None and named in CONTINUAL_SUMS and named not in names:
        names.append(named)
    results = {name: CONTINUAL_SUMS[name] for name in names}
    return {
        name: partial(over, name)
        for name, cls in results.items()
        if noise in cls.kinds and cls.serves(leaf.overs)
    }


def best_way(
    terms: Terms, ways: Callable[[str], Mapping[str, Strategy[P]]], joined: tuple[str, ...] = ()
) -> tuple[P, tuple[Alternative, ...]]:
    """The best of several ways to serve, over all noises that can keep the guarantee.

    Args:
      ways: noise -> name of a mechanism -> what builds a program over it.
      joined: names of mechanisms that the way ``separate`` puts together; () where there is none.

    Raises:
      ConfigError: nothing (or not what the user named) can serve.
    """
    check_named(terms, joined)
    noises, usual = noises_of_sums(terms), noises_for(terms)
    spare = tuple(noise for noise in noises if is_pure(noise) and noise not in usual)
    return pick(terms, tries(terms, noises, ways), spare)


def tries(
    terms: Terms, noises: Iterable[str], ways: Callable[[str], Mapping[str, Strategy[P]]]
) -> list[Try[P]]:
    """Every way under every noise, priced, or those that can be chosen (``Terms.compare``).

    ways: see ``best_way``.
    """
    results: list[Try[P]] = []
    named = None if terms.compare else terms.continual_sum
    for noise in noises:
        budget = budget_of(noise, terms.epsilon, terms.delta)
        for name, build in ways(noise).items():
            if named not in (None, name):
                continue
            try:
                offer = build(budget)
            except ConfigError as error:
                cannot = Alternative(name, noise, False, math.inf, 0, None, {}, error.remedy)
                results.append(Try(cannot, None, error))
            else:
                results.append(Try(priced(name, noise, offer, terms), offer.program))
    return results


def check_named(terms: Terms, joined: tuple[str, ...] = ()) -> None:
    """What the user fixed of the mechanism exists, and is read.

    Raises:
      ConfigError: no such mechanism, or one without a setting that was given.
    """
    named = terms.continual_sum
    if named is None:
        return
    if named not in CONTINUAL_SUMS and not (joined and named == SPLIT):
        more = f" or {SPLIT}" if joined else ""
        raise ConfigError(
            "mechanism.continual_sum", named, f"must be one of {sorted(CONTINUAL_SUMS)}{more}."
        )
    readers = joined if named == SPLIT else (named,)
    for setting, value in terms.options:
        if not any(setting in CONTINUAL_SUMS[name].settings for name in readers):
            raise ConfigError(
                f"mechanism.{setting}", value, f"is not a setting of {named}; remove it."
            )


def priced(name: str, noise: str, offer: Offer[P], terms: Terms) -> Alternative:
    """What an offer costs; its score is absolute until ``pick`` relates it to the best."""
    window = terms.window or terms.horizon
    ten = offer.program.loss(None if window is None else 10 * window).epsilon(terms.delta)
    note = "no protection after the window" if math.isinf(ten) else ""
    if not note and name in CONTINUAL_SUMS:
        cls = CONTINUAL_SUMS[name]
        note = f"{BY_NAME}{cls.caveat}" if cls.caveat else ""
        note = BY_GAIN if cls.by_gain and is_pure(noise) else note
    state, loss = offer.program.state_bytes(), offer.program.loss(terms.window)
    return Alternative(name, noise, False, offer.score, state, ten, dict(offer.stddev), note, loss)


def pick(
    terms: Terms, tried: Sequence[Try[P]], spare: tuple[str, ...] = ()
) -> tuple[P, tuple[Alternative, ...]]:
    """Relates scores to the best, marks the chosen one and sorts.

    Args:
      tried: what there is.
      spare: noises that are taken only where no other is within ``SLACK`` of their error: pure
        noise costs later periods, plans and ledgers more.

    Raises:
      ConfigError: none of them can serve, or not the one that was named.
    """
    named = terms.continual_sum
    able = [(a, p) for a, p, _ in tried if p is not None]
    if named is not None:
        able = [(a, p) for a, p in able if a.mechanism == named]
        if not able:
            cannot = (
                "cannot serve these aggregates, their `over` and this noise; remove it and "
                "the plan chooses one that can."
            )
            reasons = [a.note for a, _, _ in tried if a.mechanism == named]
            raise ConfigError("mechanism.continual_sum", named, [*reasons, cannot][0])
    else:
        # A mechanism that gives something up, as protection after the window, must be named; one
        # that gives up graded expiration not if that is of use, or if some output does not gain.
        whole = [(a, p) for a, p in able if a.note.startswith((BY_NAME, BY_GAIN))]
        able = [(a, p) for a, p in able if not a.note]
        if able and not terms.declared:
            usual = _winner(able, spare)
            whole = [item for item in whole if _as_lasting(item, usual, terms)]
            able += [item for item in whole if _gains(item, usual, terms)]
    if not able:
        refused = [item.refusal for item in tried if item.refusal is not None]
        if len(refused) == len(tried) and len({error.field for error in refused}) == 1:
            raise refused[0]  # the others ask for the same
        raise ConfigError(
            "mechanism",
            named,
            "nothing can serve this plan: "
            + "; ".join(f"{a.mechanism}: {a.note}" for a, _, _ in tried),
        )
    best = min(a.score for a, _ in able)
    winner, program = _winner(able, spare)
    ranked = [
        replace(
            item,
            chosen=item is winner,
            score=_relative(item.score, best),
            note=item.note.removeprefix(BY_NAME).removeprefix(BY_GAIN)
            if item is winner
            else item.note,
        )
        for item, _, _ in tried
    ]
    ranked.sort(key=lambda item: (not item.chosen, item.score, item.state_bytes))
    return program, tuple(ranked)


Able = tuple[Alternative, P]


def _winner(able: Sequence[Able[P]], spare: tuple[str, ...]) -> Able[P]:
    """Of those within ``SLACK`` of the smallest error the one with the smallest state; one of a
    spare noise only where there is no other."""
    best = min(a.score for a, _ in able)
    close = [(a, p) for a, p in able if a.score <= best * SLACK**2]
    close = [(a, p) for a, p in close if a.noise not in spare] or close
    return min(close, key=lambda pair: (pair[0].state_bytes, pair[0].score))


def _as_lasting(item: Able[P], usual: Able[P], terms: Terms) -> bool:
    """Whether it gives up nothing of use: it fades by degrees in place of one that does or loses no
    more for ever, or the guarantee is for the whole clock, or permanent in place of one that does
    not fade either. All but the guarantee for the whole clock is taken at delta = 0 alone: else
    there is Gaussian noise, whose losses add up to less."""
    mechanism = CONTINUAL_SUMS[item[0].mechanism]
    if mechanism.by_gain:
        ever, within = (usual[1].loss(span).value for span in (None, terms.window))
        fades = ever > within * (1 + 1e-6)
        return terms.delta == 0 and (fades or item[1].loss(None).value <= ever * (1 + 1e-6))
    if not mechanism.permanent:
        return terms.lasting is None
    lost = item[1].loss(1).value <= usual[1].loss(1).value * (1 + 1e-6)
    return terms.delta == 0 and (terms.lasting is None or lost)


def _gains(item: Able[P], usual: Able[P], terms: Terms) -> bool:
    """Whether every output over every span has less noise, in the worst tick and in the mean."""
    (one, its), (other, others) = item, usual
    end = terms.horizon
    ticks = terms.ticks()
    if end is not None:
        ticks = np.unique(np.linspace(0, end - 1, min(end, 2048)).astype(np.int64))
    means, than = its.mean_stddev(ticks), others.mean_stddev(ticks)
    if not means or means.keys() != than.keys() or one.stddev.keys() != other.stddev.keys():
        return False
    worst = all(one.stddev[name] < value for name, value in other.stddev.items())
    return worst and all(means[name] < value for name, value in than.items())


def _relative(score: float, best: float) -> float:
    """Ratio of errors, from scores that are their squares."""
    if best > 0 and math.isfinite(score):
        return math.sqrt(score / best)
    return 1.0 if score == best else math.inf


Buffers = Annotated[int, Field(ge=1, le=8), Says("must be a whole number from 1 to 8.")]
Gamma = Annotated[float, Field(gt=0, allow_inf_nan=False), Says("must be a finite number above 0.")]


def _sums(schema: dict[str, Any]) -> None:
    """Names of the mechanisms, for the JSON Schema."""
    schema["anyOf"][0]["enum"] = [*CONTINUAL_SUMS, SPLIT]


class MechanismConfig(Section):
    """Which mechanism to use. All optional: the plan prices every one and takes the best."""

    continual_sum: str | None = Field(
        default=None,
        description="Name of a mechanism for running sums; `weir algorithms` lists them.",
        examples=["blt"],
        json_schema_extra=_sums,
    )
    noise: Literal["gaussian", "discrete_gaussian", "k_norm", "gumbel", "laplace"] | None = Field(
        default=None,
        description="gaussian (exact wherever it can be), discrete_gaussian (exact, or refused), "
        "k_norm or laplace (both pure: they serve delta = 0); of models that choose vertices "
        "gumbel or laplace. Without it the plan prices them.",
        examples=["gaussian"],
    )
    pure: bool | None = Field(
        default=None,
        description="Whether pure noise is priced where delta is above 0. Without it: yes, unless "
        "the job has a ledger, where losses of pure noise add up to more.",
        examples=[False],
    )
    buffers: Buffers | None = Field(
        default=None,
        description="Buffers of the BLT mechanism: more is more accurate and more state.",
        examples=[4],
    )
    gamma: Gamma | None = Field(
        default=None,
        description="Merging tree: loss of a level beyond the window over that of the level below.",
        examples=[0.5],
    )
