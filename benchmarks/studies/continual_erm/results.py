"""What was measured of models of blocks: lines, table, page."""

from __future__ import annotations

import csv
import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Choice = tuple[float, bool, str, float]
"""lambda, whether centred, map, mean accuracy."""

RESULTS = Path(__file__).parents[1] / "results"
PAGE = Path(__file__).parents[3] / "benchmarks" / "results" / "learners.md"
BEGIN, END = (
    "<!-- python -m benchmarks.studies.continual_erm -->\n",
    "<!-- end of continual_erm -->\n",
)
BLOCK = 256
ALGORITHMS = {
    "output_perturbation": "algorithm: erm.output_perturbation",
    "independent_batches": "algorithm: erm.independent_batches",
    "independent_batches of 8 blocks": "algorithm: erm.independent_batches",
    "sliding_window": "algorithm: erm.sliding_window\nwindow: 7",
    "multi_resolution": "algorithm: erm.multi_resolution\ndoublings: 3",
    "sampled": "algorithm: erm.sampled\ndoublings: 3",
    "basic_continual": "algorithm: erm.basic_continual\nbase: 8\ndoublings: 2",
    "continual": "algorithm: erm.continual\nbase: 8\ndoublings: 2",
}
OF_EIGHT = "independent_batches of 8 blocks"
DRIFTING = ("independent_batches", OF_EIGHT, "sliding_window", "continual")
NOISES = (
    ("none", 1.0),
    *(("gaussian", 1.0), ("gaussian", 0.1), ("pure", 1.0), ("pure", 0.1)),
    *(("printed", 1.0), ("printed", 0.1)),
)
LAMBDAS = (0.01, 0.03, 0.1, 1.0)
PROJECTION = "projection: 50"
WAYS = tuple(itertools.product((False, True), ("", PROJECTION)))
"""Centred, map."""
BEST = (OF_EIGHT, "sliding_window", "continual")
REACH_NOISES = NOISES[:2]
DRIFT_NOISES = (("none", 1.0), ("gaussian", 1.0), ("gaussian", 4.0))
SETTINGS = ("paper", "chosen", "fourier")
COLUMNS = (
    *("experiment", "setting", "algorithm", "noise", "epsilon", "t"),
    *("q25", "median", "q75", "runs"),
)


