"""A plan of every registered algorithm, with the digest and the bits that its version must keep.

``python -m tests.contracts.versions`` adds what is missing; until a version is released, what it
has may be removed from the file and made again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from weir.dpcore.aggregates.bounding import GATE
from weir.dpcore.bounded_events import Events, bounded
from weir.dpcore.config.schema import PLAN_VERSION
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.noise.noise import is_pure
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan, sha_of
from weir.dpcore.registry import CONTINUAL_SUMS, MODELS, SOLVERS
from weir.dpcore.simulate import leaves_for, simulate

GOLDEN = Path(__file__).parent / "versions.json"
"""Case -> version -> what ``kept`` has. A version that plans run under never changes in here."""

VERSIONS = tuple(str(version) for version in range(1, PLAN_VERSION + 1))

SECRET, TICKS = bytes(range(32)), 24
START, HOUR = 1_704_067_200_000_000, 3_600_000_000
BY_MATRICES = ("regression.incremental", "regression.projected")
"""Their coefficients come out of products of matrices, which every kind of processor rounds its own
way. What these are given is the same on all."""
KEYS = ("east", "north", "west")
HEAD = """
name: golden
schema: {time: t}
key: {column: k, declared: [east, north, west]}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z}
privacy: {epsilon: 2.0, delta: 1e-5, protect_for: 16 ticks}
"""
AGGREGATES = """
aggregates:
  visits: {count: events, over: [OVER]}
  paid: {sum: y, clip: [0, 10], over: [OVER]}
  usual: {mean: y, clip: [0, 10], missing: 0, over: [OVER]}
  spread: {variance: y, clip: [0, 10], missing: 0, over: [OVER]}
  sizes: {histogram: y, edges: [0, 4, 8, 16], over: [OVER]}
"""
QUANTILES = """
aggregates:
  paid: {quantile: y, at: [0.5, 0.9], edges: {log: [1, 20, 24]}, over: [all, 5]}
"""
GATES = """
aggregates:
  visits: {count: events}
  dear: {count: events, where: y > 5}
  usual: {mean: y, clip: [0, 10], missing: 0, where: y > 5}
"""
PRESENT = """
aggregates:
  visits: {count: events, over: [all, 5]}
  paid: {sum: y, clip: [1, 10]}
  usual: {mean: y, clip: [1, 10]}
  spread: {variance: y, clip: [0, 10], where: y > 5}
"""
GROUPS = "k, declared: [east, north, west], groups: [[k], []]"
MODEL = """
model:
  algorithm: NAME
  features: [u, v]
  target: y
  ranges: {u: [0, 2], v: [-1, 3], y: [0, 16]}
  set: {SET: 2}
"""
PEOPLE = """
name: golden
schema: {time: t, id: i, unit: w}
key: {column: k, declared: [east, north, west]}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z}
privacy: {epsilon: 2.0, delta: 1e-5, protect_for: 10 ticks, unit: user, per: 8h,
          contributions: {ticks: 4, spacing: 1, keys: 2, events: 2, ticks_per_key: 3}}
"""
USERS = """
aggregates:
  visits: {count: events, over: [OVER]}
  paid: {sum: y, clip_user: [0, 20], over: [OVER]}
  usual: {mean: y, clip: [0, 10], of: users, missing: 0, over: [OVER]}
"""
COUNTED = """  people: {count: users, over: 1}
  newcomers: {count: users, per: period}
