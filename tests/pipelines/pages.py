"""What a page holds, read back: its markup, its data and the numbers packed in them."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.pipelines.report.page import NONE

SCRIPT = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


class Page(HTMLParser):
    """Counts elements and collects text; fails on tags that do not match."""

    VOID = {"meta", "br", "input"}

    def __init__(self, path: Path | None) -> None:
        super().__init__()
        assert path is not None
        self.text = path.read_text()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.words = ""
        self.feed(self.text)
        assert self.open == []
        found = SCRIPT.search(self.text)
        self.data: Any = json.loads(found[1]) if found else None

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" not in self.open and "style" not in self.open:
            self.words += data

    def section(self, name: str) -> list[str]:
        """Titles of its figures."""
        ids = [one["figures"] for one in self.data["sections"] if one["name"] == name]
        return [self.data["figures"][i]["title"] for some in ids for i in some]


def unpacked(text: str, columns: int, step: float) -> NDArray[np.float64]:
    """What ``page.js`` makes of packed numbers."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(4, -1)
    steps = np.ascontiguousarray(planes.T).view("<i4").reshape(-1, columns)
    codes = np.cumsum(steps, axis=1, dtype=np.int32)
    return np.where(codes == NONE, np.nan, codes * step)
