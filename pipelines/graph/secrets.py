"""References to the secrets of a job. None of them is read here."""

from __future__ import annotations

from dpcore.plan import Plan
from pipelines.config.sections import Secret
from transforms.runtime.secret import SecretRef


def secret_of(section: Secret | None) -> SecretRef | None:
    """The reference to the first secret; None where the config names none."""
    return None if section is None else SecretRef(**{section.kind: section.value})


def rotation_of(section: Secret | None, plan: Plan) -> tuple[tuple[int, SecretRef], ...]:
    """References to the secrets that follow the first, each with its first tick.

    Raises:
      ConfigError: names ``secret.rotate``.
    """
    if section is None:
        return ()
    entries = zip(section.ticks(plan.clock), section.rotate, strict=True)
    return tuple((tick, SecretRef(**{entry.kind: entry.value})) for tick, entry in entries)


def secrets_of(
    section: Secret | None, plan: Plan, first: SecretRef | None = None
) -> tuple[tuple[int, SecretRef], ...]:
    """All of them, the first at tick 0; none where a fresh one is to be drawn.

    Args:
      first: what the run takes in place of the config's first.

    Raises:
      ConfigError: names ``secret.rotate``.
    """
    first = first or secret_of(section)
    return () if first is None else ((0, first), *rotation_of(section, plan))


__all__ = ["rotation_of", "secret_of", "secrets_of"]
