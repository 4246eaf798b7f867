"""How many steps a second does an online learner take, and when is projecting too dear?

    python -m benchmarks.online_speed [--short]

A step: one event's gradient at the model that is played, clipped, summed exactly, noised by a
continual sum (blt, W = 256) with keyed noise, and the next model. Single keys of growing dimension
over the l1 ball, exact projection against projection-free, the rule alone and the whole step; then
10,000 keys of dimension 20 in one block; then the same ball as a polytope of 2 d vertices, onto
which nothing projects quickly. Beside it the same in plain numpy, as a bound: float sums,
numpy's own generator, independent noise, a projection by sorting, one event a key; no lattice, no
keyed noise, no grid, nothing that a retry would repeat. Writes benchmarks/results/online_speed.csv,
and as ratios, turn about: 10,000 keys of 20 features beside that bound, and projection-free beside
exact there and at 2,000 features.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beside import Ratio, write
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.polytope import Polytope
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.losses import Squared
from weir.dpcore.models.online.conditional_gradient import ConditionalGradient
from weir.dpcore.models.online.follow_the_leader import FollowTheLeader
from weir.dpcore.models.online.program import Learner
from weir.dpcore.models.scaling import Scaling
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.registry import CONTINUAL_SUMS

RESULTS = Path(__file__).parent / "results"
SIZES = (
    *(("l1_ball", 1, d) for d in (10, 100, 1_000, 10_000, 100_000)),
    ("l1_ball", 10_000, 20),
    *(("polytope", n_keys, 8) for n_keys in (1, 1_000)),
)
WIDEST = 10_000
"""Beyond, only the rule is measured: keyed noise and a leaf's digest are nearly all of a step."""
SECONDS = 1.5
STRIDE = 16
RADIUS = 5.0
MU, CLIP, WINDOW, UNIT = 1.0, 1.0, 256, 4.0


def set_of(shape: str, d: int) -> ConvexSet:
    """The l1 ball, as such or by its vertices."""
    if shape == "l1_ball":
        return L1Ball(RADIUS, d)
    corners = RADIUS * np.concatenate([np.eye(d), -np.eye(d)])
    return Polytope(tuple(map(tuple, corners.tolist())))


def rule_of(name: str, shape: str, d: int) -> Any:
    """A rule over a set."""
    cls = FollowTheLeader if name == "follow_the_leader" else ConditionalGradient
    return cls(set_of(shape, d), MU, (0.0,) * d)


def learner_of(name: str, shape: str, d: int) -> Learner:
    """A learner of d features."""
    columns = tuple(f"c{i}" for i in range(d + 1))
    scaling = Scaling(columns, (-1.0,) * (d + 1), (1.0,) * (d + 1))
    gradients = Gradients(Squared(), CLIP, None, d, intercept=False)
    mechanism = CONTINUAL_SUMS["blt"].calibrated(
        dimension=d,
        scales=(2 * CLIP / gradients.lattice.resolution,) * d,
        sensitivity=1.0,
        overs=(None,),
        window=WINDOW,
        horizon=None,
        budget=PrivacyLoss("gdp", 1 / UNIT),
    )
    return Learner(scaling, gradients, rule_of(name, shape, d), mechanism, 1, f"online.{name}")


