"""Where 32 secret bytes are kept: the section that names the place, and never the bytes."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, model_validator

from weir.dpcore.config.section import Section, refusal
from weir.pipelines.connectors.connector import PROJECT, PROJECT_RULE, check_disk

_VERSION = re.compile(
    rf"projects/({PROJECT.pattern}|\d+)(/locations/[a-z0-9-]+)?/secrets/[\w-]{{1,255}}/"
    r"versions/[\w-]+",
    re.ASCII,
)


class OneOf(Section):
    """A section of which exactly one field says what it is."""

    @classmethod
    def choices(cls) -> tuple[str, ...]:
        """The fields of which exactly one must be there."""
        return tuple(cls.model_fields)

    @property
    def kind(self) -> str:
        """The one that is there."""
        return next(name for name in self.choices() if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        results = [name for name in self.choices() if getattr(self, name) is not None]
        if len(results) != 1:
            raise refusal(
                "",
                " and ".join(results) or None,
                f"must hold exactly one of {', '.join(self.choices())}.",
            )
        return self


class SecretPlace(OneOf):
    """Where a secret of 32 bytes is kept. A reference, never the value."""

    file: str | None = Field(
        default=None,
        description="File of 32 bytes, or of 64 hexadecimal digits.",
        examples=["secret.key"],
    )
    env: str | None = Field(
        default=None,
        description="Environment variable that holds 64 hexadecimal digits.",
        examples=["WEIR_SECRET"],
    )
    gcp: str | None = Field(
        default=None,
        description="Version of a Google Secret Manager secret.",
        examples=["projects/acme-data/secrets/weir/versions/1"],
    )
    kubernetes: str | None = Field(
        default=None,
        description="A Kubernetes secret that is mounted in every worker: name/key (or "
        "namespace/name/key) under /var/run/secrets/weir, or the path of the mounted file.",
        examples=["weir-noise/key"],
    )

    @classmethod
    def choices(cls) -> tuple[str, ...]:
        return ("file", "env", "gcp", "kubernetes")

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        check_disk("file", self.file, "Keep a secret of a cluster in Secret Manager: gcp.")
        if self.gcp is not None and not _VERSION.fullmatch(self.gcp):
            raise refusal(
                "gcp",
                self.gcp,
                "is no version of a secret in Secret Manager. Write "
                f"projects/P/secrets/S/versions/V, where P has {PROJECT_RULE}.",
            )
        return self

    @property
    def value(self) -> str:
        """The reference of the kind that is there."""
        return str(getattr(self, self.kind))
