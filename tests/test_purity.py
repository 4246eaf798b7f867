"""Keeps files, time, randomness and optional libraries where they belong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sources import FILES, Code, code_of, faults_of, name_of, within

IMPURE = {
    "apache_beam": "Beam",
    "asyncio": "an event loop",
    "datetime.datetime.now": "the time",
    "glob": "files",
    "os": "the environment",
    "pathlib": "files",
    "shutil": "files",
    "socket": "the network",
    "subprocess": "processes",
    "tempfile": "files",
    "threading": "threads",
    "time": "the time",
    "urllib": "the network",
}
"""What dpcore must not import, and what it would get by it."""

RANDOM_MODULES = {"random", "secrets", "uuid", "numpy.random", "randomgen"}
RANDOM_CALLS = {"urandom", "getrandom", "default_rng", "RandomState", "SeedSequence", "token_bytes"}
EXCEPT = {
    "transforms/runtime/secret.py": {"secrets", "secrets.token_bytes", "secrets.token_hex"},
    "transforms/runtime/stores/bucket.py": {"uuid"},
    "transforms/runtime/stores/disk.py": {"uuid"},
    "pipelines/watch/watch.py": {"secrets"},  # the token of the operator's page
    "transforms/beam/deduplicate.py": {"uuid"},
    "transforms/beam/bound_users.py": {"uuid"},
    "transforms/beam/turns.py": {"uuid"},
    "pipelines/engines/kafka.py": {"uuid"},  # the id of a cluster
    "transforms/beam/heartbeats.py": {"uuid"},
    "transforms/beam/tick.py": {"uuid"},
}
"""What may ask the system for random bytes: a fresh secret, and names of files and of runs."""


GIVES_PANDAS = {"pipelines/notebook/released.py"}
"""What hands out frames to who asks for one, and says what to install where that is missing."""


def purity_faults(code: Code) -> list[str]:
    found = [
        f"line {line}: imports {module} ({what})"
        for line, module in code.imports
        for impure, what in IMPURE.items()
        if within(module, impure)
    ]
    for line, call in code.calls:
        last = call.split(".")[-1]
        if call in {"open", "input", "exec", "eval"} or last in {"getenv", "now", "today"}:
            found.append(f"line {line}: calls {call}")
        if call == "print":
            found.append(f"line {line}: calls {call}")
        if call in {"np.load", "np.save", "np.fromfile", "np.loadtxt", "np.genfromtxt"}:
            found.append(f"line {line}: calls {call}")
    for line, owner, name in code.attributes:
        if owner == "sys" and name not in {"byteorder", "maxsize"}:
            found.append(f"line {line}: reads sys.{name}")
    return found


def randomness_faults(code: Code, allowed: set[str] | None = None) -> list[str]:
    allowed = allowed or set()
    found = [
        f"line {line}: imports {module}"
        for line, module in code.imports
        for source in RANDOM_MODULES - allowed
        if within(module, source)
    ]
    for line, call in code.calls:
        parts = call.split(".")
        drawn = parts[-1] in RANDOM_CALLS or "random" in parts[:-1] or "rvs" in parts
        if drawn and call not in allowed:
            found.append(f"line {line}: calls {call}")
    return found


def pandas_faults(code: Code) -> list[str]:
    """It is no dependency of ours, and Arrow imports it behind some of its names."""
    read = [f"line {line}: reads {name}" for line, _, name in code.attributes if "pandas" in name]
    return read + [
        f"line {line}: imports {module}"
        for line, module in code.imports
        if within(module, "pandas")
    ]


@pytest.mark.slow
def test_dpcore_knows_no_beam_no_files_no_time() -> None:
    files = [path for path in FILES if "dpcore" in path.parts]
    assert faults_of(files, lambda path: purity_faults(code_of(path))) == {}


def test_only_dpcore_noise_makes_randomness() -> None:
    def rule(path: Path) -> list[str]:
        return randomness_faults(code_of(path), EXCEPT.get(name_of(path)))

    assert faults_of([path for path in FILES if "noise" not in path.parts], rule) == {}


def test_nothing_leans_on_pandas() -> None:
    files = [path for path in FILES if name_of(path) not in GIVES_PANDAS]
    assert faults_of(files, lambda path: pandas_faults(code_of(path))) == {}


@pytest.mark.parametrize("code", ["import pandas as pd", "table.to_pandas()"])
def test_pandas_is_seen(code: str) -> None:
    assert pandas_faults(Code(code))


@pytest.mark.parametrize(
    "code",
    [
        "import os",
        "from time import time",
        "open('x')",
        "datetime.now()",
        "import os.path",
        "sys.argv",
        "print(1)",
    ],
)
def test_impurity_is_seen(code: str) -> None:
    assert purity_faults(Code(code))


@pytest.mark.parametrize(
    "code",
    [
        "import random",
        "from numpy.random import default_rng",
        "x = np.random.default_rng(0)",
        "np.random.normal()",
        "os.urandom(32)",
        "norm.rvs(3)",
    ],
)
def test_a_generator_is_seen(code: str) -> None:
    assert randomness_faults(Code(code))
