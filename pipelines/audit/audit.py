"""What an audit attacks: the job, its claims, and the proven lower bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.audit.distinguish import (
    ERROR,
    STRICT,
    Counts,
    best_cut,
    curve,
    epsilon_bound,
    epsilon_of_mu,
    learn,
    mu_bound,
    separation,
)
from weir.dpcore.config import durations
from weir.dpcore.config.key import Key
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.keys import key_text
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import JobConfig
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.sinks.folder import ParquetSink
from weir.pipelines.sources.files import Files
from weir.pipelines.sources.registry import source_of

KEY = "weir_audit_key"
"""Column of keys where the config has none."""
TRIALS = 20_000
"""Trials of one run, with the change and without."""
FIRST = 10_000_000
"""Number of the first key."""
ROWS = 5_000_000
"""Rows that one run may release."""
FEWEST = 1_000
"""Trials that are wanted at least: a clock is cut before there are fewer."""
SHORTEST = 48
"""Ticks that a clock is not cut below."""


@dataclass(frozen=True)
class Audited:
    """A job under audit.

    Attributes:
      job: over synthetic files, without secret or ledger; its keys are few. plan: of it: program
      and
        clock are those of every run. notes: what differs from the config.
      bare: whether the config has no key, so that a column of keys was added.
    """

    job: JobConfig
    plan: Plan
    notes: tuple[str, ...]
    bare: bool

    @classmethod
    def of(cls, job: JobConfig, ticks: int | None = None) -> Audited:
        """Of a config; ``ticks``: length of its clock.

        Raises:
          ConfigError: the config, or a number of ticks that it has not.
        """
        notes: list[str] = []
        # Synthetic events have the columns of a lookup themselves.
        left = ("secret", "ledger", "dead_letters", "deduplicate", "lookup")
        job = job.model_copy(update=dict.fromkeys(left))
        bare = job.key is None
        if job.key is not None and job.key.groups is not None:
            raise ConfigError(
                "key.groups",
                [list(own) for own in job.key.groups],
                "cannot be audited: each key of an audit is a trial of its own, and coarser keys "
                "would add trials up; audit the config without groups.",
            )
        for name, aggregate in job.aggregates.items():
            if getattr(aggregate, "learn", None) is not None:
                raise ConfigError(
                    f"aggregates.{name}.clip.learn",
                    None,
                    "cannot be audited: what is attacked would follow the clip that each key "
                    "learns; audit the config with two public numbers as clip.",
                )
        job = _keyed(job, names(4))
        full = job.release_clock.ticks
        wanted = ticks if ticks is not None else full
        if wanted is None:
            window = _window_of(job)
            wanted = SHORTEST if window is None else max(SHORTEST, 10 * window + 2)
            wanted = min(wanted, 4 * SHORTEST) if window is None or window > 20 else wanted
            notes.append(f"the clock of the config has no end; audited over {wanted} ticks.")
        if full is not None and wanted > full:
            raise ConfigError("--ticks", wanted, f"must be at most {full}, which the clock has.")
        if wanted != full:
            job = _ended(job, wanted)
        plan = plan_of(_over(job, Path("."), Path(".")))
        width = sum(out.dimension for out in plan.outputs)
        if ticks is None and FEWEST * wanted * width > ROWS:
            short = max(SHORTEST, ROWS // (FEWEST * width))
            if short < wanted:
                notes.append(
                    f"the clock has {wanted:,} ticks; audited over the first {short}, under the "
                    "guarantee that a clock so short has (--ticks sets another)."
                )
                job = _ended(job, short)
                plan = plan_of(_over(job, Path("."), Path(".")))
        return cls(job, plan, tuple(notes), bare)

    @property
    def ticks(self) -> int:
        """Of the clock."""
        assert self.plan.clock.ticks is not None
        return self.plan.clock.ticks

    @cached_property
    def width(self) -> int:
        """Numbers that one key releases at a tick."""
        return sum(out.dimension for out in self.plan.outputs)

    def room(self, slots: int, events: int) -> int:
        """Trials that one run has room for. slots: keys of each; events: of each."""
        rows = ROWS // (self.ticks * self.width * slots)
        return max(40, min(rows, ROWS // max(1, events)))

    def at(self, place: Path, keys: int, out: Path | None = None) -> JobConfig:
        """The job over files in a folder, with so many keys; ``out``: folder of releases."""
        job = _keyed(self.job, names(keys)) if self.declares else self.job
        return _over(job, place, out or place / "out")

    @property
    def declares(self) -> bool:
        """Whether keys are those that the config lists."""
        return self.job.key is not None and self.job.key.declared is not None

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns of keys."""
        assert self.job.key is not None
        return self.job.key.names

    def key_texts(self, keys: int) -> list[str]:
        """Keys as releases have them."""
        columns = len(self.key_columns)
        if columns == 1:
            return list(names(keys))
        return [key_text((name, *["-"] * (columns - 1))) for name in names(keys)]


