"""One-pass models as programs: pure, the same bits however they are cut, small in state."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.constant_noise import NoNoise
from tests.contracts.cases import same
from tests.dpcore.models.optimize.arrays import fit
from tests.dpcore.models.optimize.instances import CASES, plan, program, read, rows_for
from weir.dpcore.arrays import arrays_of
from weir.dpcore.bounded_events import Events, bounded
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.kit.loss import Hinge, Huber, Logistic, MoreauEnvelope, Squared
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import leaves_for, simulate
from weir.transforms.runtime.codec import pack, restore, unpack

START, HOUR, TICKS = 1_704_067_200_000_000, 3_600_000_000, 24
KEYS = ("east", "north", "west")
SECRET = bytes(range(32))


def events(n: int = 300, seed: int = 1, keys: tuple[str, ...] = KEYS, d: int = 2) -> Events:
    """About a hundred events a key, some void."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.2, 1.2, (n, d))
    columns = {f"x{j}": x[:, j].copy() for j in range(d)}
    columns["x0"][::17] = np.nan
    columns["y"] = x[:, 0] / 2 - x[:, 1 % d] / 4 + rng.normal(size=n) / 9
    return Events(
        START + rng.integers(0, TICKS * HOUR, n),
        [keys[i] for i in rng.integers(0, len(keys), n)],
        columns,
        [f"e{i}" for i in range(n)],
    )


def taken(given: Events, which: Any) -> Events:
    assert given.ids is not None
    return Events(
        given.times[which],
        [given.keys[i] for i in which],  # type: ignore[index]
        {name: column[which] for name, column in given.columns.items()},
        [given.ids[i] for i in which],
    )


def alike(one: Any, two: Any) -> bool:
    pairs = [
        (x.value.tobytes(), y.value.tobytes())
        for a, b in zip(one, two, strict=True)
        for x, y in zip(a.released, b.released, strict=True)
    ]
    return [a.key for a in one] == [b.key for b in two] and all(x == y for x, y in pairs)


