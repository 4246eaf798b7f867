"""Fresh secrets that are the same in every run of a test: what it draws is never its luck."""

from __future__ import annotations

import hashlib
import itertools

import pytest


@pytest.fixture(autouse=True)
def same_secrets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws what is fresh from the test's name and a counter, a secret of its own each time."""
    drawn = itertools.count()

    def token(size: int | None = None) -> bytes:
        name = f"{request.node.name} {next(drawn)}".encode()
        return hashlib.shake_256(name).digest(size or 32)

    monkeypatch.setattr("weir.transforms.runtime.secret.secrets.token_bytes", token)
