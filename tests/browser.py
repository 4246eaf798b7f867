"""Pages in a real browser: what they look like by structure, at several widths, light and dark."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = (360, 390, 1024, 1440)
SECONDS = 120

MEASURE = """
const seen = (node) => node.getClientRects().length > 0;
const outside = (node) => {
  if (node.closest(".scroll, .unseen, svg") || !seen(node)) return false;
  const box = node.getBoundingClientRect();
  return box.right > document.documentElement.clientWidth + 1 || box.left < -1;
};
const clipped = (node) => seen(node) && !node.closest("svg, .scroll, .unseen, input")
  && getComputedStyle(node).overflowX !== "visible" && node.scrollWidth > node.clientWidth + 1;
const CONTROLS = ".chart, input, button, section, article, [role=listbox]";
const unnamed = (node) => !(node.getAttribute("aria-label") || node.labels?.length
  || node.textContent.trim());
const measured = () => {
  const named = (node) => `${node.tagName}.${node.className}: ${node.textContent.slice(0, 40)}`;
  const cut = [];
  for (const svg of document.querySelectorAll(".chart svg")) {
    const frame = svg.getBoundingClientRect();
    for (const text of svg.querySelectorAll("text")) {
      const box = text.getBoundingClientRect(); // Vega keeps labels without room, unseen
      const shown = box.width && getComputedStyle(text).opacity !== "0";
      if (shown && (box.left < frame.left - 2 || box.right > frame.right + 2
        || box.top < frame.top - 2 || box.bottom > frame.bottom + 2)) cut.push(text.textContent);
    }
  }
  return {
    width: innerWidth,
    wide: document.documentElement.scrollWidth,
    outside: [...document.querySelectorAll("body *")].filter(outside).map(named),
    hidden: [...document.querySelectorAll("main *")].filter(clipped).map(named),
    cut,
    charts: document.querySelectorAll(".chart").length,
    drawn: document.querySelectorAll(".chart svg, .chart canvas").length,
    unnamed: [...document.querySelectorAll(CONTROLS)].filter(unnamed).length,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    page: getComputedStyle(document.body).backgroundColor,
    failed: document.body.dataset.failed ?? null,
    images: document.images.length,
    hacked: window.hacked ?? null,
  };
};
const settled = async () => {
  for (let i = 0; i < 1500 && !document.body.dataset.failed; i++) {
    await new Promise((go) => setTimeout(go, 40));
    if (document.body.dataset.ready) return;
  }
};
"""
"""What a probe may use: ``measured()``, and ``settled()`` after something that draws."""


def browser() -> str:
    """Path of the browser; without one a test is skipped, and fails in continuous integration."""
    for name in NAMES:
        found = shutil.which(name)
        if found is not None:
            return found
    why = f"there is no browser ({', '.join(NAMES)}): install chromium to test pages"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


def probed(page: str, probe: str) -> str:
    """A page with one script more, which its policy names. probe: the body of a function, whose
    result is sent to the page around."""
    script = f"""{MEASURE}
(async () => {{ await settled(); return (async () => {{ {probe} }})(); }})()
  .catch((error) => ({{ error: String(error.stack) }}))
  .then((found) => parent.postMessage(JSON.stringify(found), "*"));"""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "script-src &#39;" in page
    page = page.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    begin, _, end = page.rpartition("</body>")  # the library holds that text, too
    return f"{begin}<script>{script}</script></body>{end}"


def look(
    page: str, folder: Path, probe: str, widths: tuple[int, ...] = WIDTHS, dark: bool = False
) -> list[Any]:
    """Results of a probe in frames of several widths, in one run of the browser."""
    (folder / "page.html").write_text(probed(page, probe), encoding="utf-8")
    frames = "".join(
        f'<iframe src="page.html" style="width: {width}px; height: 900px; border: 0"></iframe>'
        for width in widths
    )
    scheme = "dark" if dark else "light"
    around = f"""<!doctype html><meta name="color-scheme" content="{scheme}"><body>{frames}
<pre id="found"></pre><script>
const found = [], frames = [...document.querySelectorAll("iframe")].map((one) => one.contentWindow);
addEventListener("message", (event) => {{
  found[frames.indexOf(event.source)] = JSON.parse(event.data);
  if (Object.keys(found).length === frames.length)
    document.getElementById("found").textContent = JSON.stringify(found);
}});</script>"""
    (folder / "around.html").write_text(around, encoding="utf-8")
    command = [
        browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={folder / 'profile'}", "--window-size=3400,1000",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        "--virtual-time-budget=60000", "--dump-dom", (folder / "around.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    text = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert text and text[1], (done.stdout[-2000:], done.stderr[-2000:])
    results: list[Any] = json.loads(html.unescape(text[1]))
    for one in results:
        assert "error" not in one, one
    return results


def pages_printed(page: str, folder: Path) -> int:
    """How many sheets a page takes on paper."""
    (folder / "printed.html").write_text(page, encoding="utf-8")
    made = folder / "printed.pdf"
    command = [
        browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--no-pdf-header-footer", f"--user-data-dir={folder / 'profile'}",
        f"--print-to-pdf={made}", (folder / "printed.html").as_uri(),
    ]  # fmt: skip
    subprocess.run(command, capture_output=True, timeout=SECONDS, check=True)
    return len(re.findall(rb"/Type\s*/Page\b", made.read_bytes()))
