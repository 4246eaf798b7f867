"""Pictures need an extra: its absence is named, and pages go without it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import vl_convert

from tests.pipelines import synthetic
from tests.pipelines.conftest import Weir
from weir.dpcore.errors import ConfigError
from weir.pipelines import report, vega


@pytest.mark.slow
def test_the_page_runs_the_version_of_the_picture() -> None:
    """``make vega`` writes the file again."""
    file = Path(str(report.__file__)).with_name("vega.js")
    bundle = vl_convert.javascript_bundle(vl_version=vega.VEGA_LITE)  # type: ignore[call-arg]
    assert file.read_text(encoding="utf-8") == bundle


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is not installed."""
    monkeypatch.setitem(sys.modules, "vl_convert", None)


def test_a_picture_without_its_library_is_refused(bare: None, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"weir-dp\[png\]"):
        vega.check(tmp_path / "picture.png")
    with pytest.raises(ConfigError, match=r"weir-dp\[png\]"):
        vega.save({}, tmp_path / "picture.svg")
    assert not list(tmp_path.iterdir())


def test_a_report_without_pictures_is_its_page(bare: None, weir: Weir, tmp_path: Path) -> None:
    folder = synthetic.folder(
        tmp_path / "out", [""], 5, synthetic.SHOP, synthetic.shop_values(), every=5
    )
    result = weir("report", folder)
    assert result.exit_code == 0 and "weir-dp[png]" in result.stderr, result.output
    assert (folder / "report.html").exists() and not (folder / "report.png").exists()
    refused = weir("report", folder, "--png-only")
    assert refused.exit_code == 2 and "weir-dp[png]" in refused.stderr
