"""The page and the statement in a real browser: nothing cut, and everything that one can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser import WIDTHS, look, pages_printed
from tests.pipelines import synthetic
from weir.pipelines.report.report import report

pytestmark = pytest.mark.slow

NASTY = "</script><img src=x onerror=window.hacked=1>"
KEYS = ["north", "south", NASTY, "=1+1", "east", "west", "harbour"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The page and the statement of a shop with keys that would do harm."""
    base = tmp_path_factory.mktemp("shop") / "out"
    folder = synthetic.folder(base, KEYS, 20, synthetic.SHOP, synthetic.shop_values())
    found = report(folder, statement=True)
    assert found.html is not None and found.statement is not None
    return found.html.read_text(), found.statement.read_text()


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_cut_at_any_width(made: tuple[str, str], dark: bool, tmp_path: Path) -> None:
    found = look(made[0], tmp_path, "return measured();", dark=dark)
    assert [one["width"] for one in found] == list(WIDTHS)
    for one in found:
        assert one["failed"] is None and one["wide"] <= one["width"]
        assert one["outside"] == [] and one["hidden"] == [] and one["cut"] == [], one
        assert one["drawn"] == one["charts"] > 25, "a chart a key"
        assert one["unnamed"] == 0, "every control, chart and region has a name"
        assert one["dark"] is dark
        assert (one["page"] == "rgb(16, 20, 27)") is dark
        assert one["images"] == 0 and one["hacked"] is None, "a key is text"


ACTS = """
const found = {}, box = document.getElementById("search");
const act = async (does) => { delete document.body.dataset.ready; does(); await settled(); };
const ends = () => [...document.querySelectorAll(".chart[aria-label]")].length;
const options = () => [...document.querySelectorAll("#found li")].map((one) => one.textContent);
const press = (key) => box.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
found.charts = ends();
box.value = "har"; box.dispatchEvent(new Event("input"));
found.options = options();
press("ArrowDown");
found.active = box.getAttribute("aria-activedescendant");
await act(() => press("Enter"));
found.chips = [...document.querySelectorAll("#chips .chip")].map((one) => one.textContent);
found.more = ends();
await act(() => document.querySelector("#chips .chip").click());
found.pressed = document.querySelector("#chips .chip").getAttribute("aria-pressed");
found.fewer = ends();
await act(() => document.getElementById("apart").click());
found.together = ends();
await act(() => document.getElementById("apart").click());
const from = document.getElementById("from");
from.value = 15;
await act(() => from.dispatchEvent(new Event("change")));
found.dates = [...document.querySelectorAll(".tools output")].map((one) => one.textContent);
found.csv = weir.csv();
found.details = (() => {
  const one = document.querySelector("article details"); one.open = true;
  one.dispatchEvent(new Event("toggle")); return one.querySelectorAll("tbody tr").length; })();
await act(() => document.querySelectorAll(".chart")[0].dispatchEvent(new MouseEvent("dblclick")));
found.whole = weir.state.whole;
const chart = document.querySelectorAll(".chart")[0], spot = chart.getBoundingClientRect();
await act(() => chart.dispatchEvent(new WheelEvent("wheel",
  { deltaY: -1, ctrlKey: true, clientX: spot.left + spot.width / 2, cancelable: true })));
found.zoomed = weir.state.to - weir.state.from;
found.span = weir.page().fine.times.at(-1) - weir.page().fine.times[0];
return found;
"""


def test_keys_ranges_and_files(made: tuple[str, str], tmp_path: Path) -> None:
    (found,) = look(made[0], tmp_path, ACTS, widths=(900,))
    assert found["options"] == ["harbour"] and found["active"] == "found-0"
    assert found["chips"] == ["north", "south", NASTY, "=1+1", "east", "harbour"]
    assert found["more"] - found["charts"] == 6, "a chart more for each output"
    assert found["pressed"] == "false" and found["fewer"] == found["charts"]
    assert found["together"] < found["fewer"]
    assert found["dates"] == ["1997-01-16", "1997-01-20"]
    lines = found["csv"].splitlines()
    assert lines[0] == "key,tick,tick_start,name,over,label,value,half_width"
    assert len(lines) == 1 + 5 * 5 * (5 + 5), "keys, ticks, numbers and bins, of what is shown"
    assert not any(line.startswith('"north"') for line in lines), "it is hidden"
    assert any(line.startswith('"\'=1+1",15,1997-01-16T00:00:00.000Z') for line in lines)
    assert any('"sizes",,"[10, inf)",' in line for line in lines)
    assert found["details"] == 5
    assert found["whole"] is True and 0 < found["zoomed"] < found["span"]


HOVERS = """
const tips = [];
for (const chart of document.querySelectorAll(".chart")) {
  chart.scrollIntoView({ block: "center" });
  const box = chart.querySelector("svg").getBoundingClientRect();
  const [x, y] = [box.left + 0.6 * box.width, box.top + 0.5 * box.height];
  const at = { bubbles: true, clientX: x, clientY: y };
  const target = document.elementFromPoint(x, y) ?? chart;
  const pointer = { ...at, pointerType: "mouse" };
  for (const kind of ["pointerover", "pointermove"])
    target.dispatchEvent(new PointerEvent(kind, pointer));
  target.dispatchEvent(new MouseEvent("mousemove", at));
  await new Promise((go) => setTimeout(go, 60));
  tips.push(document.getElementById("vg-tooltip-element")?.innerText.split(/\\s*\\n\\s*/) ?? null);
}
return tips;
"""


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (1024, True), (390, False)])
def test_a_pointer_shows_time_key_and_value(
    made: tuple[str, str], width: int, dark: bool, tmp_path: Path
) -> None:
    (tips,) = look(made[0], tmp_path, HOVERS, widths=(width,), dark=dark)
    assert not any("undefined" in words or "null" in words for tip in tips for words in tip or [])
    lines = [tip for tip in tips if tip is not None and tip[0] == "time"]
    assert len(lines) > 20, "a chart of each figure and key"
    for tip in lines:
        assert tip[::2] == ["time", "tick", "key", "value"], tip
        assert tip[1].startswith("1997-01-"), tip
        assert tip[5] in KEYS and any(digit in tip[7] for digit in "0123456789"), tip


def test_a_statement_is_one_page(made: tuple[str, str], tmp_path: Path) -> None:
    assert pages_printed(made[1], tmp_path) == 1


def test_ten_thousand_keys_are_searched(tmp_path: Path) -> None:
    keys = [f"store-{i:05d}" for i in range(10_000)]

    def value_of(name: str, over: int | None, k: int, tick: int) -> tuple[Any, Any]:
        return [float(k + tick)], [3.0]

    folder = synthetic.folder(tmp_path / "out", keys, 2, [("purchases", 1)], value_of)
    made = report(folder)
    assert made.html is not None
    probe = """
const box = document.getElementById("search");
box.value = "00042"; box.dispatchEvent(new Event("input"));
delete document.body.dataset.ready;
box.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
await settled();
return [...document.querySelectorAll("figure.cell")].map((one) => one.textContent.slice(0, 24));
"""
    (found,) = look(made.html.read_text(), tmp_path, probe, widths=(900,))
    assert any(text.startswith("store-0004243.0") for text in found), found
