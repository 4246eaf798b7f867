"""What a test needs of the programs that are installed next to Weir.

In continuous integration a component that is missing fails the tests that need it and says how to
get it; elsewhere they are skipped with that reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

from weir.pipelines.engines.tools import EngineMissing

T = TypeVar("T")


def needed(locate: Callable[[], T]) -> T:
    """What ``locate`` finds; without it the test fails in CI and is skipped elsewhere."""
    try:
        return locate()
    except EngineMissing as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
