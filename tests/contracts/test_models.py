"""Every model of the registry: pure, the same bits however it is cut, within its budget."""

from __future__ import annotations

import json
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.contracts.cases import same
from weir.dpcore.arrays import arrays_of
from weir.dpcore.bounded_events import Events, bounded
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan
from weir.dpcore.registry import MODELS
from weir.dpcore.simulate import leaves_for, simulate
from weir.transforms.runtime.codec import pack, restore, unpack

pytestmark = pytest.mark.slow

START, HOUR, TICKS = 1_704_067_200_000_000, 3_600_000_000, 24
KEYS = ("east", "north", "west")
SECRET = bytes(range(32))
CONFIG = """
name: contract
schema: {{time: t}}
key: {{column: k, declared: [{keys}]}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z}}
privacy: {{epsilon: 2.0, delta: 1e-5, protect_for: all, relation: {relation}}}
model:
  algorithm: {algorithm}
  features: [u, v]
  target: y
  ranges: {{u: [0, 2], v: [-1, 3], y: [0, 16]}}
  set: {{{set}: 2}}
"""
MORE = {
    "regression.projected": "  projection: {dimension: 1}\n",
    "online.follow_the_leader, fading": "  schedule: constant\n  curvature: 4\n",
    "online.follow_the_leader, second order": "  schedule: second_order\n",
    "online.conditional_gradient, second order": "  schedule: second_order\n",
    "erm.sliding_window, steps": "  solver: sgd\n  passes: 2\n",
    "erm.sliding_window, output": "  solver: output\n",
    "erm.sliding_window, moments": "  moments: true\n",
    "regression.erm, frank_wolfe": "  solver: frank_wolfe\n",
    "regression.erm, gradient": "  solver: noisy_projected_gradient\n",
    "optimize.phased_sgd, learned": "  form: learned\n",
    "optimize.phased_sgd, erm": "  form: erm\n  keep: 40\n  loss: absolute\n",
    "optimize.phased_sgd, erm in one pass": "  form: erm\n  passes: 1\n  loss: {quantile: 0.8}\n",
    "optimize.sfw_tree, frank_wolfe": "  form: frank_wolfe\n",
    "optimize.sfw_tree, generalised": "  set: {lp_ball: {radius: 2, p: 1.5}}\n"
    "  noise: generalised_gaussian\n",
    "optimize.sfw_polyhedral, one sample": "  form: one_sample\n",
    "optimize.sfw_polyhedral, tree": "  form: tree\n",
    "optimize.sfw_tree, wide": "",
    "optimize.sfw_polyhedral, wide": "",
    "optimize.phased_sgd, wide": "",
    "optimize.frank_wolfe, laplace": "mechanism: {noise: laplace}\n",
    "optimize.frank_wolfe, sliding": "  window: 3\n  loss: {huber: 0.5}\n",
    "optimize.frank_wolfe, refit": "  terms: 2\n",
}
"""Fewer dimensions than there are features, else it would be regression.incremental; and what makes
a variant of an algorithm."""
FADING = "online.follow_the_leader, fading"
"""The same algorithm under a curvature that fades: another state, another rule."""
ONE_PASS = ("optimize.sfw_tree", "optimize.sfw_polyhedral", "optimize.phased_sgd")
STEPS = "erm.sliding_window, steps"
"""Fits by stochastic steps."""
FORMS = tuple(name for name in MORE if name.startswith(ONE_PASS))
"""Other forms and noises of the same."""
BY_WIDTH = "optimize.frank_wolfe, gaussian"
"""Over a set without vertices, under noise on the gradient."""
BY_RECORDS = "optimize.frank_wolfe, records"
"""Windows of so many records."""
WIDE = "optimize.frank_wolfe, wide"
"""Of sparse rows, as are all whose name ends so."""
REFIT = "optimize.frank_wolfe, refit"
WINDOWS = ("optimize.frank_wolfe, laplace", "optimize.frank_wolfe, sliding", BY_WIDTH, WIDE, REFIT)
"""Other noises, windows and rows of the same."""
SIZE = 5000
"""Features of the sparse rows: u and v are two of them, the others are 0."""
PLACED = ("erm.sampled", STEPS, *ONE_PASS, *FORMS, BY_RECORDS)
"""Of records in order, alone: void rows take places, and only replace_one is served."""
SECOND = "online.follow_the_leader, second order"
"""Sums of products next to the gradients, and a system at every tick."""
BY_ORACLE = "online.conditional_gradient, second order"
"""The same, approached by a linear oracle."""
ITERATES = "online.pocg, fading"
"""The mean of noisy iterates."""
BY_SOLVER = "regression.erm, frank_wolfe"
BY_GRADIENT = "regression.erm, gradient"
MOMENTS = "erm.sliding_window, moments"
OUTPUT = "erm.sliding_window, output"
"""Certified minimisers with noise; the default are noisy steps."""
NAMES = (
    *(*MODELS, FADING, SECOND, BY_ORACLE, ITERATES, STEPS, OUTPUT, MOMENTS, BY_SOLVER, BY_GRADIENT),
    *(*FORMS, *WINDOWS, BY_RECORDS),
)
COUNTED = tuple(name for name in NAMES if name not in PLACED)
RELATIONS = ("add_remove", "replace_one", "replace_anywhere")
SERVED = [
    (name, relation)
    for name in NAMES
    for relation in RELATIONS
    if relation == "replace_one" or name not in PLACED
]
"""Every model, under every relation that it serves."""
L1 = ("online.conditional_gradient", "optimize.frank_wolfe")
"""Models over the l1 ball here."""
BLOCKS = tuple(name for name in NAMES if name.startswith(("erm.", "optimize.frank_wolfe")))
"""Models of blocks of records: of ticks here, so that every relation is served."""
PACKED = ("regression.erm", BY_SOLVER, BY_GRADIENT, "regression.naive", *BLOCKS, *ONE_PASS, *FORMS)
"""Models that keep the rows of a block in one array, key after key."""


