"""Synthetic events never meet the config's secret: what runs on them draws its own."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.stack.stack import Stack
from tests.pipelines.conftest import SMALL, Weir
from tests.pipelines.result_rows import result_rows
from weir.pipelines.config.job import load
from weir.pipelines.feed.synthetic import Shares
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.rehearse.rehearse import NOTE, SyntheticEvents, made_up, rehearse
from weir.pipelines.run import run
from weir.transforms.runtime.secret import SecretRef

SECRETS = (
    "secret: {file: no-such.key, rotate: [{from: 2024-01-01T08:00:00Z, file: nor-this.key}]}",
    "secret: {env: WEIR_NO_SUCH}",
    "secret: {gcp: projects/acme-1/secrets/s/versions/1}",
    "secret: {kubernetes: a/b}",
)
STREAM = "source: {pubsub: {subscription: projects/acme-1/subscriptions/all, payload: avro}}"


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[SecretRef]:
    """Every secret that is resolved, as a reference; only fresh ones can be."""
    found: list[SecretRef] = []
    real = SecretRef.resolve

    def watched(self: SecretRef) -> bytes:
        found.append(self)
        assert self.is_fresh, "the config's secret was resolved"
        return real(self)

    monkeypatch.setattr(SecretRef, "resolve", watched)
    return found


def config_of(folder: Path, *more: str, text: str = SMALL) -> Path:
    path = folder / "shop.yaml"
    path.write_text("\n".join([text, *more]))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("secret", SECRETS)
def test_a_rehearsal_resolves_no_secret_of_the_config_and_opens_no_source(
    weir: Weir, tmp_path: Path, secret: str, resolved: list[SecretRef]
) -> None:
    """The source does not exist, and the secret cannot be read: both would be refused."""
    out = tmp_path / "rehearsed"
    found = weir("rehearse", config_of(tmp_path, secret), "--events", 200, "--out", out)
    assert found.exit_code == 0, found.output
    assert resolved and all(one.is_fresh for one in resolved)
    assert (
        NOTE in " ".join(found.stdout.split()) and "secret of this run is gone" not in found.output
    )
    assert (out / "_COMPLETE").exists() and not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_rehearsal_of_a_stream_opens_no_subscription(
    weir: Weir, tmp_path: Path, resolved: list[SecretRef]
) -> None:
    text = SMALL.replace("source: {csv: events.csv}", STREAM).replace(
        ", end: 2024-01-02T00:00:00Z", ""
    )
    config = config_of(tmp_path, SECRETS[1], "deduplicate: {horizon: 3h}", text=text)
    made = SyntheticEvents(200, 0, Shares(duplicate=0.1))
    result = rehearse(load(config), tmp_path / "rehearsed", made).result
    assert resolved and result.plan.clock.ticks == 100
    assert any("has no end" in note for note in result.notes)
    assert result.counters["duplicate"] > 0


def values(folder: Path) -> dict[tuple[Any, ...], Any]:
    return {(row["key"], row["tick"], row["name"]): row["value"] for row in result_rows(folder)}


@pytest.mark.slow
def test_the_noise_of_a_rehearsal_is_not_the_noise_of_the_run(tmp_path: Path) -> None:
    """The attack: a key that is silent in both has the same noise under one secret and plan."""
    (tmp_path / "secret.key").write_bytes(bytes(range(32)))
    (tmp_path / "events.csv").write_text("at,id,store,amount\n2024-01-01T20:00:00Z,1,north,5\n")
    config = config_of(tmp_path, "secret: {file: secret.key}")
    job = load(config)
    run.run(parts_of(job), "direct")
    rehearse(job, tmp_path / "rehearsed", SyntheticEvents(1))
    real, other = values(tmp_path / "out"), values(tmp_path / "rehearsed")
    assert real.keys() == other.keys()
    silent = [place for place in real if place[0] == "south"]
    assert not any(np.array_equal(real[place], other[place]) for place in silent)
    # What a user would have done before: the same plan and secret over other events.
    (tmp_path / "made-up.csv").write_text("at,id,store,amount\n2024-01-01T21:00:00Z,2,north,1\n")
    words = [f"{key}={tmp_path / value}" for key, value in
             (("source.csv", "made-up.csv"), ("sink.parquet", "naive"))]  # fmt: skip
    run.run(parts_of(load(config, words)), "direct")
    naive = values(tmp_path / "naive")
    assert all(np.array_equal(real[place], naive[place]) for place in silent)


def test_nothing_of_the_config_is_left_that_a_rehearsal_could_write_to_or_read(
    tmp_path: Path,
) -> None:
    config = config_of(tmp_path, SECRETS[0], "dead_letters: {csv: dead/}")
    made = made_up(load(config), tmp_path / "place", tmp_path / "folder")
    assert made.secret is None and made.dead_letters is None
    assert parts_of(made).secret.is_fresh
    assert made.source is not None and Path(str(made.source.path)).parent == tmp_path / "place"
    assert made.sink is not None and made.sink.place == str(tmp_path / "folder")


@pytest.mark.slow
def test_a_rehearsal_has_a_folder_of_its_own(
    weir: Weir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    config = config_of(tmp_path)
    assert "sink of the config" in weir("rehearse", config, "--out", tmp_path / "out").output
    assert "not a new folder" in weir("rehearse", config, "--out", tmp_path).output
    told = json.loads(weir("rehearse", config, "--events", 5, "--json").stdout)
    assert Path(told["sink"]).name.startswith("weir-rehearsal-")


def test_feed_and_plan_touch_neither_secret_nor_source(
    weir: Weir, tmp_path: Path, resolved: list[SecretRef]
) -> None:
    config = config_of(tmp_path, SECRETS[0])
    fed = weir("feed", config, "--events", 3, "--to", tmp_path / "fed.csv")
    assert fed.exit_code == 0 and "gives its noise away" in fed.output
    assert weir("plan", config).exit_code == 0
    assert not resolved


def test_a_stack_replaces_the_secret_of_its_config(
    tmp_path: Path, resolved: list[SecretRef]
) -> None:
    for secret in SECRETS:
        config = config_of(tmp_path, secret, "dead_letters: {csv: dead}")
        stack = Stack(config, tmp_path / "live")
        job = load(config, stack._settings()[1::2])
        stack.stop()
        assert job.dead_letters is None  # those of synthetic events are nobody's
        assert job.secret is not None and not job.secret.rotate
        assert Path(str(job.secret.file)).parent == stack._folder
    assert resolved and all(one.is_fresh for one in resolved)


@pytest.mark.slow
@pytest.mark.parametrize("on", [True, False])
def test_public_events_give_the_section_that_shows_what_bounds_took(
    weir: Weir, tmp_path: Path, on: bool
) -> None:
    lines = [f"2024-01-01T{i % 24:02d}:10:00Z,{i},north,{20 + 60 * (i % 2)}" for i in range(96)]
    (tmp_path / "public.csv").write_text("\n".join(["at,id,store,amount", *lines]) + "\n")
    (tmp_path / "events.csv").write_text("at,id,store,amount\n2024-01-01T20:00:00Z,1,north,5\n")
    config = config_of(tmp_path, SECRETS[1])
    given = ("--on", tmp_path / "public.csv") if on else ("--events", 50)
    told = weir("rehearse", config, *given)
    assert told.exit_code == 0, told.output
    if not on:  # made-up events repeat what their generator was given
        assert "dry_run:" not in told.stdout
        return
    (line,) = (line.strip() for line in told.stdout.splitlines() if "dry_run: {" in line)
    config.write_text(f"{config.read_text()}\n{line}\n")
    caveat = load(config).plan_config()
    assert caveat.dry_run is not None and caveat.dry_run.file == "public.csv"
    # Every other of 80 counts as 50: 30 of each 100; in each hour alike, so of the totals too.
    assert caveat.dry_run.lost["paid"] == pytest.approx(0.3, abs=0.06)
    assert caveat.dry_run.lost["visits"] == 0
    shown = " ".join(weir("plan", config).stdout.split())
    assert f"in a dry run on public.csv ({caveat.dry_run.date})" in shown
