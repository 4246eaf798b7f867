"""The replay audit: sound plans use what they claim, and faults of every class are caught."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tests.audit.cases import configs, head
from tests.audit.replay_mutants import MUTANTS, TWO, Mutant
from weir.dpcore.audit.replay import Recorded
from weir.dpcore.bounded_events import Events
from weir.dpcore.errors import WeirError
from weir.dpcore.noise import replay
from weir.dpcore.plan import Plan
from weir.dpcore.simulate import simulate
from weir.pipelines.audit.replay import replay_audit
from weir.pipelines.audit.replayed import ReplayReport
from weir.pipelines.cli.main import main
from weir.pipelines.config.job import loads
from weir.transforms.operators.noise_source import KeyedNoiseSource
from weir.transforms.runtime.secret import SecretRef

PAIRS = 40
FAST = ("optimize.sfw_tree", "erm.output_perturbation", "online.pftal")
PURE = ("tree, laplace", "merging_tree, k_norm", "window_tree, gaussian", "sliding, g")
CONFIGS = {name: text for name, text, _ in configs()}
FOUND = next(text for name, text in CONFIGS.items() if name == "keys that are found, gaussian")
COUNTS = """
name: visits
schema: {time: at}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-05T00:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
aggregates: {visits: {count: events}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.name)
def test_a_mutant_is_caught(one: Mutant) -> None:
    def caught(report: ReplayReport) -> bool:
        return any(one.catches in words for words in report.broken)

    with one.change():
        report = replay_audit(loads(one.config), trials=PAIRS, until=caught)
    assert caught(report), report.broken


@pytest.mark.slow
@pytest.mark.parametrize("text", sorted({one.config for one in MUTANTS}))
def test_the_original_is_sound_and_uses_its_claim(text: str) -> None:
    report = replay_audit(loads(text), trials=PAIRS)
    assert report.broken == ()
    assert (0.9 if text == TWO else 0.95) < report.audits[0].share <= 1 + 1e-6
    assert report.largest[0] == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FAST, *PURE])
def test_every_kind_of_noise_is_compared(name: str) -> None:
    text = next(text for known, text in CONFIGS.items() if known.startswith(name))
    report = replay_audit(loads(text), trials=8)
    assert report.broken == ()
    assert (0.9 if name in FAST else 0.999) < report.audits[0].share <= 1 + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "change", "least"),
    [
        ("erm.sampled", ("block: 6", "block: 30"), 0.65),
        ("erm.output_perturbation", (", y: [0, 16]}", "}\n  classes: [0, 16]"), 0.9),
        ("erm.output_perturbation", (", y: [0, 16]}", "}\n  classes: [0, 1, 16]"), 0.8),
        ("optimize.sfw_polyhedral", ("records: 8\n", "records: 8\n  form: tree\n"), 0.52),
    ],
)
def test_models_of_few_records_use_more_than_half_of_their_claim(
    name: str, change: tuple[str, str], least: float
) -> None:
    assert change[0] in CONFIGS[name]
    report = replay_audit(loads(CONFIGS[name].replace(*change)), trials=PAIRS // 2)
    assert report.broken == ()
    assert least < report.audits[0].share <= 1 + 1e-6


@pytest.mark.slow
def test_keys_that_are_found_keep_to_their_delta() -> None:
    report = replay_audit(loads(FOUND), trials=12)
    assert report.broken == ()
    assert 0 < report.early <= report.early_claimed
    assert report.audits[0].share > 0.9


def test_a_replay_is_off_unless_code_asks_for_it() -> None:
    assert not replay.is_on() and replay.session() is None
    assert replay.released("x", "gaussian", np.zeros(1), 7, sensitivity=1, scale=1) == 7
    noise = KeyedNoiseSource(SecretRef.fresh(), "x", "00" * 32)
    with replay.recording():
        with pytest.raises(WeirError, match="does not run inside"):
            noise.noise_of((b"a",), 0)
        with pytest.raises(WeirError, match="under way"), replay.recording():
            pass
    assert not replay.is_on()


def test_nothing_but_the_audit_starts_one() -> None:
    """Neither a run, nor a config, nor a variable of the environment can."""
    root = Path(__file__).resolve().parents[2]
    users = set()
    for part in ("dpcore", "transforms", "pipelines"):
        for path in (root / part).rglob("*.py"):
            text = path.read_text()
            if "recording" in text or "replaying" in text:
                names = {node.attr for node in ast.walk(ast.parse(text))
                         if isinstance(node, ast.Attribute)}  # fmt: skip
                if names & {"recording", "replaying"}:
                    users.add(path.relative_to(root).as_posix())
    assert users == {"dpcore/audit/replay.py"}
    assert "import os" not in (root / "dpcore/noise/replay.py").read_text()


def test_a_recorded_run_has_the_same_bits() -> None:
    plan, secret = Plan.from_yaml(COUNTS), bytes(range(32))
    events = Events(plan.clock.starts(np.arange(3)), None, {})
    plain = simulate(plan, events, secret)
    recorded = Recorded.of(plan, events, secret)
    one, two = plain[0].released[0].value, recorded.released[0].released[0].value
    assert one.tobytes() == two.tobytes()
    assert [call.tick for call in recorded.session.calls] == [0, 1, 2, 3]
    again = recorded.replayed(events)
    assert again.faults == () and again.largest[0] == 0


@pytest.mark.slow
def test_the_command_prints_audits(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    text = head(window="all", ticks=6)
    path.write_text(text + "aggregates: {n: {count: events}}\n")
    ran = CliRunner().invoke(main, ["audit", str(path), "--replay", "--trials", "40", "--json"])
    assert ran.exit_code == 0, ran.output
    shown = json.loads(ran.stdout)
    assert {"claimed", "proven", "broken"} <= set(shown["audits"][0])
    assert shown["audits"][0]["proven"] == pytest.approx(1, rel=1e-3) and shown["broken"] == []
    ran = CliRunner().invoke(main, ["audit", str(path), "--replay", "--trials", "40"])
    assert "No claim was broken." in ran.stdout and "Largest change" in ran.stdout
    ran = CliRunner().invoke(main, ["audit", str(path), "--replay", "--only", "bytes"])
    assert ran.exit_code == 2 and "--only = 'bytes': does not go with --replay" in ran.output
