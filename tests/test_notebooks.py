"""The notebooks of examples/notebooks run from top to bottom, in one kernel after another."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["flights", "model", "shop"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_what_it_shows(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)


def test_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """One behind the other in one kernel, which imports everything once."""
    rest = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *([rest] if rest else [])]))
    together = nbformat.v4.new_notebook()
    for path in NOTEBOOKS:
        for cell in nbformat.read(path, as_version=4).cells:
            cell.id, cell.metadata["of"] = f"{path.stem}-{cell.id}", path.stem
            together.cells.append(cell)
    NotebookClient(together, timeout=120, resources={"metadata": {"path": str(FOLDER)}}).execute()
    shown: dict[str, str] = {path.stem: "" for path in NOTEBOOKS}
    for cell in together.cells:
        for output in cell.get("outputs", []):
            shown[cell.metadata["of"]] += output.get("data", {}).get("text/html", "")
    for html in shown.values():
        assert "epsilon" in html and "<table" in html and "<script" not in html
