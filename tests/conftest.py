"""Property tests search again on a laptop, and are the same every time in continuous integration.

Tests that take more than 0.2 s, all cases together, are marked ``slow`` in their source, so that
``make check`` can leave them to ``make test``. Those of whole folders that measure noise or attack
a guarantee are marked here.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

# Waiting threads of BLAS and OpenMP keep a processor busy. On a busy machine a matrix product then
# takes many times as long. Libraries read both when imported; started processes inherit them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import objsize
import pytest
from hypothesis import settings

from weir.dpcore.native import ciphers, kernels

HERE = Path(__file__).parent
SLOW_FOLDERS = tuple(HERE / name for name in ("audit", "buckets", "runners", "statistical"))
ALL_SLOW = b"\npytestmark = pytest.mark.slow"

# A suite in the background of a shell ignores Ctrl-C, and so would what its tests start and stop.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Beam's cache of state measures what is put into it; to look for what lies in a module too takes a
# third of a short pipeline.
objsize.default_settings.update(exclude_modules_globals=False)

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


@pytest.fixture
def encrypting(compiled: Any) -> Any:
    """Kernels that encrypt. Fails in continuous integration where the processor cannot."""
    if ciphers is None and not os.environ.get("CI"):
        pytest.skip("the processor has no instructions for AES: there is one path alone")
    assert ciphers is not None, "the processor has no instructions for AES"
    return ciphers


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without slow tests, files that have no others are not imported."""
    if config.option.markexpr != "not slow":
        return None
    if collection_path.is_dir():
        return True if collection_path in SLOW_FOLDERS else None
    return True if ALL_SLOW in collection_path.read_bytes() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests of slow folders as ``slow``."""
    slow = tuple(f"{folder}{os.sep}" for folder in SLOW_FOLDERS)
    for item in items:
        if str(item.path).startswith(slow):
            item.add_marker("slow")


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays to the end: no garbage is looked for in it, and a tenth
    of the time goes where it is looked for as often as by default."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A layer that was imported by the name of its folder has every class a second time."""
    twice = sorted({"dpcore", "transforms", "pipelines"} & sys.modules.keys())
    assert not twice, f"imported by the name of a folder: {twice}; write weir.{twice[0]}"


LONG = 2.0
"""Seconds from which ``make check`` names a test, all cases together: the first of several that
share what one of them computes has its time."""
_lasted: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Sums what the cases of a test take."""
    _lasted[report.nodeid.partition("[")[0]] += report.duration


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Without slow tests, names those that have become slow: without a mark they creep in."""
    if config.option.markexpr == "not slow":
        for name, seconds in _lasted.most_common(5):
            if seconds > LONG:
                terminalreporter.write_line(f"{seconds:.1f} s: {name} (mark it slow)")
