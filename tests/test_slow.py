"""The list of slow tests names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import SLOW_TESTS
from tests.slowest import FILES, slow_tests

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("path", sorted({name.partition("::")[0] for name in SLOW_TESTS}))
def test_listed_tests_are_there(path: str) -> None:
    text = (ROOT / path).read_text()
    names = {name.rpartition("::")[2] for name in SLOW_TESTS if name.startswith(f"{path}::")}
    assert names <= set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))


def test_slow_tests_are_found_in_a_report(tmp_path: Path) -> None:
    cases = [("tests.a.test_b", "test_c[1]", 0.2), ("tests.a.test_b", "test_c[2]", 0.2)]
    cases.append(("tests.a.test_b", "test_d", 0.25))
    cases.append(("tests.test_packaging", "test_e", 9.0))
    rows = "".join(f'<testcase classname="{c}" name="{n}" time="{t}"/>' for c, n, t in cases)
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuite>{rows}</testsuite>")
    assert slow_tests(str(report)) == ["tests/a/test_b.py::test_c", *FILES]