def names(count: int) -> tuple[str, ...]:
    """Keys of an audit, in the order of their bytes: digits, which a reader may take for numbers,
    and spell in another way where one of them is none."""
    return tuple(np.char.mod("%d", FIRST + np.arange(count)).tolist())


def _keyed(job: JobConfig, keys: tuple[str, ...]) -> JobConfig:
    key = job.key
    if key is None:
        built = Key(column=KEY, declared=keys)
        source = job.source
        columns = getattr(source, "columns", None)
        if source is not None and columns is not None:
            job = job.model_copy(
                update={"source": source.model_copy(update={"columns": (*columns, KEY)})}
            )
        return job.model_copy(update={"key": built})
    if key.declared is None:
        return job
    more = ("-",) * (len(key.names) - 1)
    declared: tuple[Any, ...] = keys if not more else tuple((item, *more) for item in keys)
    return job.model_copy(update={"key": key.model_copy(update={"declared": declared})})


def _ended(job: JobConfig, ticks: int) -> JobConfig:
    if job.clock is None:
        return job
    end = durations.show_timestamp(job.release_clock.tick_start(ticks))
    return job.model_copy(update={"clock": job.clock.model_copy(update={"end": end})})


def _window_of(job: JobConfig) -> int | None:
    short = _ended(job, 1 << 16)
    return short.plan_config().terms().window


def _over(job: JobConfig, place: Path, out: Path) -> JobConfig:
    """The job over files of its own format in a folder, into a folder of its own format."""
    source, sink = job.source, job.sink
    form = "csv" if source is None else source.form
    path = str(place / f"*.{form}")
    if isinstance(source, Files):
        over: Any = source.model_copy(update={source.kind: path})
    else:
        over = source_of(form, path)
    to = None if sink is None else sink.at(str(out))
    if to is None:
        like: dict[str, Any] = {} if sink is None else {"every": sink.every, "layout": sink.layout}
        to = ParquetSink(parquet=str(out), **like)
    # The audit's own batches say what a bad record does; nobody looks at them first.
    return job.model_copy(update={"source": over, "sink": to})


MOST_CURVE = 200
"""Points of a ROC."""


@dataclass(frozen=True)
class PrivacyClaim:
    """What a plan guarantees of releases within some ticks.

    Attributes:
      epsilon, delta: of the expiration table. mu: of Gaussian differential privacy (sqrt(2 rho) of
        a loss in rho); None: the loss is pure.
    """

    epsilon: float
    delta: float
    mu: float | None

    @classmethod
    def of(cls, plan: Plan, span: int | None, epsilon: float, delta: float) -> PrivacyClaim:
        """Of a row of the table."""
        loss = plan.program.loss(span)
        mu = {"gdp": loss.value, "zcdp": math.sqrt(2 * loss.value)}.get(loss.kind)
        return cls(epsilon, delta, None if plan.discovery is not None else mu)


@dataclass(frozen=True)
class Audit:
    """What was proven of one claim.

    Attributes:
      what: which releases, and within how many ticks. claim: of the plan. proven, proven_mu: 95 %
        lower bounds. trials: that judged. seconds: of the run and its judgement.
      change: what neighbours differed in. by: the distinguisher. broken: whether the claim is, at
        an error of 1e-6. curve: ROC. note: why it proves no more.
    """

    what: str
    claim: PrivacyClaim
    proven: float
    proven_mu: float | None
    trials: int
    seconds: float
    change: str
    by: str
    broken: bool
    curve: tuple[Floats, Floats]
    ticks: int | None = None

    @property
    def tightness(self) -> float | None:
        """proven_mu / claimed_mu; None: the law is not Gaussian, or nothing is claimed."""
        mu = self.claim.mu
        if mu is None or self.proven_mu is None or not 0 < mu < math.inf:
            return None
        return self.proven_mu / mu

    def to_json(self) -> dict[str, Any]:
        """As ``weir audit --json`` prints it; null: infinite, or not defined."""
        return {
            "what": self.what,
            "claimed": _finite(self.claim.epsilon),
            "proven": _finite(self.proven),
            "claimed_mu": _finite(self.claim.mu),
            "proven_mu": _finite(self.proven_mu),
            "tightness": self.tightness,
            "delta": self.claim.delta,
            "trials": self.trials,
            "seconds": round(self.seconds, 3),
            "ticks": self.ticks,
            "neighbours": self.change,
            "distinguisher": self.by,
            "broken": self.broken,
        }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True)
