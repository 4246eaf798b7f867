"""How many steps a second does an online learner take, and when is projecting too expensive?

A step: one event's gradient at the released model, clipped, summed exactly, noised by a continual
sum (blt, W = 256) with keyed noise, and the next model. The ratios: 10,000 keys of dimension 20
compared with a bound, and projection-free steps with exact projection there and at 2,000 features.
The bound is plain numpy: float sums, numpy's own generator, independent noise, a projection by
sorting, one event a key; no lattice, no keyed noise, no grid, nothing that a retry would repeat.
The table, which the short form leaves out: single keys of growing dimension over the l1 ball, the
rule alone and the whole step; then the keys of the ratios; then the same ball as a polytope of 2 d
vertices, onto which nothing projects quickly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import Bench, main, progress, rate
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.polytope import Polytope
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.kit.loss import Squared
from weir.dpcore.models.kit.rows import Scaling
from weir.dpcore.models.online.conditional_gradient import ConditionalGradient
from weir.dpcore.models.online.program import Learner
from weir.dpcore.models.online.rule import FollowTheLeader
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.registry import CONTINUAL_SUMS

EXACT, FREE = "follow_the_leader", "conditional_gradient"
SIZES = (
    *(("l1_ball", 1, d) for d in (10, 100, 1_000, 10_000, 100_000)),
    ("l1_ball", 10_000, 20),
    *(("polytope", n_keys, 8) for n_keys in (1, 1_000)),
)
WIDEST = 10_000
"""Beyond, only the rule is measured: keyed noise and a leaf's digest are nearly all of a step."""
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
    cls = FollowTheLeader if name == EXACT else ConditionalGradient
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

    return rate(step, STRIDE * n_keys, cpu=True)


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

    return rate(step, STRIDE * n_keys, cpu=True)


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

    return rate(step, STRIDE * n_keys, cpu=True)


def measure(bench: Bench) -> None:
    """Ratios of neighbours, then the table."""
    keys, d, wide = 10_000, 20, 2_000
    taken: dict[str, list[float]] = {}
    for _ in progress(range(1 if bench.short else bench.rounds), "rounds"):
        for name, found in (
            ("exact", whole(EXACT, "l1_ball", keys, d)),
            ("numpy", plain(keys, d)),
            ("free", whole(FREE, "l1_ball", keys, d)),
            ("wide free", whole(FREE, "l1_ball", 1, wide)),
            ("wide exact", whole(EXACT, "l1_ball", 1, wide)),
        ):
            taken.setdefault(name, []).append(1 / found)
    learners, one = f"{keys:,} learners, d = {d}", f"a learner, d = {wide:,}"
    bench.note(f"{learners}, exact", "numpy, no privacy", taken["exact"], taken["numpy"], 0.4)
    bench.note(f"{learners}, projection-free", "exact", taken["free"], taken["exact"], 0.8)
    bench.note(f"{one}, projection-free", "exact", taken["wide free"], taken["wide exact"], 1.0)
    for shape, n_keys, d in () if bench.short else SIZES:
        where = shape, n_keys, d
        bench.row(
            set=shape,
            keys=n_keys,
            dimension=d,
            rule_exact=alone(EXACT, *where),
            rule_free=alone(FREE, *where),
            whole_exact=whole(EXACT, *where) if d <= WIDEST else None,
            whole_free=whole(FREE, *where) if d <= WIDEST else None,
            numpy_bound=plain(n_keys, d) if shape == "l1_ball" else None,
        )


if __name__ == "__main__":
    main(measure)