def leaves_of(n_keys: int, d: int) -> tuple[RowLeaf, ...]:
    """STRIDE ticks with one event a key."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(STRIDE):
        rows = rng.uniform(-1, 1, (n_keys, d + 1)) / np.sqrt(d)
        keys, zeros = np.arange(n_keys), np.zeros((n_keys, 2), dtype=np.uint64)
        found.append(RowLeaf.from_events(keys, rows, keys * 0, zeros, n_keys))
    return tuple(found)


def rate(step: Callable[[], None], steps: int) -> float:
    """Key-steps a second of processor time: ``step`` does ``steps`` of them. The best of three."""
    step()
    best = 0.0
    for _ in range(3):
        begun, done = time.process_time(), 0
        while time.process_time() - begun < SECONDS / 3:
            step()
            done += steps
        best = max(best, done / (time.process_time() - begun))
    return best


def whole(name: str, shape: str, n_keys: int, d: int) -> float:
    """Learner.step with keyed noise."""
    learner, leaves = learner_of(name, shape, d), leaves_of(n_keys, d)
    root = RootKey.derive(bytes(32), "speed", bytes(32))
    keys = tuple(str(i).encode() for i in range(n_keys))
    held = [learner.init(n_keys), 0]

    def step() -> None:
        first = held[1]
        held[0], _ = learner.step(held[0], leaves, lambda part: KeyedNoise(root, part, keys, first))
        held[1] = first + STRIDE

    return rate(step, STRIDE * n_keys)


def alone(name: str, shape: str, n_keys: int, d: int) -> float:
    """The rule, on sums that go on growing."""
    rule, rng = rule_of(name, shape, d), np.random.default_rng(2)
    noise = rng.normal(size=(STRIDE, n_keys, d)) * UNIT
    drift = rng.normal(size=(n_keys, d)) / np.sqrt(d)
    held = [rule.init(n_keys), 0]

    def step() -> None:
        for i in range(STRIDE):
            held[1] += 1
            held[0] = rule.update(held[0], drift * held[1] + noise[i])

    return rate(step, STRIDE * n_keys)


def plain(n_keys: int, d: int) -> float:
    """The bound: plain numpy."""
    rng = np.random.default_rng(3)
    rows = rng.uniform(-1, 1, (STRIDE, n_keys, d + 1)) / np.sqrt(d)
    held = [np.zeros((n_keys, d)), np.zeros((n_keys, d)), 0]
    order = np.arange(1, d + 1)

    def step() -> None:
        x, total, t = held
        for i in range(STRIDE):
            a, y = rows[i, :, :-1], rows[i, :, -1]
            gradient = (np.einsum("kd,kd->k", a, x) - y)[:, None] * a
            norms = np.sqrt(np.einsum("kd,kd->k", gradient, gradient))
            total = total + gradient * np.minimum(1, CLIP / np.maximum(norms, 1e-300))[:, None]
            t += 1
            z = (total + rng.standard_normal((n_keys, d)) * UNIT) / (-MU * t)
            size = np.abs(z)
            down = -np.sort(-size, axis=1)
            level = (np.cumsum(down, axis=1) - RADIUS) / order
            last = (down > level).sum(axis=1) - 1
            cut = np.maximum(level[np.arange(n_keys), last], 0)
            x = np.copysign(np.maximum(size - cut[:, None], 0), z)
        held[:] = [x, total, t]

    return rate(step, STRIDE * n_keys)


def ratios(short: bool) -> None:
    """Writes what must be reached, as medians of neighbours."""
    pairs: dict[tuple[str, str, float], list[float]] = {}
    exact, free = "follow_the_leader", "conditional_gradient"
    keys, d = 10_000, 20
    for _ in range(1 if short else 5):
        ours, bound = whole(exact, "l1_ball", keys, d), plain(keys, d)
        without = whole(free, "l1_ball", keys, d)
        wide = whole(free, "l1_ball", 1, 2_000) / whole(exact, "l1_ball", 1, 2_000)
        for row, found in (
            ((f"{keys:,} learners, d = {d}, exact", "numpy, no privacy", 0.4), ours / bound),
            ((f"{keys:,} learners, d = {d}, projection-free", "exact", 0.8), without / ours),
            (("a learner, d = 2,000, projection-free", "exact", 1.0), wide),
        ):
            pairs.setdefault(row, []).append(found)
    rows = [
        Ratio(what, bound, statistics.median(found), goal)
        for (what, bound, goal), found in pairs.items()
    ]
    write("online_speed", rows, short)


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="ratios alone, one round")
    args = parser.parse_args()
    ratios(args.short)
    if args.short:
        return
    rows: list[dict[str, Any]] = []
    print(
        "key-steps a second" + " " * 12 + "rule alone: exact, free" + " " * 6 + "whole: exact, free"
    )
    for shape, n_keys, d in SIZES:
        found = {
            f"{what}_{short}": measure(name, shape, n_keys, d)
            if what == "rule" or d <= WIDEST
            else 0
            for what, measure in (("rule", alone), ("whole", whole))
            for short, name in (("exact", "follow_the_leader"), ("free", "conditional_gradient"))
        }
        bound = plain(n_keys, d) if shape == "l1_ball" else 0
        row = {"set": shape, "keys": n_keys, "dimension": d, **found, "numpy_bound": bound}
        rows.append(row)
        shown = "".join(
            f"{row[name]:12,.0f}" if row[name] else " " * 11 + "-"
            for name in (*found, "numpy_bound")
        )
        print(f"{shape:8} {n_keys:6,} keys, d = {d:7,}{shown}", flush=True)
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "online_speed.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        out.writeheader()
        for row in rows:
            out.writerow(
                {k: f"{v:.0f}" if isinstance(v, float) else v or "" for k, v in row.items()}
            )


if __name__ == "__main__":
    main()
