"""Secrets of connections, by reference: read where a connection is made, on the worker.

Plans, graphs, logs and state hold the reference alone. Errors name the setting and the place, never
what was read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from weir.dpcore.errors import ConfigError


@dataclass(frozen=True)
class PropertyReference:
    """Where a secret is: exactly one is set.

    Attributes:
      file: absolute path of a file; a line break at its end does not count.
      env: environment variable.
    """

    file: str | None = None
    env: str | None = None

    def read(self, field: str) -> str:
        """The secret.

        Args:
          field: setting that it is for, for messages.

        Raises:
          ConfigError: it is not there, or empty.
        """
        if self.env is not None:
            value, place = os.environ.get(self.env), f"the environment variable {self.env}"
        else:
            assert self.file is not None
            place = self.file
            try:
                value = Path(self.file).read_text().rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(
                    field,
                    self.file,
                    f"cannot be read ({type(error).__name__}). Put the secret there, readable for "
                    "the user of the workers.",
                ) from None
        if not value:
            raise ConfigError(
                field,
                place,
                "is empty or not there. Put the secret there, on every worker.",
            )
        return value


__all__ = ["PropertyReference"]
