"""The secret that steps and pipelines draw their noise from."""

from __future__ import annotations

import pytest

from tests.transforms.running import SECRET
from weir.transforms.runtime.secret import SecretRef


@pytest.fixture(scope="session")
def secret(tmp_path_factory: pytest.TempPathFactory) -> SecretRef:
    """A file of ``SECRET``, as ``simulate`` is given it."""
    path = tmp_path_factory.mktemp("secret") / "secret.key"
    path.write_text(SECRET.hex())
    path.chmod(0o600)
    return SecretRef(file=str(path))
