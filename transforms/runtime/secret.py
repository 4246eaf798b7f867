"""The secret behind the noise, carried as a reference and read only where noise is drawn.

**Threat model.** Anyone who has the secret can subtract the noise from every release. So options,
graphs, logs and state hold a reference only; errors never quote what was read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from weir.dpcore.errors import SECRET_FORM, ConfigError

BYTES = 32
MOUNTS = "/var/run/secrets/weir"
"""Where Kubernetes secrets are mounted, as name/key."""

_log = logging.getLogger(__name__)
_fresh: dict[str, bytes] = {}


@dataclass(frozen=True)
class SecretRef:
    """Where the 32-byte secret is: exactly one of the fields is set.

    ``SecretRef(file="secret.key")``, ``SecretRef(env="WEIR_SECRET")``.

    Attributes:
      file: path of a file with 64 hex digits, 44 characters of base64, or 32 raw bytes.
      env: name of an environment variable with hex or base64.
      gcp: ``projects/P/secrets/S/versions/V`` in Google Secret Manager.
      kubernetes: a mounted secret: path of the file, or ``name/key`` or ``namespace/name/key`` for
        ``/var/run/secrets/weir/name/key`` (the variable WEIR_SECRETS names another folder).
      held: handle of a secret that this process drew itself (see ``fresh``).
      guarded: whether a file that others can read is refused, and not only warned of.
      mark: of the only secret that it stands for (see ``pinned``); None: of any.

    Raises:
      TypeError: a place that is no text. ConfigError: no place or several, or the secret itself.

        >>> from weir import Secret
        >>> Secret(file="secret.key").is_fresh, Secret.fresh().is_fresh
        (False, True)
        >>> Secret(env="5a" * 32)
        Traceback (most recent call last):
            ...
        weir.dpcore.errors.ConfigError: secret.env = '...': looks like the secret itself; ...
    """

    file: str | None = None
    env: str | None = None
    gcp: str | None = None
    kubernetes: str | None = None
    held: str | None = None
    guarded: bool = False
    mark: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        value = self._given
        if len(value) != 1:
            raise ConfigError("secret", "...", "needs exactly one of file, env, gcp, kubernetes.")
        ((name, place),) = value.items()
        if not isinstance(place, (str, os.PathLike)):
            raise TypeError(
                f"Secret: {name} must be a text that says where the secret is, not "
                f"{type(place).__name__}; write Secret(file='secret.key')."
            )
        if name != "held":
            refuse_secret(f"secret.{name}", str(place))

    @classmethod
    def fresh(cls) -> SecretRef:
        """Draws a secret that dies with this process: a restart spends budget again."""
        handle = f"{os.getpid()}-{secrets.token_hex(8)}"
        _fresh[handle] = drawn()
        return cls(held=handle)

    @property
    def _given(self) -> dict[str, str]:
        apart = ("guarded", "mark")
        fields = {name: value for name, value in vars(self).items() if name not in apart}
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def kind(self) -> str:
        """Which of the fields is set."""
        return next(iter(self._given))

    def refuse_readers(self) -> None:
        """Refuses a file that is here and that others can read.

        Raises:
          ConfigError: says how to fix that.
        """
        if self.file is None or not os.path.exists(self.file):
            return
        if _is_open(os.stat(self.file).st_mode):
            raise ConfigError(
                "secret.file",
                self.file,
                "can be read by others: anyone who reads it can take the noise off every release, "
                "and a cluster has other users. Run chmod 600 on it, as the user of the workers.",
            )

    @property
    def is_fresh(self) -> bool:
        """Whether a restart would draw another secret."""
        return self.held is not None

    def pinned(self, mark: str) -> SecretRef:
        """The same place, for one secret alone: what a ledger has counted is what is drawn with."""
        return replace(self, mark=mark)

    def resolve(self) -> bytes:
        """Reads the secret: 32 bytes.

        Raises:
          ConfigError: it cannot be read, is not 32 bytes, or is not the one that the reference is
            pinned to; the message never quotes its content.
        """
        value = self._read()
        if self.mark is not None and mark_of(value) != self.mark:
            raise ConfigError(
                f"secret.{self.kind}",
                str(self._given[self.kind]),
                "is not the secret that the ledger has entered for this run: it was replaced since "
                "the run began. Put it back, or run again, which enters the new one.",
            )
        return value

    def _read(self) -> bytes:
        if self.held is not None:
            if self.held not in _fresh:
                raise ConfigError(
                    "secret",
                    "drawn at start",
                    "a fresh secret lives only in the process that drew it: give secret.file, "
                    "secret.env, secret.gcp or secret.kubernetes on every runner but direct.",
                )
            return _fresh[self.held]
        if self.file is not None:
            if self.guarded:
                self.refuse_readers()
            return _parse("secret.file", self.file, _read_file(self.file))
        if self.kubernetes is not None:
            return _parse("secret.kubernetes", self.kubernetes, _read_mounted(self.kubernetes))
        if self.env is not None:
            text = os.environ.get(self.env)
            if text is None:
                raise ConfigError("secret.env", self.env, "is not set in this environment.")
            return _parse("secret.env", self.env, text.encode())
        assert self.gcp is not None
        return _parse("secret.gcp", self.gcp, _read_gcp(self.gcp))


def drawn() -> bytes:
    """32 random bytes."""
    return secrets.token_bytes(BYTES)


def mark_of(secret: bytes) -> str:
    """What tells one secret from another, and nothing more: HMAC(secret, "weir ledger"), 32 hex
    digits. Everybody may read it: a guess of 32 random bytes is out of reach."""
    return hmac.new(secret, b"weir ledger", hashlib.sha256).hexdigest()[:32]


def refuse_secret(field: str, place: str) -> None:
    """Refuses a secret that is given in place of its place, alone or as a name in some folder.

    To be asked before a text is made a path: that takes slashes out of base64. Of one that was
    a path before it came here, up to three may be gone.

    Raises:
      ConfigError: names ``field`` and quotes nothing.
    """
    if re.search(rf"(?:^|/)(?:{SECRET_FORM}|[0-9A-Za-z+/]{{40,42}}=)$", place.strip()):
        raise ConfigError(
            field,
            "...",
            "looks like the secret itself; say where it is kept: write it into a file that "
            "only you can read, or into an environment variable, and give that name.",
        )


def _parse(field: str, where: str, content: bytes) -> bytes:
    if len(content) == BYTES:
        return content
    text = content.strip()
    try:
        if len(text) == 2 * BYTES:
            return binascii.unhexlify(text)
        if len(text) == 44:
            decoded = base64.b64decode(text, validate=True)
            if len(decoded) == BYTES:
                return decoded
    except (binascii.Error, ValueError):
        pass
    raise ConfigError(
        field,
        where,
        "must hold 64 hex digits, 44 characters of base64 or 32 raw bytes "
        "(make one with: openssl rand -hex 32 > secret.key && chmod 600 secret.key).",
    ) from None


def _read_file(name: str) -> bytes:
    path = Path(name)
    try:
        content = path.read_bytes()
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigError("secret.file", name, f"cannot be read: {error.strerror}.") from None
    if _is_open(mode):
        _warn_of_readers(name)
    return content


def _is_open(mode: int) -> bool:
    """Whether others than the owner can read a file."""
    return os.name == "posix" and bool(mode & (stat.S_IRGRP | stat.S_IROTH))


@lru_cache
def _warn_of_readers(name: str) -> None:
    """Once a process: every step that draws noise reads the secret."""
    _log.warning("secret.file %s can be read by others: run chmod 600 on it.", name)


def _read_mounted(name: str) -> bytes:
    """Kubernetes keeps modes and owners of mounts itself, so none are asked about."""
    path = mounted_path(name)
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            "secret.kubernetes",
            name,
            f"is not mounted at {path} ({error.strerror}): mount the secret there in every worker.",
        ) from None


def mounted_path(name: str) -> Path:
    """Where a Kubernetes secret must be mounted.

    Raises:
      ConfigError: neither a path nor ``name/key`` nor ``namespace/name/key``.
    """
    if name.startswith("/"):
        return Path(name)
    parts = name.split("/")
    if len(parts) not in (2, 3) or any(part in ("", ".", "..") for part in parts):
        raise ConfigError(
            "secret.kubernetes", name, "must be name/key, namespace/name/key or an absolute path."
        )
    return Path(os.environ.get("WEIR_SECRETS", MOUNTS), *parts[-2:])


def _read_gcp(name: str) -> bytes:
    try:
        from google.cloud import secretmanager
    except ImportError:
        raise ConfigError(
            "secret.gcp", name, "needs google-cloud-secret-manager: pip install weir-dp[gcp]."
        ) from None
    full = name if "/versions/" in name else f"{name}/versions/latest"
    try:
        client = secretmanager.SecretManagerServiceClient()
        return bytes(client.access_secret_version(name=full).payload.data)
    except Exception as error:  # the client's errors are many; only their kind is told
        raise ConfigError("secret.gcp", name, f"cannot be read: {type(error).__name__}.") from None
