"""``weir top``: the order of noisy numbers, and the ranks that they can have."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.pricing.calibration import BAND, LAPLACE_BAND
from weir.pipelines.show.top import ranks, width

SIZES = {"a": 900, "b": 300, "c": 290, "d": 4, "e": 2}


@pytest.fixture
def folder(weir: Weir, tmp_path: Path) -> Path:
    lines = [f"2025-01-01T10:00:00Z,{key},1" for key, n in SIZES.items() for _ in range(n)]
    (tmp_path / "views.csv").write_text("at,page,x\n" + "\n".join(lines) + "\n")
    (tmp_path / "secret.key").write_text("5a" * 32)
    (tmp_path / "secret.key").chmod(0o600)
    (tmp_path / "views.yaml").write_text(f"""
name: views
source: {{csv: views.csv}}
schema: {{time: at}}
key: {{column: page, declared: [{", ".join(SIZES)}]}}
clock: {{start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-03T00:00:00Z}}
privacy: {{epsilon: 1, delta: 1e-6, protect_for: all}}
aggregates:
  views: {{count: events, over: [all, 1]}}
  sizes: {{histogram: x, edges: [0, 1, 2]}}
secret: {{file: secret.key}}
sink: {{parquet: out/}}
""")
    assert weir("run", tmp_path / "views.yaml").exit_code == 0
    return tmp_path / "out"


@pytest.mark.slow
def test_the_largest_keys_and_what_is_sure_of_them(weir: Weir, folder: Path) -> None:
    found = json.loads(weir("top", folder, "-k", "2", "--json").stdout)
    assert (found["of"], found["over"], found["keys"], found["tick"]) == ("views", None, 5, 1)
    first, second = found["ranked"]
    assert (first["key"], first["best"], first["worst"]) == ("a", 1, 1)
    assert second["key"] in "bc" and (second["best"], second["worst"]) == (2, 3)
    assert found["others"] == 1, "the other of b and c"
    told = " ".join(weir("top", folder, "-k", "2").stdout.split())
    assert "1 of these 2 are surely among the 2 largest; 1 key not shown may be" in told
    assert "2 to 3" in told and "on average larger than the true ones" in told
    alone = json.loads(weir("top", folder, "--over", "1", "--tick", "0", "--json").stdout)
    assert alone["over"] == 1 and len(alone["ranked"]) == 5
    day = weir("top", folder, "--over", "1d", "--tick", "0", "--json").stdout
    assert json.loads(day) == alone
    assert json.loads(weir("top", folder, "--over", "all", "-k", "2", "--json").stdout) == found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--of", "vews"], "--of = 'vews': did you mean views?"),
        (["--over", "3"], "is no span of views; it has: since the start, each tick alone"),
        (["--over", "36h"], "--over = '36h': must be a whole number of periods of 1d"),
        (["--over", "week"], "--over = 'week': must be a duration"),
        (["--tick", "7"], "--tick = 7: is not among those released, 0 to 1"),
        (["--of", "sizes"], "Allowed here: views."),
    ],
)
def test_what_is_refused(weir: Weir, folder: Path, args: list[str], told: str) -> None:
    result = weir("top", folder, *args)
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_all_true_ranks_are_among_those_told(noise: str) -> None:
    """Nineteen times in twenty at least; with margins of one key each far less often."""
    rng = np.random.default_rng(2)
    true = np.sort(rng.gamma(1.0, 60.0, 60))[::-1]
    held = {True: 0, False: 0}
    for _ in range(400):
        drawn = rng.normal(size=60) if noise == "gaussian" else rng.laplace(size=60) / np.sqrt(2)
        value = true + 20 * drawn
        band = BAND if noise == "gaussian" else LAPLACE_BAND
        for together in (True, False):
            z = width(60, band) if together else band / 4
            best, worst = ranks(value, np.full(60, 20 * z))
            place = np.arange(1, 61)
            held[together] += bool(((best <= place) & (place <= worst)).all())
    assert held[True] >= 380 and held[False] < 300