def config_of(name: str, relation: str, keys: tuple[str, ...]) -> str:
    """A config of a model, or of a variant of one."""
    algorithm = name.partition(",")[0]
    ball = "l1_ball" if algorithm in L1 and name != BY_WIDTH else "l2_ball"
    text = CONFIG.format(algorithm=algorithm, relation=relation, keys=", ".join(keys), set=ball)
    own = f"  set: {{{ball}: 2}}\n"
    if name in PLACED:
        assert relation == "replace_one"
        text = text.replace("{time: t}", "{time: t, id: i}")
    if algorithm in ONE_PASS:
        text = text.replace(own, f"  records: {32 if 'learned' in name else 20}\n")
    elif name in PLACED or name in BLOCKS:
        free = algorithm.startswith("erm.")
        size = "5" if name in PLACED else "2h"
        text = text.replace(own, f"  block: {size}\n" + ("" if free else own))
        if name not in PLACED:
            text = text.replace("model:", "expect: {events: 4}\nmodel:")
    if name.endswith(", wide"):
        text = text.replace("[u, v]", f"{{column: x, size: {SIZE}}}")
        text = text.replace("u: [0, 2], v: [-1, 3]", "x: [-3, 3]")
    if name == ITERATES:
        text = text.replace("model:", "expect: {events: 4}\nmodel:")
    return text + MORE.get(name, "")


@cache
def plan(name: str, relation: str = "replace_one", keys: tuple[str, ...] = KEYS) -> Plan:
    return Plan.from_yaml(config_of(name, relation, keys))


def events(n: int = 300, seed: int = 1, keys: tuple[str, ...] = KEYS) -> Events:
    """About four events a key and tick, some bad."""
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(-0.5, 2.5, n), rng.uniform(-1, 3, n)
    u[::17] = np.nan
    return Events(
        START + rng.integers(0, TICKS * HOUR, n),
        [keys[i] for i in rng.integers(0, len(keys), n)],
        with_rows({"u": u, "v": v, "y": 6 + 2 * u - v + rng.normal(size=n)}),
        [str(i) for i in range(n)],
    )


def with_rows(columns: dict[str, Any]) -> dict[str, Any]:
    """The columns u, v and y, and sparse rows x of u and v."""
    found = {name: columns[name] for name in ("u", "v", "y")}
    values = np.stack([found["u"], found["v"]], axis=1)
    places = np.tile(np.array([3, SIZE - 1], dtype=np.int32), len(values))
    offsets = 2 * np.arange(len(values) + 1)
    return {**found, "x": SparseRows(offsets, places, values.ravel(), SIZE)}


def taken(given: Events, which: Any) -> Events:
    return Events(
        given.times[which],
        [given.keys[i] for i in which],  # type: ignore[index]
        {name: column[which] for name, column in given.columns.items()},
        [given.ids[i] for i in which],  # type: ignore[index]
    )


def stepped(made: Plan, strides: tuple[int, ...], program: Any = None) -> tuple[Any, list[Any]]:
    """State at the end, and the noisy arrays over all ticks."""
    program = made.program if program is None else program
    bound = bounded(made, events(), TICKS)
    leaves = leaves_for(made, bound, TICKS, SECRET)(list(range(len(KEYS))))
    root = RootKey.derive(SECRET, made.name, bytes.fromhex(made.digest))
    state, at, pieces = program.init(len(KEYS)), 0, []
    for stride in strides:

        def noise(part: int, at: int = at) -> Any:
            return KeyedNoise(root, part, list(bound.names), at)

        given, before = leaves(at, at + stride), [array.tobytes() for array in arrays_of(state)]
        data = pickle.dumps(given)
        new, noisy = program.step(state, given, noise)
        assert before == [array.tobytes() for array in arrays_of(state)]
        assert pickle.dumps(given) == data
        state = new
        pieces.append(noisy)
        at += stride
    return state, [np.concatenate(parts) for parts in zip(*pieces, strict=True)]


