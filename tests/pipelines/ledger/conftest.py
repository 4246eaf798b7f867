"""Ledgers of every kind, and a small job that asks one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.conftest import SMALL, weir  # noqa: F401 - a fixture
from tests.pipelines.ledger.postgres import PostgresServer
from weir.dpcore.plan import Plan
from weir.pipelines.ledger.entries import OutputPlace, RunIdentity
from weir.pipelines.ledger.reservations import ChargeRequest

ROWS = ["at,id,store,amount"] + [
    f"2024-01-01T{hour:02d}:{i:02d}:00Z,e{hour}-{i},{('north', 'south')[i % 2]},{i * 2}"
    for hour in range(24)
    for i in range(10)
]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running server. It comes with the packages that tests need, so it is never missing."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    """Address of a schema without tables."""
    import psycopg

    with psycopg.connect(postgres.address, autocommit=True) as base:
        base.execute("DROP SCHEMA IF EXISTS tried CASCADE")
        base.execute("CREATE SCHEMA tried")
    return f"{postgres.address}&options=-csearch_path%3Dtried"


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Kind and place of a ledger that is not there yet."""
    if request.param == "sqlite":
        return "sqlite", str(tmp_path / "ledger.db")
    return "postgresql", request.getfixturevalue("database")


def section(where: tuple[str, str], epsilon: float = 1.3, more: str = "") -> str:
    """The section of a config."""
    kind, place = where
    budget = f"{{epsilon: {epsilon}, delta: 1e-6}}"
    return f"ledger: {{{kind}: '{place}', scope: customers, budget: {budget}{more}}}\n"


def asking(plan: Plan, mark: str, place: str = "out") -> ChargeRequest:
    """What a run of a plan asks under a secret of this mark, over events that nobody knows."""
    return ChargeRequest(plan, RunIdentity({0: mark}, OutputPlace(place, False)))


def job_of(folder: Path, ledger: str) -> Path:
    """A config with events and a secret, in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "events.csv").write_text("\n".join(ROWS) + "\n")
    for name, digits in (("secret.key", "ab"), ("other.key", "cd")):
        (folder / name).write_text(digits * 32)
        (folder / name).chmod(0o600)
    path = folder / "shop.yaml"
    path.write_text(SMALL + "secret: {file: secret.key}\n" + ledger)
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """With a ledger in SQLite, and a budget for one of its plans."""
    return job_of(tmp_path / "job", section(("sqlite", str(tmp_path / "ledger.db"))))
