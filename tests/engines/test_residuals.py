"""What the class of our own in Flink's job server stores, held against the one that it replaces."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from weir.pipelines.engines import job_server
from weir.pipelines.engines.tools import EngineMissing

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("Residuals.java")
RING = 64
WAIT, WATERMARK = 50_900, 7_123
"""Milliseconds: what the program asks for."""
CALLS = 150


@pytest.fixture(scope="module")
def jar() -> Path:
    """The job server's; without it the test fails in CI and is skipped elsewhere."""
    try:
        return job_server.jar()
    except EngineMissing as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


def stored(classes: str, elements: str) -> Iterator[tuple[str, str, str, int, int]]:
    """(name, element, what its cell holds, wait, watermark) of every timer, in order of calls."""
    command = ["java", "-cp", classes, str(PROGRAM), str(CALLS), elements]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        name, element, held, wait, watermark = line.split()
        yield name, element, held, int(wait), int(watermark)


def test_names_come_from_a_ring_and_times_are_kept_to_the_millisecond(jar: Path) -> None:
    found = list(stored(str(jar), "a,b,a"))
    assert len(found) == 3 * CALLS, "equal elements of one call have names of their own"
    names = {name for name, *_ in found}
    assert names == {f"sdf_checkpoint:{slot}:{i}" for slot in range(RING) for i in range(2)}
    assert {name for name, element, *_ in found if element == "b"} == {
        f"sdf_checkpoint:{slot}:0" for slot in range(RING)
    }
    for _, element, held, wait, watermark in found:
        assert held == element and watermark == WATERMARK and wait <= WAIT
    # What cuts does so each time; a busy machine is late by as much now and then.
    assert sum(wait <= WAIT - 900 for *_, wait, _ in found) < CALLS / 10, "waits were cut"


def test_the_class_of_beams_own_takes_a_new_name_each_time_and_cuts(jar: Path) -> None:
    """What the other test sees is not there by itself."""
    stock = jar.with_name(job_server.STOCK)
    found = list(stored(os.pathsep.join([str(stock), str(jar)]), "a"))
    assert len({name for name, *_ in found}) == CALLS
    assert {watermark for *_, watermark in found} == {WATERMARK // 1000 * 1000}
    assert max(wait for *_, wait, _ in found) <= WAIT // 1000 * 1000
