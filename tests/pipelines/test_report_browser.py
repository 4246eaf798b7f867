"""The page and the statement in a real browser: nothing cut, and everything that one can do."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.browser import WIDTHS, look, pages_printed
from tests.pipelines import synthetic
from weir.dpcore.registry import MODELS
from weir.pipelines.config.job import load
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.report import page as report_page
from weir.pipelines.report.data import gather
from weir.pipelines.report.page import page
from weir.pipelines.report.report import report, statement_page
from weir.pipelines.results.plan_file import plan_json
from weir.pipelines.results.run import ResultFolder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
NASTY = "</script><img src=x onerror=window.hacked=1>"
LEARNER = MODELS["online.follow_the_leader"]
KEYS = ["north", "south", NASTY, "=1+1", "east", "west", "harbour"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The page and the statement of a shop with keys that would do harm."""
    base = tmp_path_factory.mktemp("shop") / "out"
    folder = synthetic.folder(base, KEYS, 20, synthetic.SHOP, synthetic.shop_values())
    found = report(folder, statement=True)
    assert found.html is not None and found.statement is not None
    return found.html.read_text(), found.statement.read_text()


READS = """
const reads = () => ({
  texts: [...document.querySelectorAll(".chart")].map((one) => ({
    role: one.getAttribute("role"), text: one.getAttribute("aria-label"),
    inner: [...one.querySelectorAll("svg, canvas")].map((svg) => svg.getAttribute("aria-hidden")),
  })),
  heads: [...document.querySelectorAll("th")].map((one) => one.textContent.trim()),
  nodes: document.querySelectorAll("*").length,
});
"""
HOVERS = """
const hovers = async () => {
  const tips = [], tip = document.getElementById("tip");
  for (const chart of document.querySelectorAll(".chart")) {
    chart.scrollIntoView({ block: "center" });
    const box = chart.querySelector("svg, canvas").getBoundingClientRect();
    const [x, y] = [box.left + 0.6 * box.width, box.top + 0.4 * box.height];
    const at = { bubbles: true, clientX: x, clientY: y, pointerType: "mouse" };
    const target = document.elementFromPoint(x, y) ?? chart;
    for (const kind of ["pointerover", "pointermove"])
      target.dispatchEvent(new PointerEvent(kind, at));
    target.dispatchEvent(new MouseEvent("mousemove", at));
    await new Promise((go) => setTimeout(go, 30));
    const place = tip.getBoundingClientRect();
    tips.push(tip.hidden ? null : {
      words: [...tip.children].flatMap((one) => [...one.childNodes].map((node) => node.data
        ?? node.textContent)),
      inside: place.left >= 0 && place.right <= innerWidth && place.top >= 0
        && place.bottom <= innerHeight,
      dots: chart.querySelectorAll(".mark-symbol path").length,
    });
    for (const kind of ["pointerout", "mouseout"]) target.dispatchEvent(new PointerEvent(kind, at));
    chart.dispatchEvent(new PointerEvent("pointerleave", at));
  }
  return { tips, left: tip.hidden };
};
"""
"""What a page says to those who read it, and to a pointer over the middle of each chart."""