class Proof:
    """What scores prove: 95 % lower bounds, and whether a claim is broken."""

    epsilon: float
    mu: float
    broken: bool
    trials: int
    curve: tuple[Floats, Floats]


def by_law(
    ones: Floats, others: Floats, mu: float, claim: PrivacyClaim, linear: bool, tries: int = 1
) -> Proof:
    """Judges a statistic whose law is known; cuts follow from public numbers.

    Args:
      ones, others: scores in units in which their standard deviation is 1 by the law, with the
        change and without. mu: by which the law says that they are apart. linear: whether scores
        are exactly normal. tries: audits that the best of which is taken.
    """
    centre = float(np.median(others))
    n = min(ones.size, others.size)
    cut = best_cut(max(mu, 1e-3), claim.delta, n)
    strict = STRICT / tries
    exact = [Counts.of(ones, others, centre + at) for at in (cut, mu / 2)]
    size, low = separation(ones, others, ERROR / tries)
    if linear:
        found_mu = low
        epsilon = epsilon_of_mu(low, claim.delta)
        hard = separation(ones, others, strict)[1]
    else:
        found_mu = mu_bound(exact[1], ERROR / tries)
        epsilon = epsilon_bound(exact[0], claim.delta, ERROR / tries)
        hard = mu_bound(exact[1], strict)
    broken = claim.mu is not None and hard > claim.mu * (1 + 1e-9)
    broken |= any(epsilon_bound(item, claim.delta, strict / 2) > claim.epsilon for item in exact)
    return Proof(epsilon, found_mu, broken, ones.size + others.size, curve(ones, others))


def by_learning(
    ones: Floats, others: Floats, claim: PrivacyClaim, tries: int = 1
) -> tuple[Proof, str]:
    """Learns on one half of the trials (n, features) and judges on the other.

    Cuts are chosen on the half that learned. A mu that is found so bounds that of a mechanism which
    claims one; its epsilon is what counts alone prove.
    """
    learned = learn(ones[::2], others[::2])
    train = learned.scores(ones[::2]), learned.scores(others[::2])
    test = learned.scores(ones[1::2]), learned.scores(others[1::2])
    cuts = np.unique(np.quantile(np.concatenate(train), np.linspace(0.002, 0.998, 200)))
    tried = [Counts.of(*train, float(cut)) for cut in cuts]
    by_epsilon = int(np.argmax([epsilon_bound(item, claim.delta) for item in tried]))
    by_mu = int(np.argmax([mu_bound(item) for item in tried]))
    strict = STRICT / tries
    # What is hardest to doubt lies further inside than what is most.
    hardest = int(np.argmax([epsilon_bound(item, claim.delta, strict) for item in tried]))
    places = (by_epsilon, by_mu, hardest)
    first, second, third = (Counts.of(*test, float(cuts[at])) for at in places)
    broken = epsilon_bound(third, claim.delta, strict) > claim.epsilon
    if claim.mu is not None:
        broken |= mu_bound(second, strict) > claim.mu * (1 + 1e-9)
    proof = Proof(
        epsilon_bound(first, claim.delta, ERROR / tries),
        mu_bound(second, ERROR / tries),
        broken,
        test[0].size + test[1].size,
        curve(*test),
    )
    return proof, f"learned: {learned.name}"


def scored(transcripts: Floats, weights: Floats, mu: float) -> Floats:
    """(trials, slots, T, m) and (slots, T, m) -> (trials,) in standard deviations of the law."""
    result: NDArray[np.float64] = np.zeros(len(transcripts))
    for slot in range(weights.shape[0]):
        for tick in np.flatnonzero(weights[slot].any(axis=1)):
            values = np.nan_to_num(transcripts[:, slot, tick])
            result += (values * weights[slot, tick]).sum(axis=1)
    return result / max(mu, 1e-12)
