"""Memory that is freed is kept for what is asked for next."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from weir.transforms.local.memory import _OWN, keep_freed

GNU = platform.libc_ver()[0] == "glibc"
PROGRAM = """
import resource, sys
import numpy as np
from weir.transforms.local.memory import _OWN, keep_freed
if sys.argv[1] == "keep":
    assert keep_freed()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for turn in range(10):
    if turn == 2:
        before = faults()
    held = [np.ones(3 << 20) for _ in range(4)]
    del held
print(faults() - before)
"""


def _faults(word: str) -> int:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, word], env=ours, check=True, capture_output=True, text=True
    )
    return int(done.stdout)


@pytest.mark.slow
def test_pages_are_cleared_once() -> None:
    if not GNU and not os.environ.get("CI"):
        pytest.skip("the C library of this machine is not that of GNU and has no such settings")
    assert GNU, "continuous integration needs the C library of GNU: nothing else is tested here"
    assert 10 * _faults("keep") < _faults("")


def test_other_c_libraries_and_the_users_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    assert keep_freed() is False
    monkeypatch.delenv("MALLOC_ARENA_MAX")
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    assert keep_freed() is False