@pytest.fixture(scope="module", params=[False, True], ids=["light", "dark"])
def seen(
    request: pytest.FixtureRequest,
    made: tuple[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[bool, list[Any]]:
    """Whether it is dark, and what the page is at each width."""
    probe = f"{READS}{HOVERS}return {{ ...measured(), ...reads(), ...await hovers() }};"
    place = tmp_path_factory.mktemp("seen")
    return request.param, look(made[0], place, probe, dark=request.param)


def test_nothing_is_cut_at_any_width(seen: tuple[bool, list[Any]]) -> None:
    dark, found = seen
    assert [one["width"] for one in found] == list(WIDTHS)
    for one in found:
        assert one["failed"] is None and one["wide"] <= one["width"]
        assert one["outside"] == [] and one["hidden"] == [] and one["cut"] == [], one
        assert one["drawn"] == one["charts"] > 25, "a chart a key"
        assert one["unnamed"] == 0, "every control, chart and region has a name"
        assert one["dark"] is dark
        assert (one["page"] == "rgb(16, 20, 27)") is dark
        assert one["images"] == 0 and one["hacked"] is None, "a key is text"


def test_a_pointer_shows_time_key_and_value(seen: tuple[bool, list[Any]]) -> None:
    for page_at in seen[1]:
        tips = [tip for tip in page_at["tips"] if tip is not None]
        assert page_at["left"] and all(tip["inside"] for tip in tips)
        assert not any(
            "undefined" in word or "null" in word for tip in tips for word in tip["words"]
        )
        lines = [tip for tip in tips if tip["words"][0] == "time"]
        assert len(lines) > 20, "a chart of each figure and key"
        for tip in lines:
            words = tip["words"]
            assert tip["dots"] == 1, "the point that the words are of"
            assert words[::2] == ["time", "tick", "key", "value"], words
            assert words[1].startswith("1997-01-"), words
            assert words[5] in KEYS and any(digit in words[7] for digit in "0123456789"), words
        others = {tip["words"][0] for tip in tips} - {"time"}
        assert others <= {"bin", "row"} and others, "bars and maps have theirs"


def test_screen_readers_get_what_each_chart_says(seen: tuple[bool, list[Any]]) -> None:
    for page_at in seen[1]:
        assert "" not in page_at["heads"]
        for chart in page_at["texts"]:
            assert chart["role"] == "img" and chart["inner"] == ["true"], chart
            assert "Vega" not in chart["text"], chart
            assert any(digit in chart["text"] for digit in "0123456789"), chart
        texts = [chart["text"] for chart in page_at["texts"]]
        assert len(set(texts)) == len(texts) > 25, "each says its own"
        assert any(
            text.startswith("purchases, last 7 ticks (7 days), north: ") and "1997-01-20" in text
            for text in texts
        )


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


@pytest.mark.parametrize("margins", [False, True])
def test_a_model_of_sixteen_keys_is_a_light_page(margins: bool, tmp_path: Path) -> None:
    """Its coefficients are small charts, one a key, with the margins that they have."""
    labels = ("delay", "distance", *(f"x{i}" for i in range(5)))
    shown = LEARNER.outputs

    def value_of(name: str, over: int | None, k: int, tick: int) -> tuple[Any, Any]:
        if name == "loss":
            return [0.01 * (tick + 1), 0.01 * (k + 1)], [0.002, 0.002]
        walk = [1.5 + k + j + 5 / (tick + 1) for j in range(len(labels))]
        return walk, [0.5] * len(labels) if margins else None

    outputs = [("coefficients", None), ("loss", None)]
    releases = [
        synthetic.release("coefficients", None, labels, shown["coefficients"]),
        synthetic.release("loss", None, ("total", "per_tick"), shown["loss"]),
    ]
    planned = synthetic.plan(150, releases, keys=16)
    planned["config"] = {"expect.events": 4, "model.loss": "squared"}
    planned["model"] = {"targets": ["late"], "ranges": {"late": [-60, 180]}}
    keys = [f"carrier-{i:02d}" for i in range(16)]
    folder = synthetic.folder(tmp_path / "out", keys, 150, outputs, value_of, planned=planned)
    text = page(gather(ResultFolder.open(folder)))
    probe = f"""{READS}
const model = [...document.querySelectorAll(".model article")].map((one) => ({{
  title: one.querySelector("h3").textContent.trim(),
  keys: one.querySelectorAll(".who").length,
  margins: one.querySelectorAll(".mark-area path[d^=M]").length,
  wide: Math.max(...[...one.querySelectorAll("figure")].map((cell) => cell.clientWidth)),
}}));
return {{ ...reads(), model, first: document.querySelector("#charts section").textContent }};
"""
    (found,) = look(text, tmp_path, probe, widths=(1440,))
    assert found["nodes"] <= 5000
    assert found["first"].startswith("How well it predicts") and "error of late" in found["first"]
    assert "baseline 69.3" in found["first"]
    assert [one["title"] for one in found["model"]] == list(labels)
    for one in found["model"]:
        assert one["keys"] == 5 and one["wide"] < 320, "small multiples"
        assert (one["margins"] > 0) is margins


PRINTED = """
const seen = (node) => node.getClientRects().length > 0;
const width = (node) => node.getBoundingClientRect().width;
const wide = (node) => node.getBoundingClientRect().right > innerWidth + 1;
dispatchEvent(new Event("beforeprint"));
const all = (where) => [...document.querySelectorAll(where)];
return {
  scrolled: all(".scroll").filter((one) => one.scrollWidth > one.clientWidth + 1
    && getComputedStyle(one).overflowX !== "visible").length,
  cut: all("#last th, #last td, section table td").filter(wide).length,
  charts: all(".chart svg, .chart canvas").filter((one) => width(one) > width(one.parentNode) + 1)
    .length,
  drawn: all(".chart svg, .chart canvas").length,
  controls: all("button, input, summary").filter(seen).map((one) => one.textContent),
  plan: document.getElementById("plan").open,
  days: all("#last thead th").map((one) => one.textContent),
  rows: all("article details tbody th").map((one) => one.textContent),
};
"""
PAPER = 718
"""Width of A4 within its margins, at 96 dots an inch."""


def test_values_below_zero_order_and_print(tmp_path: Path) -> None:
    """Counts that noise carried below 0, in charts and maps; the newest last, in tables as in
    charts; and on paper nothing scrolls, charts fit, and no control is left."""

    def value_of(name: str, over: int | None, k: int, tick: int) -> tuple[Any, Any]:
        size = 5 if name == "sizes" else 1
        return [-4_000_000.0 + 1_000_000 * tick] * size, [2_000_000.0] * size

    outputs = [("purchases", 1), ("sizes", None)]
    folder = synthetic.folder(tmp_path / "out", [""], 8, outputs, value_of)
    text = page(gather(ResultFolder.open(folder)))
    probe = f"""
const texts = (where) => [...document.querySelectorAll(where)].map((one) => one.textContent);
const map = document.querySelector("canvas"), paint = map.getContext("2d");
const colours = [0, 1, 2, 3, 4, 5].map((i) => String(
  paint.getImageData(map.width * (0.32 + 0.1 * i), map.height * 0.2, 1, 1).data));
const box = document.querySelector("article details");
box.open = true;
box.dispatchEvent(new Event("toggle"));
const drawn = {{ ticks: texts(".period .role-axis-label text"), colours: new Set(colours).size,
  foot: document.querySelector(".period").textContent, said: map.parentNode.ariaLabel }};
return {{ ...drawn, ...await (async () => {{ {PRINTED} }})() }};
"""
    (found,) = look(text.replace("@media print", "@media all", 1), tmp_path, probe, widths=(PAPER,))
    assert any(text.startswith("\N{MINUS SIGN}") for text in found["ticks"]), found["ticks"]
    assert "beyond the axis" not in found["foot"]
    assert found["colours"] >= 5, "colours of values below 0 differ"
    assert "from \N{MINUS SIGN}4,000,000" in found["said"], found["said"]
    days = [f"1997-01-0{i}" for i in range(1, 9)]
    assert found["rows"] == days and found["days"] == ["release", *days[1:]], "the last seven"
    assert found["scrolled"] == found["cut"] == found["charts"] == 0 and found["drawn"] == 3
    assert found["plan"] and found["controls"] == ["The plan"]
    assert pages_printed(text, tmp_path) <= 4


def test_an_axis_that_leaves_values_out_says_how_many(tmp_path: Path) -> None:
    """A mean whose first margins are wide: they would flatten the rest."""

    def value_of(name: str, over: int | None, k: int, tick: int) -> tuple[Any, Any]:
        return ([90.0], [500.0]) if tick < 2 else ([36.0 + 0.01 * tick], [0.1])

    folder = synthetic.folder(tmp_path / "out", [""], 60, [("basket", None)], value_of)
    text = page(gather(ResultFolder.open(folder)))
    probe = 'return document.querySelector("article").textContent;'
    (found,) = look(text, tmp_path, probe, widths=(800,))
    assert "2 of 60 values lie beyond the axis." in found


SILENT = """
window.EventSource = class {
  addEventListener() {}
  set onopen(act) { setTimeout(act); }
  set onerror(_) {}
};
"""
"""In place of a server: it opens, and tells nothing."""


@pytest.mark.parametrize(("complete", "said"), [(True, "Finished: "), (False, "Live: waiting")])
def test_a_finished_folder_is_not_waited_for(complete: bool, said: str, tmp_path: Path) -> None:
    values = synthetic.shop_values()
    folder = synthetic.folder(
        tmp_path / "out", [""], 4, [("purchases", 1)], values, complete=complete
    )
    text = page(gather(ResultFolder.open(folder)), live=True)
    script = (Path(report_page.__file__).parent / "page.js").read_text()
    other = script.replace('"use strict";', f'"use strict";{SILENT}', 1)
    text = text.replace(script, other).replace(hashed(script), hashed(other))
    ask = """
await new Promise((go) => setTimeout(go, 50));
return document.getElementById("live").textContent;
"""
    (found,) = look(text, tmp_path, ask, widths=(800,))
    assert found.startswith(said)


def hashed(script: str) -> str:
    """As a policy names a script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def test_a_statement_is_one_page(made: tuple[str, str], tmp_path: Path) -> None:
    """That of events, and that of the demo's customers, with all that a reader must know."""
    assert pages_printed(made[1], tmp_path) == 1
    plan = plan_of(load(ROOT / "examples" / "shop" / "customers.yaml"))
    planned = plan_json(plan)
    outputs = [(row["name"], row["over"]) for row in planned["releases"]]
    four = {"sizes": 4}

    def value_of(name: str, over: int | None, k: int, tick: int) -> tuple[Any, Any]:
        return [[10.0] * four.get(name, 1)] * 2

    folder = synthetic.folder(tmp_path / "out", [""], 3, outputs, value_of, planned=planned)
    text = statement_page(ResultFolder.open(folder), "1.2.3")
    assert pages_printed(text, tmp_path) == 1
    assert plan.guarantee.every_period is not None
    for words in (
        "<b>A user present in every period (6)</b>",
        f"has epsilon = {plan.guarantee.every_period.epsilon:.4g}",
        "More than one period: over 2 of them in a row",
        "who is named in two ways is two users",
        "conditional on no event being overdue",
        "undercount: at most 4 days a quarter and 1 purchase a day per customer",
        "values outside [0, 100] count as the nearer bound",
        "The data themselves, checkpoints, logs and the secret",
    ):
        assert words in text, words
    assert text.count("<td>purchases</td>") == 1, "a line for each figure, with all its spans"


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
