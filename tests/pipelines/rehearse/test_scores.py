"""A dry run's numbers: true values, noise, and what clips and caps take, by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipelines.conftest import SMALL, Weir
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig, load, loads
from weir.pipelines.feed.shape import Shape
from weir.pipelines.ledger import reservations as desk
from weir.pipelines.rehearse import rehearse as module
from weir.pipelines.rehearse.rehearse import Rehearsal, SyntheticEvents, rehearse
from weir.pipelines.rehearse.scores import Score, grade
from weir.transforms.runtime.secret import SecretRef

START = datetime(2024, 1, 1, tzinfo=UTC)
BASIC = """\
name: shop
source: {csv: private.csv}
schema: {time: at, id: id}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-03T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: all}
aggregates:
  visits: {count: events, over: 1}
  paid: {sum: amount, clip: [0, 50], over: 1}
  basket: {mean: amount, clip: [0, 50], over: 4}
  sizes: {histogram: amount, edges: [0, 10, 60], over: 1}
secret: {file: no-such.key}
"""


@pytest.fixture(autouse=True)
def secrets_stay_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    """No secret but a fresh one is resolved, by anything in this file."""
    real = SecretRef.resolve

    def watched(self: SecretRef) -> bytes:
        assert self.is_fresh, "the config's secret was resolved"
        return real(self)

    monkeypatch.setattr(SecretRef, "resolve", watched)


@pytest.fixture
def unadvised(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run that makes none of the hundreds of plans of its remedies, which a test does not
    look at."""
    monkeypatch.setattr(module, "advised", lambda *_: ())
    monkeypatch.setattr(module, "grid_of", lambda *_: None)


def events(path: Path, hours: list[int], amounts: list[float], *more: str) -> Path:
    """A CSV of events: an hour and an amount each, and further columns."""
    lines = ["at,id,amount" + "".join(f",{one.partition('=')[0]}" for one in more)]
    for i, (hour, amount) in enumerate(zip(hours, amounts, strict=True)):
        at = (START + timedelta(hours=hour, minutes=i % 60)).isoformat()
        rest = "".join(f",{one.partition('=')[2].split()[i]}" for one in more)
        lines.append(f"{at},e{i},{amount}{rest}")
    path.write_text("\n".join(lines) + "\n")
    return path


def job_of(folder: Path, text: str = BASIC) -> JobConfig:
    return loads(text, folder=folder)


def by_name(found: Rehearsal) -> dict[str, Score]:
    return {one.name: one for one in found.scores}


