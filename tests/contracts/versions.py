"""A plan of every registered algorithm, with the digest and the bits that its version must keep.

``python -m tests.contracts.versions`` adds what is missing; until a version is released, what it
has may be removed from the file and made anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dpcore.config.version import PLAN_VERSION
from dpcore.noise.prf import KeyedNoise, RootKey
from dpcore.plan import Plan
from dpcore.registry import CONTINUAL_SUMS, MODELS, SOLVERS
from dpcore.simulate import Events, bounded, leaves_for

GOLDEN = Path(__file__).parent / "versions.json"
"""Case -> version -> [digest, bits]. A version that plans run under never changes in here."""

VERSIONS = tuple(str(version) for version in range(1, PLAN_VERSION + 1))

SECRET, TICKS = bytes(range(32)), 24
START, HOUR = 1_704_067_200_000_000, 3_600_000_000
KEYS = ("east", "north", "west")
HEAD = """
name: golden
schema: {time: t}
key: {column: k, declared: [east, north, west]}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z}
privacy: {epsilon: 2.0, delta: 1e-5, protect_for: 16}
"""
AGGREGATES = """
aggregates:
  visits: {count: events, over: [OVER]}
  paid: {sum: y, clip: [0, 10], over: [OVER]}
  usual: {mean: y, clip: [0, 10], over: [OVER]}
  spread: {variance: y, clip: [0, 10], over: [OVER]}
  sizes: {histogram: y, edges: [0, 4, 8, 16], over: [OVER]}
"""
MODEL = """
model:
  algorithm: NAME
  features: [u, v]
  target: y
  ranges: {u: [0, 2], v: [-1, 3], y: [0, 16]}
  set: {SET: 2}
"""
MORE = {"regression.projected": "  projection: {dimension: 1}\n"}


def configs() -> Iterator[tuple[str, str]]:
    """(case, config) of every algorithm, without its version."""
    yield "chosen", HEAD + AGGREGATES.replace("OVER", "all, 5")
    for name in CONTINUAL_SUMS.own:
        spans = {"all": (None,), "5": (5,), "1": (1,)}
        over = next(text for text in spans if CONTINUAL_SUMS[name].serves(spans[text]))
        for noise in CONTINUAL_SUMS[name].kinds:
            text = HEAD + AGGREGATES.replace("OVER", over)
            text += f"mechanism: {{continual_sum: {name}, noise: {noise}}}\n"
            if noise == "k_norm":
                text = text.replace("delta: 1e-5", "delta: 0")
            yield f"{name}/{noise}", text
    for name in MODELS.own:
        ball = "l1_ball" if name == "online.conditional_gradient" else "l2_ball"
        text = HEAD.replace("protect_for: 16", "protect_for: all") + MODEL.replace("NAME", name)
        text = text.replace("SET", ball) + MORE.get(name, "")
        if name == "erm.sampled":
            text = text.replace("  set: {l2_ball: 2}\n", "  block: 5\n")
            text = text.replace("{time: t}", "{time: t, id: i}")
        elif name.startswith("erm."):
            text = text.replace("  set: {l2_ball: 2}\n", "  block: 2h\n")
            text = text.replace("model:", "expect: {events: 4}\nmodel:")
        yield name, text
        if name == "regression.erm":
            for solver in SOLVERS.own:
                yield f"{name}/{solver}", f"{text}  solver: {solver}\n"


def kept(plan: Plan) -> list[str]:
    """Digest of a plan, and hash of what its program puts out over some events."""
    rng = np.random.default_rng(1)
    u, v = rng.uniform(-0.5, 2.5, 300), rng.uniform(-1, 3, 300)
    events = Events(
        START + rng.integers(0, TICKS * HOUR, 300),
        [KEYS[i] for i in rng.integers(0, len(KEYS), 300)],
        {"u": u, "v": v, "y": np.round(6 + 2 * u - v, 3)},
        None if plan.config.schema_.id is None else [f"e{i}" for i in range(300)],
    )
    bound = bounded(plan, events, TICKS)
    leaves = leaves_for(plan, bound, TICKS, SECRET)(list(range(len(KEYS))))
    root = RootKey.derive(SECRET, plan.name, bytes.fromhex(plan.digest))
    _, noisy = plan.program.step(
        plan.program.init(len(KEYS)),
        leaves(0, TICKS),
        lambda part: KeyedNoise(root, part, list(bound.names), 0),
    )
    bits = hashlib.sha256(b"".join(array.tobytes() for array in noisy))
    return [plan.digest, bits.hexdigest()[:32]]


def planned(config: str, version: int) -> Plan:
    """The plan of a config under a version."""
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
                found[name][version] = kept(planned(config, int(version)))
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found[name])}" for name in found)
    GOLDEN.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    add()
