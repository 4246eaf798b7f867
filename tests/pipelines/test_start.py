"""What a plan loads: no engine and no frames, which take several times as long as the plan."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SHOP = Path(__file__).parent.parent.parent / "examples" / "shop" / "shop.yaml"
HEAVY = {"apache_beam", "pandas", "scipy.optimize", "altair", "matplotlib", "sklearn", "jinja2"}
PLAN = """
import json, sys
from weir.pipelines.cli.main import main
main(["plan", sys.argv[1], "--json"], standalone_mode=False)
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def test_a_plan_loads_no_engine() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PLAN, str(SHOP)], capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout)["digest"]
    loaded = set(json.loads(ran.stderr.splitlines()[-1]))
    assert "weir.dpcore.plan" in loaded
    assert sorted(loaded & HEAVY) == []
