"""The demo's data and the truth that it shows; the demo as a whole is run by `make demo`."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.shop import data, demo, plot
from examples.shop import truth as demo_truth
from tests.pipelines import synthetic
from weir.dpcore.errors import WeirError
from weir.pipelines.results.run import ReleasedOutput, ResultFolder

TEXT = b""" customer_id  date number_of_cds  dollar_value
 00001 19970101  1   11.77
 00002 19970101  5  250.00
 00003 19970103 12    0.00
 00001 19980630  2   29.33
"""


LABELS = ("[1, 2)", "[2, 3)", "[3, 5)", "[5, inf)")
SHOP = [(name, 28 if over == 7 else over) for name, over in synthetic.SHOP]


def folder(path: Path, value_of: synthetic.ValueOf) -> Path:
    """Results of 30 days with the outputs of the demo."""
    outputs = [synthetic.release(n, over, LABELS if n == "sizes" else ("",)) for n, over in SHOP]
    planned = synthetic.plan(30, outputs, keys=1)
    return synthetic.folder(path, [""], 30, SHOP, value_of, planned=planned)


def test_every_purchase_gets_an_id_of_its_own(tmp_path: Path) -> None:
    assert data.write_csv(TEXT, tmp_path / "purchases.csv") == 4
    lines = (tmp_path / "purchases.csv").read_text().splitlines()
    assert lines[0] == "purchase_id,customer_id,date,number_of_cds,dollar_value"
    assert lines[2] == "p000002,00002,19970101,5,250.00"
    assert list(tmp_path.iterdir()) == [tmp_path / "purchases.csv"]


def test_truth() -> None:
    truth = demo_truth.Truth(data.purchases(TEXT))
    count = truth.values(ReleasedOutput("purchases", None), bounded=True)[:, 0]
    assert len(count) == data.DAYS
    assert count[[0, 1, 2, 544, 545]].tolist() == [2, 2, 3, 3, 4]
    month = truth.values(ReleasedOutput("purchases", 28), bounded=True)[:, 0]
    assert month[[0, 27, 28, 29, 30, 545]].tolist() == [2, 3, 1, 1, 0, 1]
    assert truth.values(ReleasedOutput("dollars", None), bounded=False)[545, 0] == pytest.approx(
        291.10
    )
    assert truth.values(ReleasedOutput("dollars", None), bounded=True)[545, 0] == pytest.approx(
        141.10
    )
    assert truth.values(ReleasedOutput("basket", None), bounded=True)[0, 0] == pytest.approx(55.885)
    sizes = truth.values(ReleasedOutput("sizes", None, LABELS), bounded=True)
    assert sizes[545].tolist() == [1, 1, 0, 2]
    assert truth.clipped_share == pytest.approx(150 / 291.10)


CAPPED = b""" customer_id  date number_of_cds  dollar_value
 00001 19970101  1   10.00
 00001 19970101  2   30.00
 00001 19970201  1   10.00
 00001 19970301  1   10.00
 00001 19970330  1  900.00
 00001 19970331  1   10.00
 00001 19970401  1   10.00
 00002 19970331  5   10.00
"""


def test_truth_within_the_caps() -> None:
    truth = demo_truth.Truth(data.purchases(CAPPED), capped=True)
    count = truth.values(ReleasedOutput("purchases", None), bounded=True)[:, 0]
    first = [0, 31, 59, 88, 89, 90]
    assert count[first].tolist() == [1, 2, 3, 4, 5, 6], "a fifth day of the quarter is left out"
    dollars = truth.values(ReleasedOutput("dollars", None), bounded=True)[:, 0]
    assert dollars[first] == pytest.approx([20, 30, 40, 140, 150, 160])
    sizes = truth.values(ReleasedOutput("sizes", None, LABELS), bounded=True)
    assert sizes[0].tolist() == [0.5, 0.5, 0, 0], "of two purchases of a day either may count"
    assert sizes[545].tolist() == [4.5, 0.5, 0, 1]
    assert truth.capped_share == pytest.approx(2 / 8)
    whole = truth.values(ReleasedOutput("purchases", None), bounded=False)[:, 0]
    assert whole[first].tolist() == [2, 3, 4, 5, 7, 8]


@pytest.mark.slow
def test_a_picture_of_both_promises(tmp_path: Path) -> None:
    truth = demo_truth.Truth(data.purchases(TEXT))
    run = ResultFolder.open(folder(tmp_path / "out", exact(truth, 1.0)))
    path = plot.draw(run, run, truth, tmp_path / "compared.png")
    assert path.stat().st_size > 20_000


def exact(truth: demo_truth.Truth, off: float) -> synthetic.ValueOf:
    def value_of(name: str, over: int | None, k: int, tick: int) -> tuple[Any, Any]:
        labels = LABELS if name == "sizes" else ("",)
        value = truth.values(ReleasedOutput(name, over, labels), bounded=True)[tick] + off
        return list(value), [1.0] * len(labels)

    return value_of


@pytest.mark.parametrize(("off", "share"), [(0.0, 1.0), (1.95, 1.0), (2.0, 0.0)])
def test_coverage_counts_bands_that_hold_the_truth(
    off: float, share: float, tmp_path: Path
) -> None:
    truth = demo_truth.Truth(data.purchases(TEXT))
    run = ResultFolder.open(folder(tmp_path / "out", exact(truth, off)))
    inside, bands = demo_truth.coverage(run, truth)
    assert bands == 30 * 9
    assert inside == share * bands
    assert demo_truth.table(run, run, truth, truth).row_count == 9


def test_only_the_demos_own_releases_are_removed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert not demo.forget(out)
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    with pytest.raises(WeirError, match="not the demo's"):
        demo.forget(out)
    (out / "_plan.json").write_text('{"name": "payroll"}')
    with pytest.raises(WeirError, match="not the demo's"):
        demo.forget(out)
    assert (out / "thesis.txt").exists()
    (out / "_plan.json").write_text('{"name": "shop"}')
    assert demo.forget(out)
    assert not out.exists()


def test_a_wheel_with_other_data_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "Lifetimes-0.11.3-py3-none-any.whl", "w") as wheel:
        wheel.writestr(data.MEMBER, TEXT)
    with pytest.raises(WeirError, match="holds another"):
        data.fetch(tmp_path)


@pytest.mark.slow
def test_without_the_package_the_demo_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "PACKAGE", "no-such-package-of-weir==0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(WeirError, match="put the wheel of"):
        data.fetch(tmp_path)


def test_demo_needs_the_folder_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert demo.main([]) == 1
    assert "examples/shop/customers.yaml is missing" in capsys.readouterr().err


def test_cost_in_sentences(tmp_path: Path) -> None:
    folder = synthetic.folder(tmp_path / "out", [""], 9, SHOP, synthetic.shop_values())
    lines = demo.cost(ResultFolder.open(folder))
    assert "epsilon = 1, delta = 1e-6 for any one purchase" in lines[0]
    assert np.all(["epsilon" in line for line in lines])
    lines = demo.cost(ResultFolder.open(folder), "customer", "the quarter's end")
    assert "for any one customer, against" in lines[0] and "of the quarter's end." in lines[0]