"""
L1 = ("online.conditional_gradient", "optimize.frank_wolfe")
MORE = {"regression.projected": "  projection: {dimension: 1}\n"}
LINEAR = ("online.follow_the_leader", "online.pftal", "online.conditional_gradient")
"""Learners that count events where nothing says how many there are."""


WIDE = 5000
"""Features of a case with sparse rows."""

SPANS: dict[str, tuple[int | None]] = {"all": (None,), "5": (5,), "1": (1,)}


def configs() -> Iterator[tuple[str, str]]:
    """(case, config) of every algorithm, without its version."""
    # Where pure noise is the better one, a plan that names none no longer takes Gaussian noise.
    gaussian = "mechanism: {noise: gaussian}\n"
    yield "quantiles", HEAD + QUANTILES + gaussian
    yield "gates", HEAD + GATES
    yield "present", HEAD + PRESENT
    grouped = HEAD.replace("k, declared: [east, north, west]", GROUPS)
    yield "groups", grouped + AGGREGATES.replace("OVER", "all, 5")
    yield "chosen", HEAD + AGGREGATES.replace("OVER", "all, 5")
    for name in CONTINUAL_SUMS.own:
        over = next(text for text in SPANS if CONTINUAL_SUMS[name].serves(SPANS[text]))
        for noise in CONTINUAL_SUMS[name].kinds:
            text = HEAD + AGGREGATES.replace("OVER", over)
            text += f"mechanism: {{continual_sum: {name}, noise: {noise}}}\n"
            if is_pure(noise):
                text = text.replace("delta: 1e-5", "delta: 0")
            yield f"{name}/{noise}", text
    for name in MODELS.own:
        ball = "l1_ball" if name in L1 else "l2_ball"
        text = HEAD.replace("protect_for: 16 ticks", "protect_for: all") + MODEL.replace(
            "NAME", name
        )
        text = text.replace("SET", ball) + MORE.get(name, "")
        if name in ("optimize.sfw_tree", "optimize.sfw_polyhedral", "optimize.phased_sgd"):
            text = text.replace("  set: {l2_ball: 2}\n", "  records: 20\n")
            text = text.replace("{time: t}", "{time: t, id: i}")
            wide = text.replace("[u, v]", f"{{column: x, size: {WIDE}}}").replace("{u:", "{x:")
            yield f"{name}/wide", wide.replace("x: [0, 2], v: [-1, 3]", "x: [-3, 3]")
        elif name == "erm.sampled":
            text = text.replace("  set: {l2_ball: 2}\n", "  block: 5\n")
            text = text.replace("{time: t}", "{time: t, id: i}")
        elif name.startswith("erm."):
            text = text.replace("  set: {l2_ball: 2}\n", "  block: 2h\n")
            text = text.replace("model:", "expect: {events: 4}\nmodel:")
        elif name == "optimize.frank_wolfe":
            text = text.replace("model:", "expect: {events: 4}\nmodel:") + "  block: 2h\n"
            for noise in ("laplace", "gaussian", "discrete_gaussian"):
                yield f"{name}/{noise}", f"{text}mechanism: {{noise: {noise}}}\n"
            pure = text.replace("delta: 1e-5", "delta: 0")
            yield f"{name}/k_norm", f"{pure}mechanism: {{noise: k_norm}}\n"
            yield f"{name}/sliding", f"{text}  window: 3\n  loss: {{huber: 0.5}}\n"
            yield f"{name}/refit", f"{text}  terms: 2\n"
            wide = text.replace("[u, v]", f"{{column: x, size: {WIDE}}}").replace("{u:", "{x:")
            yield f"{name}/wide", wide.replace("x: [0, 2], v: [-1, 3]", "x: [-3, 3]")
        if name.startswith("erm.") and name != "erm.sampled":
            yield f"{name}/output", f"{text}  solver: output\n  regularise: 0.1\n"
        if name in ("erm.output_perturbation", "erm.sliding_window"):
            yield f"{name}/moments", f"{text}  moments: true\n"
        if name in ("erm.output_perturbation", "erm.independent_batches"):
            yield f"{name}/lambda", f"{text}  solver: output\n"
        if name == "erm.sliding_window":
            placed = text.replace("{time: t}", "{time: t, id: i}").replace("2h", "5")
            yield f"{name}/sgd", f"{placed}  solver: sgd\n"
        if name == "optimize.phased_sgd":
            yield f"{name}/learned", text.replace("records: 20", "records: 32\n  form: learned")
            yield f"{name}/erm", f"{text}  form: erm\n  keep: 40\n  loss: absolute\n"
            yield f"{name}/erm_once", f"{text}  form: erm\n  passes: 1\n  loss: hinge\n"
        if name == "optimize.sfw_polyhedral":
            yield f"{name}/one_sample", f"{text}  form: one_sample\n"
            yield f"{name}/tree", f"{text}  form: tree\n"
        if name == "optimize.sfw_tree":
            yield f"{name}/frank_wolfe", f"{text}  form: frank_wolfe\n"
            ball = "  set: {lp_ball: {radius: 2, p: 1.5}}\n"
            yield f"{name}/generalised", f"{text}{ball}  noise: generalised_gaussian\n"
        yield name, f"{text}  schedule: linear\n" if name in LINEAR else text
        if name in LINEAR:
            yield f"{name}/counted", text
        if name.startswith("online."):  # which chooses other rules, and others in each version
            yield f"{name}/expected", text.replace("model:", "expect: {events: 4}\nmodel:")
            loud = text.replace("model:", "expect: {events: 4}\nmodel:")
            loud = loud.replace("epsilon: 2.0", "epsilon: 300.0")
            yield f"{name}/quiet", loud + gaussian
        if name == "regression.erm":
            for solver in SOLVERS.own:
                yield f"{name}/{solver}", f"{text}  solver: {solver}\n"
    yield from of_people()


def of_people() -> Iterator[tuple[str, str]]:
    """(case, config) of what serves users, and of keys that are found."""
    for name in CONTINUAL_SUMS.own:
        cls = CONTINUAL_SUMS[name]
        if cls.patterned:
            over = next(text for text in ("all", "5", "1") if cls.serves(SPANS[text]))
            for noise in cls.kinds:
                text = PEOPLE + USERS.replace("OVER", over)
                text += f"mechanism: {{continual_sum: {name}, noise: {noise}}}\n"
                if is_pure(noise):
                    text = text.replace("delta: 1e-5", "delta: 0")
                if name == "ended":
                    text = re.sub(r"protect_for: \w+ ticks", "protect_for: all", text)
                yield f"users/{name}/{noise}", text
    for name in MODELS.own:
        if not MODELS[name].event_only:
            text = PEOPLE + MODEL.replace("NAME", name).replace("SET", "l2_ball")
            if name == "online.conditional_gradient":
                text = text.replace("l2_ball", "l1_ball")
            if name.startswith("erm."):
                text = text.replace("  set: {l2_ball: 2}\n", "  block: 2h\n  users: 9\n")
                yield f"users/{name}/output", f"{text}  solver: output\n  regularise: 0.1\n"
            if name == "optimize.frank_wolfe":
                text = text.replace("l2_ball", "l1_ball") + "  block: 2h\n  users: 9\n"
                yield f"users/{name}/gaussian", f"{text}mechanism: {{noise: gaussian}}\n"
            if name in LINEAR:
                yield f"users/{name}/counted", text
                text += "  schedule: linear\n"
            yield f"users/{name}", text + MORE.get(name, "")
    found = PEOPLE.replace("declared: [east, north, west]", "discover: {min_users: 3}")
    found = found.replace("epsilon: 2.0", "epsilon: 90.0")  # so that there is a key
    yield "users/discover", found + USERS.replace("OVER", "all") + COUNTED
    several = "k, groups: [[], [k]], weights: [1, 3], "
    grouped = PEOPLE.replace("k, ", several)
    yield "users/groups", grouped + USERS.replace("OVER", "all, 5") + COUNTED
    learn = "aggregates: {paid: {sum: y, clip: {learn: {ticks: 8, top: 1000, start: 1}}}}\n"
    yield "users/learned", PEOPLE + learn
    yield "learned", HEAD + learn
    yield "users/active_users", PEOPLE + "aggregates: {active: {count: users, over: [2, 5]}}\n"


def kept(config: str, version: int) -> list[str]:
    """Digest of a plan, and hash of what its program puts out over some events; then the same of
    the plan whose canonical form has no version, which a new number alone does not change."""
    plan = planned(config, version)
    same = copy(plan)
    shape = {name: value for name, value in plan.canonical.items() if name != "version"}
    vars(same)["digest"] = sha_of(shape)
    return [plan.digest, output_of(plan), same.digest, output_of(same)]


def output_of(plan: Plan) -> str:
    """Hash of what a plan's program puts out over some events."""
    rng = np.random.default_rng(1)
    u, v = rng.uniform(-0.5, 2.5, 300), rng.uniform(-1, 3, 300)
    y = np.round(6 + 2 * u - v, 3)
    places = np.tile(np.array([3, WIDE - 1], dtype=np.int32), 300)
    x = SparseRows(np.arange(301) * 2, places, np.stack([u, v], axis=1).ravel(), WIDE)
    events = Events(
        START + rng.integers(0, TICKS * HOUR, 300),
        [KEYS[i] for i in rng.integers(0, len(KEYS), 300)],
        {"u": u, "v": v, "x": x, "y": y, f"{GATE}y > 5": (y > 5).astype(float)},
        None if plan.config.schema_.id is None else [f"e{i}" for i in range(300)],
    )
    if plan.person is not None:
        users = [f"u{i}" for i in rng.integers(0, 60, 300)]
        return bits_of(plan, replace(events, users=users))
    if plan.keys.groups:
        return bits_of(plan, events)
    bound = bounded(plan, events, TICKS)
    leaves = leaves_for(plan, bound, TICKS, SECRET)(list(range(len(KEYS))))
    root = RootKey.derive(SECRET, plan.name, bytes.fromhex(plan.digest))
    _, noisy = plan.program.step(
        plan.program.init(len(KEYS)),
        leaves(0, TICKS),
        lambda part: KeyedNoise(root, part, list(bound.names), 0),
    )
    bits = hashlib.sha256(b"".join(array.tobytes() for array in noisy))
    return bits.hexdigest()[:32]