def alike(one: Any, two: Any) -> bool:
    """Whether simulated releases are the same bits."""
    pairs = [
        (x.value.tobytes(), y.value.tobytes())
        for a, b in zip(one, two, strict=True)
        for x, y in zip(a.released, b.released, strict=True)
    ]
    return [a.key for a in one] == [b.key for b in two] and all(x == y for x, y in pairs)


@pytest.mark.parametrize(("name", "relation"), SERVED)
def test_the_budget_is_kept_and_used(name: str, relation: str) -> None:
    made = plan(name, relation)
    spent = made.program.loss(None).epsilon(1e-5)
    assert 0 < spent <= 2 * (1 + 1e-9)
    losses = [made.program.loss(n).value for n in (0, 1, 2, TICKS, None)]
    assert losses[0] == 0 and losses == sorted(losses)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_described_is_what_is_released(name: str) -> None:
    made = plan(name)
    infos = made.program.describe(np.arange(TICKS))
    at_one_tick = made.program.describe(np.zeros(1, dtype=np.int64))
    assert [info.labels for info in at_one_tick] == [info.labels for info in infos]
    for one in simulate(made, events(), SECRET):
        assert [(r.name, r.over) for r in one.released] == [(i.name, i.over) for i in infos]
        for release, info in zip(one.released, infos, strict=True):
            assert release.value.shape == (TICKS, 1, info.dimension)
            assert len(info.labels) == info.dimension == len(set(info.labels))
            assert not np.isinf(release.value).any()
            told = ~np.isnan(release.value).any(axis=(1, 2))
            assert told[-1] and (np.diff(told.astype(int)) >= 0).all()
            assert told.all() or name in (*BLOCKS, *PLACED)  # nothing before the first block
            assert release.stddev is None or release.stddev.shape == release.value.shape


@pytest.mark.parametrize("name", NAMES)
def test_the_canonical_plan_is_plain_and_stable(name: str) -> None:
    made = plan(name)
    text = json.dumps(made.program.canonical(), sort_keys=True, allow_nan=False)
    again = pickle.loads(pickle.dumps(made.program))
    assert json.dumps(again.canonical(), sort_keys=True) == text
    for other in NAMES:
        same_program = plan(other).program.canonical() == made.program.canonical()
        assert (plan(other).digest == made.digest) == same_program
    assert plan(name, keys=(*KEYS, "south")).digest == made.digest


@pytest.mark.parametrize("name", NAMES)
def test_strides_and_pickles_do_not_matter(name: str) -> None:
    made = plan(name)
    state, noisy = stepped(made, (TICKS,))
    copied = pickle.loads(pickle.dumps(made.program))
    for strides in ((1,) * TICKS, (5, 1, 18)):
        other, cut = stepped(made, strides, copied)
        assert same(state, other)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(noisy, cut, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_state_survives_the_codec_and_is_as_large_as_stated(name: str) -> None:
    made = plan(name)
    state, _ = stepped(made, (TICKS,))
    arrays = arrays_of(state)
    restored = restore(made.program.init(1), unpack(b"T", pack(b"T", arrays)))
    assert same(state, restored)
    assert sum(a.nbytes for a in arrays) <= made.program.state_bytes() * len(KEYS)
    assert name in PACKED or all(len(a) == len(KEYS) for a in arrays)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_events_and_other_keys_do_not_matter(name: str) -> None:
    made, given = plan(name), events()
    whole = simulate(made, given, SECRET)
    mixed = np.random.default_rng(5).permutation(len(given.times))
    assert alike(whole, simulate(made, taken(given, mixed), SECRET))
    mine = np.flatnonzero(np.array(given.keys) == "north")
    few = simulate(made, taken(given, mine), SECRET)
    assert alike([one for one in whole if one.key == "north"], few[1:2])
    more = simulate(plan(name, keys=("a", *KEYS, "south")), given, SECRET)
    assert alike(whole, [one for one in more if one.key in KEYS])


@pytest.mark.parametrize("name", NAMES)
def test_solving_is_stateless(name: str) -> None:
    made = plan(name)
    _, noisy = stepped(made, (TICKS,))
    whole = made.program.solve(tuple(noisy), np.arange(TICKS))
    late = made.program.solve(tuple(part[9:13] for part in noisy), np.arange(9, 13))
    for one, part in zip(whole, late, strict=True):
        assert one.value[9:13].tobytes() == part.value.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_no_event_changes_what_was_released_before_it(name: str) -> None:
    made, given = plan(name), events(600 if name in PLACED else 6000)
    early = taken(given, np.flatnonzero(given.times < START + 10 * HOUR))
    whole, cut = simulate(made, given, SECRET), simulate(made, early, SECRET)
    for one, two in zip(whole, cut, strict=True):
        pairs = [(a.value, b.value) for a, b in zip(one.released, two.released, strict=True)]
        assert all(a[:10].tobytes() == b[:10].tobytes() for a, b in pairs)
        changed = any(a[10:].tobytes() != b[10:].tobytes() for a, b in pairs)
        assert changed == (name != "erm.output_perturbation")  # of the first block alone
