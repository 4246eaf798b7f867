"""Releases at every n-th tick: the sums of n leaves, at the noise of fewer releases."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from tests.contracts.cases import same
from weir.dpcore.arrays import arrays_of
from weir.dpcore.bounded_events import Events
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate
from weir.transforms.runtime.codec import pack, restore, unpack

DAY = 86_400_000_000
SECRET = bytes(range(32))
ROOT = RootKey.derive(SECRET, "spaced", bytes(32))
HEAD = """
name: spaced
schema: {time: t}
key: {column: k, KEYS}
clock: {start: 1970-01-01T00:00:00Z, period: PERIOD, end: 1970-03-02T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: WINDOW, relation: replace_one}
"""
BODIES = {
    "aggregates": "aggregates: {s: {sum: u, clip: [0, 2]}, m: {mean: u, clip: [0, 2]}}\n",
    "incremental": """
model: {algorithm: regression.incremental, features: [u, v], target: y, error: true,
  ranges: {u: [0, 2], v: [-1, 3], y: [0, 16]}}
""",
    "two_trees": """
model: {algorithm: regression.two_trees, features: [u, v], target: y,
  ranges: {u: [0, 2], v: [-1, 3], y: [0, 16]}}
""",
    "projected": """
model: {algorithm: regression.projected, features: [u, v], target: y, projection: {dimension: 1},
  ranges: {u: [0, 2], v: [-1, 3], y: [0, 16]}}