def bits_of(plan: Plan, events: Events) -> str:
    """Hash of all releases of events of users, or of what they are solved from, noise and all."""
    found = hashlib.sha256()
    program = type(plan.program)
    solve = program.solve

    def noted(self: Any, noisy: Any, ticks: Any) -> Any:
        for array in noisy:
            found.update(np.ascontiguousarray(array).tobytes())
        return solve(self, noisy, ticks)

    model = plan.config.model is not None and plan.config.model.algorithm in BY_MATRICES
    with patch.object(program, "solve", noted) if model else nullcontext():
        lives = simulate(plan, events, SECRET)
    assert lives, "a case without releases would hold nothing"
    for one in lives:
        found.update(f"{one.key} {one.first_tick}".encode())
        for released in () if model else one.released:
            found.update(np.ascontiguousarray(released.value).tobytes())
    return found.hexdigest()[:32]


@cache
def planned(config: str, version: int) -> Plan:
    """The plan of a config under a version, made once for all tests of a process."""
    return Plan.from_yaml(f"version: {version}\n{config}")


def golden() -> dict[str, dict[str, list[str]]]:
    """What is kept."""
    found: dict[str, dict[str, list[str]]] = json.loads(GOLDEN.read_text())
    return found


def add() -> None:
    """Writes what is missing: a new algorithm, or a new version. What is there stays."""
    found = golden()
    for name, config in configs():
        for version in VERSIONS:
            if version not in found.setdefault(name, {}):
                found[name][version] = kept(config, int(version))
    names = dict(configs())  # in their order: a new algorithm's line lies next to its kind's
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found[name])}" for name in names)
    GOLDEN.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    add()