def stepped(made: Plan, strides: tuple[int, ...], given: Events) -> tuple[Any, list[Any]]:
    """State at the end, and the noisy arrays over all ticks."""
    run: Any = made.program
    bound = bounded(made, given, TICKS)
    leaves = leaves_for(made, bound, TICKS, SECRET)(list(range(len(KEYS))))
    root = RootKey.derive(SECRET, made.name, bytes.fromhex(made.digest))
    state, at, found = run.init(len(KEYS)), 0, []
    for stride in strides:
        before = [array.copy() for array in arrays_of(state)]
        new, noisy = run.step(
            state,
            leaves(at, at + stride),
            lambda part, at=at: KeyedNoise(root, part, list(bound.names), at),
        )
        assert all(map(np.array_equal, before, arrays_of(state)))
        state, at = new, at + stride
        found.append(noisy)
    return state, [np.concatenate(parts) for parts in zip(*found, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_strides_codecs_and_pickles_do_not_matter(case: str) -> None:
    made, given = plan(case, keys=KEYS), events()
    state, noisy = stepped(made, (TICKS,), given)
    for strides in ((1,) * TICKS, (5, 1, 18)):
        other, cut = stepped(pickle.loads(pickle.dumps(made)), strides, given)
        assert same(state, other)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(noisy, cut, strict=True))
    run: Any = made.program
    arrays = arrays_of(state)
    assert same(state, restore(run.init(1), unpack(b"T", pack(b"T", arrays))))
    assert sum(a.nbytes for a in arrays) <= run.state_bytes() * len(KEYS)
    assert all(len(a) == len(KEYS) for a in arrays)
    text = json.dumps(run.canonical(), sort_keys=True, allow_nan=False)
    assert text == json.dumps(pickle.loads(pickle.dumps(run)).canonical(), sort_keys=True)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_order_other_keys_and_the_future_do_not_matter(case: str) -> None:
    made, given = plan(case, keys=KEYS), events(480 if case == "learned" else 300)
    whole = simulate(made, given, SECRET)
    mixed = np.random.default_rng(5).permutation(len(given.times))
    assert alike(whole, simulate(made, taken(given, mixed), SECRET))
    mine = np.flatnonzero(np.array(given.keys) == "north")
    few = simulate(made, taken(given, mine), SECRET)
    assert alike([one for one in whole if one.key == "north"], few[1:2])
    early = simulate(made, taken(given, np.flatnonzero(given.times < START + 10 * HOUR)), SECRET)
    for one, two in zip(whole, early, strict=True):
        for a, b in zip(one.released, two.released, strict=True):
            assert a.value[:10].tobytes() == b.value[:10].tobytes()
            assert a.value[10:].tobytes() != b.value[10:].tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_model_is_released_at_every_doubling_and_carried_forward(case: str) -> None:
    made, given = plan(case, keys=KEYS), events()
    infos = made.program.describe(np.arange(TICKS))
    rows = rows_for(made.program, 400)
    first = made.program.course.first  # type: ignore[attr-defined]
    starts = [first * (2**run - 1) for run in range(4)]
    ends = [starts[one.run] + one.records for one in read(made.program, rows)[0]]
    assert all(end <= starts[k] + (first << k) for k, end in enumerate(ends))
    counts = {key: np.zeros(TICKS, dtype=int) for key in KEYS}
    for time, key in zip(given.times, given.keys, strict=True):
        counts[key][(time - START) // HOUR :] += 1
    for one in simulate(made, given, SECRET):
        found = {release.name: release.value[:, 0] for release in one.released}
        assert [(r.name, r.value.shape[2]) for r in one.released] == [
            (info.name, info.dimension) for info in infos
        ]
        seen = counts[one.key]
        last = np.array([max((end for end in ends if end <= n), default=0) for n in seen])
        assert np.array_equal(np.nan_to_num(found["model_of"][:, 1]), last)
        assert np.array_equal(np.isnan(found["theta"]).any(axis=1), last == 0)
        for i in range(1, TICKS):
            if last[i] == last[i - 1]:
                assert found["theta"][i].tobytes() == found["theta"][i - 1].tobytes()
            elif last[i - 1]:
                assert found["theta"][i].tobytes() != found["theta"][i - 1].tobytes()
        told = found["theta"][last > 0]
        assert made.program.course.set.contains(told, 1e-6).all()  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_state_does_not_grow_with_records(case: str) -> None:
    made = program(case, records=8)
    sizes = []
    for n in (0, 100, 3000):
        _, own = read(made, rows_for(made, n), NoNoise())
        sizes.append(sum(array.nbytes for array in own.values()))
    assert len(set(sizes)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_rows_in_pieces_are_rows_at_once(case: str) -> None:
    made = program(case)
    rows = rows_for(made, 200)
    whole, state = read(made, rows)
    for cuts in ((1, 2, 3, 50, 51, 140), tuple(range(200)), (19, 20, 21, 60)):
        found, own = read(made, rows, None, cuts)
        assert [one.model.tobytes() for one in found] == [one.model.tobytes() for one in whole]
        assert all(own[name].tobytes() == state[name].tobytes() for name in own)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_corners_of_data(case: str) -> None:
    """Fewer records than a batch, one coefficient, features that are all 0, rows that are void."""
    few = program(case, records=20)
    found, _ = read(few, rows_for(few, 12))
    assert found == []
    one = program(case, d=1, more="intercept: false", records=8)
    rows = rows_for(one, 60 * one.course.first // 8)
    models, _ = read(one, rows)
    assert len(models) == 3 and all(np.isfinite(m.model).all() for m in models)
    rows[:, :-1] = 0.0
    models, _ = read(one, rows)
    assert len(models) == 3 and all(np.isfinite(m.model).all() for m in models)
    rows[:, -1] = np.nan
    models, _ = read(one, rows)
    assert len(models) == 3


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_without_noise_it_learns(case: str) -> None:
    """On data without error a run of many records comes near; a void row teaches nothing."""
    more = "intercept: false"
    if case in ("gaussian", "generalised", "discrete", "tree"):
        more += "\n  phases: 5"  # fewer are better where there is noise
    made = program(case, d=3, records=20_000, more=more, epsilon=1e4, delta=1e-9)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (20_000, 3))
    best = np.array([0.4, -0.3, 0.2])
    columns = {f"x{j}": x[:, j] for j in range(3)}
    rows = np.asarray(made.bound({**columns, "y": x @ best}, len(x)).rows)
    (found,), _ = read(made, rows)
    seen = rows[:, :3]
    start = np.mean((seen @ np.zeros(3) - rows[:, 3]) ** 2)
    end = np.mean((seen @ found.model - rows[:, 3]) ** 2)
    least = np.mean((seen @ np.linalg.lstsq(seen, rows[:, 3], rcond=None)[0] - rows[:, 3]) ** 2)
    share = 0.35 if case == "one_sample" else 0.1
    assert end - least < share * (start - least)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_arrays_give_what_the_course_gives(case: str) -> None:
    made = program(case)
    rng = np.random.default_rng(3)
    x, y = rng.uniform(-1, 1, (130, 2)), rng.uniform(-1, 1, 130)
    x[5, 0] = np.inf
    one = fit(made.course, x, y, made.inputs.norm, made.inputs.dual, SECRET)
    two = fit(made.course, x, y, made.inputs.norm, made.inputs.dual, SECRET)
    other = fit(made.course, x, y, made.inputs.norm, made.inputs.dual, bytes(32))
    assert one.coef.tobytes() == two.coef.tobytes() != other.coef.tobytes()
    first = made.course.first
    assert 0.75 * first <= one.records <= 4 * first and one.loss == made.loss(None)
    changed = x.copy()
    changed[100] = 0.3
    assert fit(
        made.course, changed, y, made.inputs.norm, made.inputs.dual, SECRET
    ).coef.tobytes() != (one.coef.tobytes())
    short = np.clip(x, -0.1, 0.1)  # under both bounds, so that only the plan differs
    both = [
        fit(made.course, short, y, norm, made.inputs.dual, SECRET)
        for norm in (made.inputs.norm, 0.9)
    ]
    assert both[0].coef.tobytes() != both[1].coef.tobytes(), "two plans share no noise"
    with pytest.raises(ConfigError, match="fewer than a run"):
        fit(made.course, x[: first - 1], y[: first - 1], made.inputs.norm, made.inputs.dual, SECRET)
    with pytest.raises(ConfigError, match=r"\(n, 2\)"):
        fit(made.course, x[:, :1], y, made.inputs.norm, made.inputs.dual, SECRET)


LOSSES = (Squared(), Huber(0.3), Logistic(), Hinge(0.4), MoreauEnvelope(0.2, 0.8, 0.1))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_one_slope_is_the_vectorised_one(loss: Any) -> None:
    rng = np.random.default_rng(0)
    given, target = rng.normal(size=300) * 3, rng.choice([-1.0, 0.0, 0.5, 1.0], 300)
    given[:3] = (0.0, 1e9, -1e9)
    one = loss.scalar()
    alone = [one(a, b) for a, b in zip(given.tolist(), target.tolist(), strict=True)]
    assert np.array(alone).tobytes() == (loss.derivative(given, target) + 0.0).tobytes() or (
        np.array_equal(alone, loss.derivative(given, target))
    )
    assert np.all(np.diff([one(a, 0.5) for a in np.linspace(-4, 4, 99)]) >= 0)


def test_an_envelope_lies_below_its_loss_by_what_is_said() -> None:
    at = np.linspace(-2, 2, 401)
    made = MoreauEnvelope(0.2, 0.8, 0.1)
    sharp = np.maximum(0.8 * at, -0.2 * at)
    below = sharp - made.value(at, np.zeros(401))
    assert below.min() >= -1e-12 and below.max() <= 0.1 * 0.8**2 / 2 + 1e-12
    slope = np.gradient(made.value(at, np.zeros(401)), at)
    np.testing.assert_allclose(slope[5:-5], made.derivative(at, np.zeros(401))[5:-5], atol=0.06)


@pytest.mark.parametrize(
    ("case", "settings", "field"),
    [
        ("gaussian", {"relation": "add_remove"}, "privacy.relation"),
        ("gaussian", {"delta": 0.0}, "privacy.delta"),
        ("phased", {"delta": 0.0}, "privacy.delta"),
        ("gaussian", {"set": "{l1_ball: 1}"}, "model.set"),
        ("gaussian", {"set": "{lp_ball: {radius: 1, p: 3}}"}, "model.set"),
        ("tree", {"set": "{l2_ball: 1}"}, "model.set"),
        ("tree", {"more": "phases: 6"}, "model.records"),
        ("phased", {"more": "step: 1000000"}, "model.step"),
        ("phased", {"more": "passes: 2"}, "model.passes"),
        ("gaussian", {"more": "classes: [no, yes]"}, "model.classes"),
        ("learned", {"more": "keep: 9"}, "model.keep"),
        ("learned", {"loss": "absolute"}, "model.form"),
        ("erm, any", {"loss": "logistic"}, "model.form"),
        ("erm, any", {"more": "keep: 5"}, "model.keep"),
        ("erm, any", {"more": "keep: 1000000", "d": 200}, "model.features"),
    ],
)
def test_what_cannot_be_served_is_refused(case: str, settings: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(case, **settings)
    assert caught.value.field == field


def test_what_follows_the_last_phase_that_is_kept_is_not_learned_from() -> None:
    made = program("erm, any", more="keep: 40")
    assert made.course.served == 3 and made.course.keep == 40
    found, own = read(made, rows_for(made, 1_000))
    assert [one.run for one in found] == [0, 1, 2] and own["rows"].shape == (40, 3)
    (note,) = [one for one in plan("erm, any", more="keep: 40").config.model.notes(made)][1:]  # type: ignore[union-attr]
    assert "40 records of a phase" in note and "after the first 140 are" in note


def test_the_noise_of_the_least_predicted_error_is_taken() -> None:
    text = plan("gaussian", d=5, epsilon=1.0).config
    assert text is not None
    alone = {
        case: program(case, d=5, epsilon=1.0).course.predicted(5)
        for case in ("gaussian", "generalised", "discrete")
    }
    free = Plan.from_config(
        text.model_copy(update={"model": text.model.model_copy(update={"noise": None})})
    )
    chosen: Any = free.program
    assert chosen.course.predicted(5) == min(alone.values())
    assert [one.noise for one in free.alternatives][0] == chosen.course.kind
    assert len(free.alternatives) == 3


def test_the_example_is_planned() -> None:
    text = (Path(__file__).parents[4] / "examples" / "flights" / "one_pass.yaml").read_text()
    kept = text.partition("secret:")[0].replace("source: {csv: flights.csv}\n", "")
    made = Plan.from_yaml(kept)
    course: Any = made.program.course  # type: ignore[attr-defined]
    assert course.kind == "gaussian" and made.program.loss(None).epsilon(1e-6) <= 1 + 1e-9
    assert made.program.state_bytes() < 4096