@pytest.mark.slow
@pytest.mark.usefixtures("unadvised")
def test_true_values_and_clips_are_those_of_the_events(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    hours = np.repeat(np.arange(48), 30)
    amounts = np.round(rng.uniform(0, 100, len(hours)), 2)
    public = events(tmp_path / "public.csv", hours.tolist(), amounts.tolist())
    found = rehearse(job_of(tmp_path), tmp_path / "out", on=str(public))
    scores = by_name(found)
    sums = np.bincount(hours, amounts)
    clipped = np.bincount(hours, np.minimum(amounts, 50))
    assert scores["visits"].true == pytest.approx(30, rel=1e-4)
    assert scores["visits"].clip == 0
    assert scores["paid"].true == pytest.approx(sums.mean(), rel=1e-4)
    assert scores["paid"].clip == pytest.approx(np.quantile(sums - clipped, 0.95), rel=1e-3)
    span = np.convolve(sums, np.ones(4))[:48] / np.convolve(np.full(48, 30), np.ones(4))[:48]
    assert scores["basket"].true == pytest.approx(span.mean(), rel=1e-3)
    bins = [np.bincount(hours[(amounts >= a) & (amounts < b)], minlength=48)
            for a, b in ((0, 10), (10, 60))]  # fmt: skip
    assert scores["sizes"].true == pytest.approx(np.mean(bins), rel=1e-3)
    lost = {one.name: one for one in found.clipped}
    assert lost["paid"].moved == int((amounts > 50).sum())
    assert lost["paid"].amount == pytest.approx((sums - clipped).sum() / sums.sum())
    assert lost["sizes"].moved == int((amounts > 60).sum())
    assert not (tmp_path / "private.csv").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("unadvised")
def test_the_band_that_is_told_is_the_noise_that_is_measured(tmp_path: Path) -> None:
    """Coverage of 95 % margins on synthetic data; margins of two thirds of the width would not
    do."""
    text = BASIC.replace("2024-01-03T", "2024-01-31T").replace(
        "secret:", "expect: {events: 500}\nsecret:"
    )
    found = rehearse(job_of(tmp_path, text), tmp_path / "out", SyntheticEvents(20_000))
    for score in found.scores:
        assert score.cells >= 700
        assert 0.92 < score.inside < 0.98, score
        assert score.noise == pytest.approx(score.band, rel=0.25), score
    narrow = [one for one in found.scores if one.noise > 1.35 * one.band * 2 / 3]
    assert len(narrow) >= 3


def test_what_noise_alone_leaves_is_graded() -> None:
    assert [grade(share, 1.0, 0.2) for share in (0.1, 0.2, 0.21, 0.999, 1.0, 7.0, np.inf)] == [
        "useful", "useful", "rough", "rough", "useless", "useless", "useless",
    ]  # fmt: skip
    assert grade(np.inf, 0.0, 0.2) == "no truth" and grade(np.nan, 3.0, 0.2) == "useless"


def test_an_empty_file_has_no_truth(tmp_path: Path) -> None:
    public = events(tmp_path / "public.csv", [], [])
    found = rehearse(job_of(tmp_path), tmp_path / "out", on=str(public))
    scores = by_name(found)
    assert {scores[name].grade for name in ("visits", "paid", "sizes")} == {"no truth"}
    assert not found.clipped and not found.advised


@pytest.mark.slow
@pytest.mark.usefixtures("unadvised")
def test_one_event_is_found_to_be_useless(tmp_path: Path) -> None:
    public = events(tmp_path / "public.csv", [3], [20.0])
    found = rehearse(job_of(tmp_path), tmp_path / "out", on=str(public))
    assert by_name(found)["visits"].grade == "useless"
    assert by_name(found)["visits"].true == pytest.approx(1 / 48, rel=0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("unadvised")
def test_an_aggregate_with_a_predicate_is_held_to_its_own_events(tmp_path: Path) -> None:
    gate = 'clip: [0, 50], over: 4, where: "amount > 60"}'
    text = BASIC.replace("clip: [0, 50], over: 4}", gate)
    public = events(tmp_path / "public.csv", [0, 0, 1, 9], [10.0, 70.0, 20.0, 90.0])
    found = rehearse(job_of(tmp_path, text), tmp_path / "out", on=str(public))
    (basket,) = (one for one in found.clipped if one.name == "basket")
    assert (basket.values, basket.moved) == (2, 2)
    assert by_name(found)["basket"].cells == 8  # four ticks from each of the two that count
    assert by_name(found)["basket"].true == pytest.approx(80, rel=1e-3)


def test_wrong_columns_are_named(tmp_path: Path) -> None:
    (tmp_path / "public.csv").write_text("when,who\n2024-01-01T00:00:00Z,a\n")
    with pytest.raises(ConfigError, match="is not a column of"):
        rehearse(job_of(tmp_path), tmp_path / "out", on=str(tmp_path / "public.csv"))


@pytest.mark.slow
@pytest.mark.usefixtures("unadvised")
def test_files_of_another_ending_are_read_as_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "public.ndjson").write_text(
        '{"at": "2024-01-01T00:00:00Z", "id": "a", "amount": 3}\n'
    )
    found = rehearse(job_of(tmp_path), tmp_path / "out", on=str(tmp_path / "public.ndjson"))
    assert found.result.counters["events"] == 1
    (tmp_path / "public.what").write_text("")
    with pytest.raises(ConfigError, match="must end in one of"):
        rehearse(job_of(tmp_path), tmp_path / "again", on=str(tmp_path / "public.what"))


@pytest.mark.slow
@pytest.mark.usefixtures("unadvised")
def test_a_clock_without_end_ends_with_the_public_events(tmp_path: Path) -> None:
    text = BASIC.replace(", end: 2024-01-03T00:00:00Z", "").replace(
        "{csv: private.csv}",
        "{pubsub: {subscription: projects/acme-1/subscriptions/all, payload: json}}",
    )
    public = events(tmp_path / "public.csv", [0, 5, 8], [1.0, 2.0, 3.0])
    found = rehearse(job_of(tmp_path, text), tmp_path / "out", on=str(public))
    assert found.result.plan.clock.ticks == 9
    assert not any("100 ticks" in note for note in found.result.notes)


USERS = BASIC.replace(
    "schema: {time: at, id: id}", "schema: {time: at, id: id, unit: who}"
).replace(
    "protect_for: all}",
    "protect_for: all, unit: user, per: 1d, contributions: {ticks: 2, keys: 1, events: 1}}",
)


@pytest.mark.slow
@pytest.mark.usefixtures("unadvised")
def test_caps_lose_the_events_that_they_leave_out(tmp_path: Path) -> None:
    """ann: three events in an hour and one in each of two more; bob: one. Two ticks of one event
    each count of ann's five."""
    public = events(tmp_path / "public.csv", [0, 0, 0, 1, 2, 0], [1.0] * 6,
                    "who=ann ann ann ann ann bob")  # fmt: skip
    found = rehearse(job_of(tmp_path, USERS), tmp_path / "out", on=str(public))
    lost = {(one.cap, one.other): one.lost for one in found.caps}
    assert lost["", 0] == pytest.approx(3 / 6)
    counted = sum(n for name, n in found.result.counters.items() if name.startswith("capped_"))
    assert counted == 3
    assert lost["events", 2] == pytest.approx(2 / 6)
    assert lost["ticks", 1] == pytest.approx(4 / 6)
    assert all(one.noise > 0 for one in found.caps)
    # What the twin without caps has: six events in 48 hours.
    assert by_name(found)["visits"].true == pytest.approx(6 / 48, rel=0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("unadvised")
def test_events_of_nobody_and_users_without_a_cap_that_bites(tmp_path: Path) -> None:
    public = events(tmp_path / "public.csv", [0, 1], [1.0, 2.0], "who=ann bob")
    with public.open("a") as handle:
        handle.write("2024-01-01T03:00:00Z,e9,4,\n")
    job = job_of(tmp_path, f"{USERS}limits: {{refused: 0.5}}\n")
    found = rehearse(job, tmp_path / "out", on=str(public))
    assert found.caps[0].lost == 0
    assert found.result.counters["no_user"] == 1


@pytest.mark.slow
def test_keys_that_are_not_found_are_counted(tmp_path: Path) -> None:
    text = USERS.replace("clock:", "key: {column: shop, discover: {min_users: 5}}\nclock:")
    people = [f"u{i}" for i in range(200)]
    shops = ["big"] * 195 + ["tiny"] * 5
    public = events(tmp_path / "public.csv", [0] * 200, [1.0] * 200,
                    f"who={' '.join(people)}", f"shop={' '.join(shops)}")  # fmt: skip
    found = rehearse(job_of(tmp_path, text), tmp_path / "out", on=str(public))
    assert by_name(found)["visits"].missing == 1


MODEL = """\
name: rides
source: {csv: private.csv}
schema: {time: at, id: id}
clock: {start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-02T00:00:00Z}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: all}
model: {algorithm: regression.incremental, features: [x], target: amount,
        ranges: {x: [0, 1], amount: [0, 50]}}
"""


def test_a_model_is_held_to_the_same_model_without_noise(tmp_path: Path) -> None:
    x = " ".join(str(i % 2) for i in range(400))
    public = events(tmp_path / "public.csv", [i // 20 for i in range(400)],
                    [10.0 + 20 * (i % 2) for i in range(400)], f"x={x}")  # fmt: skip
    found = rehearse(job_of(tmp_path, MODEL), tmp_path / "out", on=str(public))
    assert found.scores and found.grid is None and not found.advised
    assert all(one.clip == 0 for one in found.scores)
    assert any(one.error > 0 for one in found.scores)


@pytest.mark.slow
def test_no_ledger_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = BASIC + "ledger: {sqlite: ledger.db, scope: us, budget: {epsilon: 1, delta: 1e-5}}\n"

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("a ledger was asked")

    monkeypatch.setattr(desk, "look", refused)
    rehearse(job_of(tmp_path, text), tmp_path / "out", SyntheticEvents(50))
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("unadvised")
def test_a_shape_gives_made_up_events_its_sizes(tmp_path: Path) -> None:
    shape = Shape.model_validate(
        {"keys": {"north": 30, "south": 10}, "values": {"amount": {"median": 20, "p95": 60}}}
    )
    text = SMALL.replace("end: 2024-01-02T00", "end: 2024-01-03T00")
    found = rehearse(
        loads(text, folder=tmp_path), tmp_path / "rehearsed", SyntheticEvents(shape=shape)
    )
    assert found.result.counters["events"] == 40 * 48
    (visits, paid) = found.scores
    lost = found.clipped[0]
    assert visits.over is None
    assert 0.07 < lost.share < 0.13  # a log-normal with this median and p95 has 9 % above 50
    assert not any("synthetic from their own bounds" in note for note in found.result.notes)
    assert paid.clip > 0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("values: {amount: {median: 5}}", "like.values.amount"),
        ("values: {amont: {low: 1, high: 2}}", "did you mean amount"),
        ("keys: {nort: 3}", "did you mean north"),
        ("keys: {}", "like.keys"),
        ("events: 0", "like.events"),
        ("users: no", "like.users"),
        ("event: 3", "did you mean events"),
        ("{events: 3, keys: {north: 1}}", "cannot be combined with keys"),
    ],
)
def test_a_shape_that_fits_nothing_is_refused(
    weir: Weir, tmp_path: Path, text: str, named: str
) -> None:
    (tmp_path / "shop.yaml").write_text(SMALL)
    (tmp_path / "like.yaml").write_text(text + "\n")
    found = weir("rehearse", tmp_path / "shop.yaml", "--like", tmp_path / "like.yaml")
    assert found.exit_code == 2 and named in found.output, found.output


@pytest.mark.slow
def test_the_command_shows_all_and_draws(weir: Weir, tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(BASIC)
    picture = tmp_path / "errors.png"
    found = weir("rehearse", tmp_path / "shop.yaml", "--events", 2000, "--picture", picture)
    assert found.exit_code == 0, found.output
    for said in (
        "How far releases lie off",
        "What clips take",
        "What would bring an error",
        "drew",
    ):
        assert said in found.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
    told = json.loads(weir("rehearse", tmp_path / "shop.yaml", "--events", 500, "--json").stdout)
    assert {one["name"] for one in told["outputs"]} == {"visits", "paid", "basket", "sizes"}
    assert told["grid"] and told["clipped"] and told["within"] == 0.2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--picture", "errors.doc"), "must end in one of"),
        (("--picture", "nowhere/errors.png"), "a folder that is not there"),
        (("--within", "1.5"), "between 0 and 1"),
        (("--on", "public.csv", "--events", "5"), "--events"),
        (("--on", "public.csv", "--late", "0.5"), "--late"),
        (("--on", "private.csv"), "a file of the source"),
    ],
)
def test_options_that_fit_nothing_are_refused(
    weir: Weir,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    named: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    events(tmp_path / "private.csv", [0], [1.0])
    events(tmp_path / "public.csv", [1], [1.0])
    (tmp_path / "shop.yaml").write_text(BASIC)
    found = weir("rehearse", tmp_path / "shop.yaml", *options)
    assert found.exit_code == 2 and named in found.output, found.output


@pytest.mark.slow
def test_remedies_bring_an_output_within_what_was_asked(tmp_path: Path) -> None:
    """What a remedy guarantees is what a dry run of it finds, about."""
    path = tmp_path / "shop.yaml"
    text = BASIC.replace("  basket: {mean: amount, clip: [0, 50], over: 4}\n", "")
    path.write_text(text.replace("shop", "corner", 1))  # a draw of noise that is near its size
    made = SyntheticEvents(3000)
    named = "mechanism.noise=gaussian"
    first = rehearse(load(path, [named]), tmp_path / "a", made)
    (remedies,) = (one.remedies for one in first.advised if one.name == "visits")
    epsilon = next(one.value for one in remedies if one.field == "privacy.epsilon")
    assert by_name(first)["visits"].grade != "useful"
    again = rehearse(load(path, [named, f"privacy.epsilon={epsilon}"]), tmp_path / "b", made)
    assert by_name(again)["visits"].share == pytest.approx(0.2, rel=0.25)
    assert first.grid is not None
    shares = dict(zip(first.grid.epsilons, first.grid.shares["visits", 1][0], strict=True))
    assert shares[1.0] == pytest.approx(by_name(first)["visits"].share, rel=0.25)
