"""The public benchmark: its events have the published law, its peer the published errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.dp_sqlp import bound, data, ours, peer, results
from benchmarks.dp_sqlp.errors import Errors, errors
from benchmarks.dp_sqlp.published import CAP, LINES
from weir.dpcore.accounting.calibrate import gdp_mu
from weir.dpcore.accounting.contributions import toeplitz_participation
from weir.dpcore.continual import toeplitz
from weir.pipelines.config.job import loads
from weir.pipelines.graph.checks import plan_of

SCALE = 0.01


@pytest.fixture(scope="module")
def setting() -> data.Setting:
    return data.Setting("clipped", SCALE)


@pytest.fixture(scope="module")
def drawn(setting: data.Setting) -> data.Events:
    return data.events(setting)


@pytest.mark.slow
@pytest.mark.parametrize(("reading", "mean"), [("clipped", 5.978), ("whole", 5.9047)])
def test_users_have_as_many_events_as_published(reading: str, mean: float) -> None:
    setting = data.Setting(reading, 0.05)
    assert setting.mean() == pytest.approx(mean, abs=1e-4)
    number = np.bincount(data.events(setting).user, minlength=setting.users)
    error = number.std() / np.sqrt(len(number))
    assert abs(number.mean() - mean) < 4 * error
    other = data.Setting(*{"clipped", "whole"} - {reading}).mean()
    assert abs(number.mean() - other) > 4 * error, "too few users to tell the readings apart"
    assert number.min() >= 1 and (number.max() > CAP) == (reading == "whole")


def test_keys_and_minutes_have_their_shares(setting: data.Setting, drawn: data.Events) -> None:
    n = len(drawn.user)
    for found, share in (
        (np.bincount(drawn.key, minlength=setting.keys), setting.shares()),
        (np.bincount(drawn.minute, minlength=data.MINUTES), np.full(data.MINUTES, 1e-3)),
    ):
        wrong = share * np.where(np.arange(len(share)) % 2, 0.9, 1.1)
        for expected, fits in ((n * share, True), (n * wrong / wrong.sum(), False)):
            spread = float(np.mean((found - expected) ** 2 / expected))
            assert (0.9 < spread < 1.1) == fits
    assert (np.diff(drawn.minute) >= 0).all()
    again = data.events(setting)
    assert all((a == b).all() for a, b in zip(drawn, again, strict=True))


def test_the_file_holds_what_was_drawn(
    setting: data.Setting, drawn: data.Events, tmp_path: Path
) -> None:
    data.write(drawn, tmp_path / "events.parquet", 1)
    table = pq.read_table(tmp_path / "events.parquet")
    time = table["time"].combine_chunks().view("int64").to_numpy()
    assert (np.diff(time) >= 0).all()
    assert ((time - data.START) // data.MINUTE == drawn.minute).all()
    assert (table["user"].to_numpy() == drawn.user).all()
    assert (table["key"].to_numpy() == drawn.key).all()
    assert (table["id"].to_numpy() == np.arange(len(time))).all()


def test_the_first_events_of_users_and_of_pairs() -> None:
    setting = data.Setting("whole", 1e-4)
    drawn = data.events(setting)
    seen: dict[int, int] = {}
    pairs: dict[tuple[int, int], int] = {}
    for i, (user, key, minute) in enumerate(zip(*(c.tolist() for c in drawn), strict=True)):
        seen[user] = seen.get(user, 0) + 1
        assert data.kept(drawn, 3)[i] == (seen[user] <= 3) if i < 50 else True
        pairs.setdefault((user, key), minute)
    inside = data.kept(drawn, 3)
    assert inside.sum() == sum(min(n, 3) for n in seen.values()) < len(inside)
    keys, minutes = data.firsts(setting, drawn)
    found = sorted(zip(keys.tolist(), minutes.tolist(), strict=True))
    assert found == sorted((key, minute) for (_, key), minute in pairs.items())


def test_scales_of_the_peer_are_those_published() -> None:
    assert peer.scales(100) == pytest.approx((27.850810, 177.169566, 6.850643), rel=2e-7)
    assert peer.scales(1000) == pytest.approx((33.288085, 211.758134, 6.850643), rel=2e-7)


@pytest.mark.parametrize("ticks", [8, 100])
def test_noise_of_the_tree_is_that_of_honakers_estimate(ticks: int) -> None:
    rng = np.random.default_rng(1)
    found = peer.paths(rng, ticks, 20_000).var(axis=0)
    right = peer.variances(ticks)
    assert found == pytest.approx(right, rel=0.06)
    nodes = np.array([(end + 1).bit_count() for end in range(ticks)])
    assert found != pytest.approx(nodes, rel=0.06), "a tree that only adds its nodes up"
    assert right[0] == 1 and right[3] == pytest.approx(4 / 7), (
        "1/4 of 1 + 2/4 + 4/16, times 1/(7/4)^2"
    )


def peers(setting: data.Setting, drawn: data.Events, ticks: int, seeds: int) -> Errors:
    truth = data.counted(setting, drawn)
    pairs = data.firsts(setting, drawn)
    some = drawn.key, drawn.minute
    found = [peer.dp_sqlp(setting, ticks, truth, pairs, some, seed) for seed in range(seeds)]
    return Errors(*np.mean(found, axis=0).tolist())


@pytest.mark.slow
def test_the_peer_has_the_published_errors(
    setting: data.Setting, drawn: data.Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ticks, seeds in ((100, 4), (1000, 2)):
        (line,) = (x for x in LINES if (x.reading, x.ticks) == ("clipped", ticks))
        found = peers(setting, drawn, ticks, seeds)
        assert found.keys == pytest.approx(SCALE * line.errors.keys, rel=0.04)
        assert found.l1 == pytest.approx(SCALE * line.errors.l1, rel=0.03)
        assert found.l2 == pytest.approx(SCALE**0.5 * line.errors.l2, rel=0.04)
    right = peer.scales(100)
    (line,) = (x for x in LINES if (x.reading, x.ticks) == ("clipped", 100))
    monkeypatch.setattr(peer, "scales", lambda _: right._replace(selection=1.2 * right.selection))
    keys = peers(setting, drawn, 100, 2).keys
    assert keys != pytest.approx(SCALE * line.errors.keys, rel=0.04)
    monkeypatch.setattr(peer, "scales", lambda _: right._replace(events=1.3 * right.events))
    l2 = peers(setting, drawn, 100, 2).l2
    assert l2 != pytest.approx(SCALE**0.5 * line.errors.l2, rel=0.04)


def test_errors_by_hand() -> None:
    truth = np.array([3, 5, 0, 2])
    live = np.array([True, False, True, True])
    values = np.array([4.6, 99.0, -7.0, 0.4])
    assert errors(truth, live, values) == (3, 5, 2 + 5 + 0 + 2, (4 + 25 + 0 + 4) ** 0.5)


def test_a_table_keeps_what_was_not_run_again(tmp_path: Path) -> None:
    rows = results.read(tmp_path)
    assert rows == results.published()
    for keys, who in ((1.0, "Weir, a"), (2.0, "Weir, b"), (3.0, "Weir, a")):
        rows = results.merged(
            rows, results.Row(1.0, "whole", 100, who, 42, keys, 2, 3, 4, 60, 2.5, 20, 50, 10, 25)
        )
    results.write(rows, tmp_path)
    again = results.read(tmp_path)
    assert again == rows and len(rows) == len(LINES) + 2
    assert [row.keys for row in rows if row.who.startswith("Weir")] == [3, 2]
    text = (tmp_path / "dp_sqlp.md").read_text()
    assert "| Weir, a | 3 | 2 | 3 | 4 | 60 s | 50 s | 2.5 GB | 3.0 | 5.0 | 2.0 |" in text


def test_seeds_are_averaged_and_their_spread_told(tmp_path: Path) -> None:
    rows = results.published()
    for seed, keys, seconds in ((42, 10.0, 60.0), (43, 14.0, None), (44, 15.0, 64.0)):
        row = results.Row(1.0, "whole", 100, "Weir, a", seed, keys, 2, 3, 4, seconds)
        rows = results.merged(rows, row)
    results.write(rows, tmp_path)
    assert results.read(tmp_path) == rows
    text = (tmp_path / "dp_sqlp.md").read_text()
    assert "| Weir, a (3 seeds) | 13 ± 3 | 2 ± 0 | 3 ± 0 | 4 ± 0 | 62 s |" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "ticks"),
    [("once a key", 1000), ("once a key, min_users 20", 100), ("any 32 events", 1000)],
)
def test_plans_have_the_noise_that_theory_has(way: str, ticks: int, tmp_path: Path) -> None:
    text = ours.config(ours.WAYS[way], tmp_path / "events.parquet", tmp_path / "out", ticks)
    best = plan_of(loads(text)).to_json()["releases"][0]["stddev_worst"]
    made = plan_of(loads(text + "mechanism: {continual_sum: toeplitz}\n")).to_json()
    assert (made["guarantee"]["epsilon"], made["guarantee"]["delta"]) == (6.0, 1e-9)
    assert (made["guarantee"]["unit"], made["guarantee"]["window"]) == ("user", None)
    assert made["user"]["per"] is None and made["ticks"] == ticks
    square_root = toeplitz.coefficients(ticks)
    error = np.sqrt((square_root**2).sum()) / gdp_mu(6.0, 5e-10)
    if way == "any 32 events":  # one key at 32 ticks in a row, and 0.3 of mu^2
        error *= toeplitz_participation(square_root, CAP, 1, ticks) / np.sqrt(0.3)
    else:  # 32 keys, each once
        error *= np.sqrt(CAP * (square_root**2).sum())
    assert made["releases"][0]["stddev_worst"] == pytest.approx(error, rel=0.02)
    assert 0.8 * error < best <= 1.02 * error  # the plan takes what is better on a clock that ends


@pytest.mark.slow
def test_a_whole_run_finds_and_counts_keys(tmp_path: Path) -> None:
    setting = data.Setting("clipped", 0.002)
    drawn = data.events(setting)
    truth = data.counted(setting, drawn)
    data.write(drawn, tmp_path / "events.parquet", 1)
    ran = ours.run(ours.WAYS["any 32 events"], tmp_path / "events.parquet", tmp_path, 100, truth)
    users = np.bincount(data.firsts(setting, drawn)[0], minlength=setting.keys)
    assert (users > 230).sum() <= ran.errors.keys <= (users > 90).sum(), "thresholds are near 150"
    assert ran.errors.l_inf < 5 * 130 and ran.errors.keys > 50
    assert ran.rows > 100 and ran.seconds.cpu > 0 and 0.05 < ran.gigabytes < 5
    least = bound.noise(tmp_path / "bound.parquet", setting.keys, 100, ran.rows)
    assert 0 < least.cpu < ran.seconds.cpu and least.wall < ran.seconds.wall
    pairs = len(data.firsts(setting, drawn)[0])
    found = bound.counted(tmp_path / "events.parquet", data.CAP)
    assert 0.99 * pairs < found.sum() <= pairs and found.min() == 1
    assert (
        len(bound.counted(tmp_path / "events.parquet", 1))
        < setting.users
        == (bound.counted(tmp_path / "events.parquet", 1).sum())
    )
    assert pq.read_metadata(tmp_path / "bound.parquet").num_rows == ran.rows // 100 * 100