@dataclass(frozen=True)
class Line:
    """Accuracy after each block: found (runs, blocks)."""

    experiment: str
    setting: str
    algorithm: str
    noise: str
    epsilon: float
    found: Floats

    @property
    def quartiles(self) -> Floats:
        """(3, blocks)."""
        return np.percentile(self.found, (25, 50, 75), axis=0)

    @property
    def lates(self) -> Floats:
        """(3,) quartiles over runs of the mean accuracy over the second half of the stream."""
        means = self.found[:, self.found.shape[1] // 2 :].mean(axis=1)
        return np.asarray(np.percentile(means, (25, 50, 75)))

    @property
    def late(self) -> float:
        """The median of them."""
        return float(self.lates[1])


def recovery(line: Line) -> int | None:
    """Blocks after the drift until the median is nine tenths of what it was before; None: never."""
    median = line.quartiles[1]
    half = len(median) // 2
    back = np.flatnonzero(median[half:] >= 0.9 * np.nanmean(median[half - 4 : half]))
    return int(back[0]) + 1 if len(back) else None


def shown_as(one: Line | None, algorithm: str, noise: str) -> str:
    """A cell of the table."""
    if one is None:
        return "pure only" if algorithm == "sampled" and noise == "gaussian" else "-"
    return f"{one.late:.2f}"


def reach(table: dict[tuple[str, str, str, str, float], Line]) -> list[str]:
    """What lambda, a public centre and a projection leave and cost, on the stream itself."""
    names = [
        f"{'centred' if centred else 'plain'}{', 50' if map_ else ''}" for centred, map_ in WAYS
    ]
    out = ["", f"| lambda | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for regularise in LAMBDAS:
        cells = []
        for centred, map_ in WAYS:
            name = reach_name(regularise, centred, map_)
            two = (table.get(("reach", name, OF_EIGHT, *one)) for one in REACH_NOISES)
            cells.append(" / ".join("-" if one is None else f"{one.late:.2f}" for one in two))
        out.append(f"| {regularise:g} | {' | '.join(cells)} |")
    return out


def reach_name(regularise: float, centred: bool, map_: str) -> str:
    """Of a setting that is tried on the stream itself."""
    return f"lambda {regularise:g}, centred {centred}, map {map_ or 'none'}"


def markdown(found: list[Line], choices: list[Choice]) -> str:
    """The tables of the page."""
    table = {(o.experiment, o.setting, o.algorithm, o.noise, o.epsilon): o for o in found}
    heads = [noise if noise == "none" else f"{noise}, {epsilon:g}" for noise, epsilon in NOISES]
    runs = sorted({len(one.found) for one in found})
    out = [f"Medians of {' or '.join(map(str, runs))} runs; chance is about 0.1.", ""]
    out += [f"| setting | `erm.` | {' | '.join(heads)} |", "|---|---|" + "---|" * len(heads)]
    for name, algorithm in itertools.product(SETTINGS, ALGORITHMS):
        if name == "fourier" and algorithm not in BEST:
            continue
        cells = (
            shown_as(table.get(("figure", name, algorithm, *one)), algorithm, one[0])
            for one in NOISES
        )
        out.append(f"| {name} | {algorithm} | {' | '.join(cells)} |")
    apart = max(one.lates[2] - one.lates[0] for one in found if one.experiment == "figure")
    out += ["", f"The quartiles of a case are at most {apart:.2f} apart."]
    out += ["", "Blocks after the drift until accuracy is nine tenths of what it was:", ""]
    out += ["| `erm.` | none | gaussian, 1 | gaussian, 4 |", "|---|---|---|---|"]
    for algorithm in DRIFTING:
        cells = (table.get(("drift", "chosen", algorithm, *one)) for one in DRIFT_NOISES)
        shown = " | ".join("-" if o is None else str(recovery(o) or "never") for o in cells)
        out.append(f"| {algorithm} | {shown} |")
    out += [
        "",
        f"How lambda, a public centre and a projection to 50 directions change it ({OF_EIGHT}, "
        "none / gaussian at 1):",
        *reach(table),
    ]
    ways = list(dict.fromkeys((centred, map_) for _, centred, map_, _ in choices))
    of = {one[:3]: one[3] for one in choices}
    out += [
        "",
        "What was chosen from: mean accuracy on the digits, at the noise of epsilon = 1:",
        "",
    ]
    heads = [f"{'centred' if centred else 'plain'}{map_ and ', ' + map_}" for centred, map_ in ways]
    out += [f"| lambda | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for regularise in LAMBDAS:
        cells = (f"{of[(regularise, *way)]:.2f}" for way in ways)
        out.append(f"| {regularise:g} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def write(found: list[Line], choices: list[Choice]) -> None:
    """Results, picture and page."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "continual_erm.csv").open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for regularise, centred, map_, mean in choices:
            name = reach_name(regularise, centred, map_)
            out.writerow(("choice", name, "", "gaussian", 1.0, "", "", f"{mean:.4f}", "", ""))
        for one in found:
            head = (one.experiment, one.setting, one.algorithm, one.noise, one.epsilon)
            for i, row in enumerate(one.quartiles.T):
                if not np.isnan(row[1]) and (i % 2 == 0 or one.experiment == "drift"):
                    shown = (f"{value:.4f}" for value in row)
                    out.writerow((*head, BLOCK * (i + 1), *shown, len(one.found)))
    before, mark, rest = PAGE.read_text().partition(BEGIN)
    if mark:
        PAGE.write_text(before + mark + markdown(found, choices) + END + rest.partition(END)[2])