""",
}
SLIDING = {
    "aggregates": "aggregates: {s: {sum: u, clip: [0, 2], over: [OVER]}, "
    "m: {mean: u, clip: [0, 2], over: [OVER]}}\n",
    "incremental": BODIES["incremental"].replace("error: true", "error: true, over: OVER"),
    "projected": BODIES["projected"].replace("target: y,", "target: y, over: OVER,"),
}
TICKS = 60


def plan(
    name: str, every: int | None, period: str = "1d", window: str = "all", keys: str = ""
) -> Plan:
    text = HEAD.replace("PERIOD", period).replace("WINDOW", window)
    text = text.replace("KEYS", keys or "declared: [a, b]") + BODIES[name]
    return Plan.from_yaml(text + ("" if every is None else f"release_every: {every}\n"))


def events(n: int = 4000, first: int = 0) -> Events:
    rng = np.random.default_rng(0)
    columns = {"u": rng.uniform(0, 2, n), "v": rng.uniform(-1, 3, n)}
    columns["y"] = 6 + 2 * columns["u"] - columns["v"]
    times = rng.integers(first * DAY, TICKS * DAY, n)
    return Events(times, [("a", "b")[i] for i in rng.integers(0, 2, n)], columns)


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_it_is_what_longer_ticks_release_repeated_in_between(name: str) -> None:
    """Without noise, bit for bit; before the first release there is nothing."""
    made, longer = plan(name, 12), plan(name, None, "12d")
    given = events()
    found = simulate(made, given, SECRET, noise=NoNoise(), stride=TICKS)
    wanted = simulate(longer, given, SECRET, noise=NoNoise(), stride=TICKS)
    for one, two in zip(found, wanted, strict=True):
        for a, b in zip(one.released, two.released, strict=True):
            assert np.isnan(a.value[:11]).all()
            for tick in range(11, TICKS):
                expected = b.value[(tick + 1) // 12 - 1]
                assert a.value[tick].tobytes() == expected.tobytes(), (a.name, tick)


def sliding(name: str, over: str, every: int | None, period: str = "1d") -> Plan:
    text = HEAD.replace("PERIOD", period).replace("WINDOW", "all")
    text = text.replace("KEYS", "declared: [a, b]") + SLIDING[name].replace("OVER", over)
    return Plan.from_yaml(text + ("" if every is None else f"release_every: {every}\n"))


@pytest.mark.parametrize(
    ("name", "over", "spans"),
    [
        ("aggregates", "24", "2"),
        ("aggregates", "all, 36, 12", "all, 3, 1"),
        ("incremental", "24", "2"),
        ("projected", "12", "1"),
    ],
)
def test_the_last_ticks_are_the_last_spans(name: str, over: str, spans: str) -> None:
    """Without noise, bit for bit what longer ticks release; and under the same mechanism."""
    made, longer = sliding(name, over, 12), sliding(name, spans, None, "12d")
    given = events()
    found = simulate(made, given, SECRET, noise=NoNoise(), stride=TICKS)
    wanted = simulate(longer, given, SECRET, noise=NoNoise(), stride=TICKS)
    own: Any = made.program
    assert [info.over for info in made.outputs] == [
        None if info.over is None else info.over * 12 for info in longer.outputs
    ]
    assert own.program.canonical() == longer.program.canonical()
    assert own.loss(25) == longer.program.loss(3)
    for one, two in zip(found, wanted, strict=True):
        for a, b in zip(one.released, two.released, strict=True):
            assert a.over == (None if b.over is None else 12 * b.over)
            for tick in range(11, TICKS):
                expected = b.value[(tick + 1) // 12 - 1]
                assert a.value[tick].tobytes() == expected.tobytes(), (a.name, tick)
    priced = {key for one in made.alternatives for key in one.stddev}
    assert all(key.endswith(tuple(f"over={n.strip()}" for n in over.split(","))) for key in priced)


@pytest.mark.parametrize("name", SLIDING)
def test_a_window_that_is_released_once_costs_what_one_release_costs(name: str) -> None:
    """The last 60 ticks once at their end: the noise of a single release of everything, where a
    window that is released at every tick has more."""
    whole, once = sliding(name, str(TICKS), TICKS), plan(name, None, f"{TICKS}d")
    each = sliding(name, str(TICKS), None)

    def noise(made: Plan, over: int | None, tick: int) -> np.ndarray:
        return made.program.sums[0].stddev(np.array([tick]), over)[0]

    mine, single = noise(whole, 1, 0), noise(once, None, 0)
    np.testing.assert_allclose(mine, single, rtol=1e-6)
    assert (noise(each, TICKS, TICKS - 1) > 1.3 * single)[single > 0].all()
    weekly = sliding(name, "30", 15)
    rare, often = noise(weekly, 2, 3), noise(sliding(name, "30", None), 30, TICKS - 1)
    assert (rare < often)[often > 0].all()


@pytest.mark.parametrize("name", SLIDING)
def test_a_window_of_no_whole_spans_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="must be a multiple of release_every: 12.*write 36") as e:
        sliding(name, "30", 12)
    assert e.value.field == ("aggregates.s.over" if name == "aggregates" else "model.over")


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_all_ticks_at_once_cost_what_one_release_costs(name: str) -> None:
    whole, once = plan(name, TICKS), plan(name, None, f"{TICKS}d")
    every = plan(name, None)
    spread = [made.program.sums[0].stddev(np.zeros(1, int), None)[0] for made in (whole, once)]
    np.testing.assert_allclose(*spread)
    last = every.program.sums[0].stddev(np.array([TICKS - 1]), None)[0]
    noised = last > 0
    assert noised.any() and (last > 1.3 * spread[0])[noised].all()
    assert whole.guarantee.epsilon == once.guarantee.epsilon == 1.0
    assert whole.program.loss(None) == once.program.loss(None)
    assert whole.digest != every.digest


@pytest.mark.parametrize("window", ["all", "7 ticks", "12 ticks", "25 ticks"])
def test_a_record_meets_the_releases_of_its_window(window: str) -> None:
    made = plan("aggregates", 12, window=window)
    own: Any = made.program
    for ticks in (1, 11, 12, 13, 24, 25):
        assert own.loss(ticks) == own.program.loss(-(-ticks // 12))
        most = max(
            sum((at + 1) % 12 == 0 for at in range(start, start + ticks)) for start in range(12)
        )
        assert most == -(-ticks // 12)
    promised = own.loss(None if window == "all" else int(window.split()[0])).epsilon(1e-6)
    assert 0.9 < promised <= 1.0 + 1e-9


@pytest.mark.parametrize("name", BODIES)
def test_strides_keys_and_stored_state_do_not_matter(name: str) -> None:
    program: Any = pickle.loads(pickle.dumps(plan(name, 12).program))
    rng = np.random.default_rng(1)
    leaves = rng.integers(-50, 50, (TICKS, 2, program.dimension))
    keys = [b"a", b"b"]
    whole, noisy = program.step(program.init(2), leaves, lambda p: KeyedNoise(ROOT, p, keys, 0))
    state, at, pieces = program.init(2), 0, []
    for stride in (1, 10, 1, 30, 18):
        state, part = program.step(
            state,
            leaves[at : at + stride],
            lambda p, at=at: KeyedNoise(ROOT, p, keys, at),
        )
        state = restore(program.init(1), unpack(b"T", pack(b"T", arrays_of(state))))
        at += stride
        pieces.append(part)
    assert same(state, whole)
    assert sum(a.nbytes for a in arrays_of(whole)) <= 2 * program.state_bytes()
    for one, parts in zip(noisy, zip(*pieces, strict=True), strict=True):
        assert one.tobytes() == np.concatenate(parts).tobytes()
    late = program.solve(tuple(one[20:31] for one in noisy), np.arange(20, 31))
    for a, b in zip(program.solve(noisy, np.arange(TICKS)), late, strict=True):
        assert a.value[20:31].tobytes() == b.value.tobytes()
    json.dumps(program.canonical(), allow_nan=False)


@pytest.mark.parametrize("name", BODIES)
def test_it_says_of_its_noise_what_the_program_says(name: str) -> None:
    made = plan(name, 12)
    own: Any = made.program
    algorithm, ticks = made.config.algorithm, np.arange(TICKS)
    inner = own.program.describe(np.array([0, 0, 1]))
    for info, one in zip(own.describe(np.array([0, 11, 30])), inner, strict=True):
        for mine, theirs in ((info.inner_stddev, one.inner_stddev),):
            assert mine == theirs or math.isnan(mine) and math.isnan(theirs)
    for info in own.describe(ticks):
        error = algorithm.expected_error(info, ticks).stddev
        assert not error < 0 and error != 0
    said = [*made.warnings, *algorithm.doubts(own, made.config.terms())]
    assert all(isinstance(one, str) for one in [*said, *made.notes])


def test_a_key_that_appears_late_has_its_first_release_at_the_end_of_its_span() -> None:
    made = plan("aggregates", 12, keys="observed_keys_are_public: true")
    found = simulate(made, events(60, first=17), SECRET)
    for one in found:
        value = one.released[0].value[:, 0, 0]
        ticks = one.first_tick + np.arange(len(value))
        assert np.array_equal(np.isnan(value), ticks < 23) and one.first_tick >= 17


def test_sums_that_wait_stay_within_their_bound() -> None:
    program: Any = plan("aggregates", 12).program
    leaves = np.full((11, 1, program.dimension), 1 << 61)
    state, noisy = program.step(program.init(1), leaves, lambda p: NoNoise())
    assert (state.waiting == 1 << 61).all() and np.isnan(noisy[0]).all()


@pytest.mark.parametrize(
    ("name", "every", "words"),
    [
        ("aggregates", 7, "must divide the 60 ticks"),
        ("erm", 12, "model.every sets the ticks"),
        ("blocks", 12, "whose length model.block sets"),
    ],
)
def test_what_is_no_schedule_is_refused(name: str, every: int, words: str) -> None:
    model = BODIES["two_trees"].replace("regression.two_trees", f"regression.{name}")
    bodies = {
        "aggregates": BODIES["aggregates"],
        "erm": model,
        "blocks": "expect: {events: 9}\n"
        + model.replace("regression.blocks", "erm.sliding_window").replace(
            "ranges", "block: 2d, ranges"
        ),
    }
    text = HEAD.replace("PERIOD", "1d").replace("WINDOW", "all")
    text = text.replace("KEYS", "declared: [a]") + bodies[name]
    with pytest.raises(ConfigError, match=words) as caught:
        Plan.from_yaml(f"{text}release_every: {every}\n")
    assert caught.value.field == "release_every"
