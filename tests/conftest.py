"""Property tests search anew on a laptop, and are the same every time in continuous integration.

Tests that take long are told apart from the others, so that ``make check`` can leave them to ``make
test``: those of whole folders that measure noise or attack a promise, and tests and files in
slow.txt, which ``python -m tests.slowest REPORT`` writes anew from a report of JUnit's.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from dpcore.native import kernels

SLOW_FOLDERS = ("audit", "runners", "statistical")
SLOW_TESTS = frozenset(Path(__file__).with_name("slow.txt").read_text().split())

gc.disable()  # until all is collected: it goes through what only grows, again and again

# No deadlines: on a machine that does something else as well, any example may take long.
settings.register_profile("laptop", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "laptop")


@pytest.fixture
def compiled() -> Any:
    """The kernels. Fails in continuous integration where they are missing: what is tested is that
    they do what numpy does."""
    if kernels is None and not os.environ.get("CI"):
        pytest.skip("no compiler was at hand when Weir was installed")
    assert kernels is not None, "install Weir with a C compiler: dpcore.native._kernels is missing"
    return kernels


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what takes long as ``slow``."""
    for item in items:
        path, _, name = item.nodeid.partition("::")
        folder = Path(path).parts[1:2]
        if (
            folder
            and folder[0] in SLOW_FOLDERS
            or not SLOW_TESTS.isdisjoint({path, f"{path}::{name.partition('[')[0]}"})
        ):
            item.add_marker("slow")


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays to the end: no garbage is looked for in it."""
    gc.freeze()
    gc.enable()
