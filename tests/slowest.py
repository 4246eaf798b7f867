"""Writes slow.txt: ``python -m tests.slowest REPORT``, of a run with ``--junitxml=REPORT``."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

LONGEST = 0.3
"""Seconds that all cases of one test may take together before it counts as slow."""

FILES = ("tests/deploy/test_image.py", "tests/test_packaging.py")
"""Files whose fixtures take long: whichever test asks first is charged, so all of them are slow."""


def slow_tests(report: str) -> list[str]:
    """Tests of a report that take longer, as path::name, and whole files."""
    spent: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        path = (case.get("classname") or "").replace(".", "/") + ".py"
        name = (case.get("name") or "").partition("[")[0]
        if path not in FILES:
            spent[f"{path}::{name}"] += float(case.get("time") or 0)
    return sorted([*FILES, *(name for name, seconds in spent.items() if seconds >= LONGEST)])


if __name__ == "__main__":
    Path(__file__).with_name("slow.txt").write_text("\n".join(slow_tests(sys.argv[1])) + "\n")
