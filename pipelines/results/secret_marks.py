"""The marks of secrets: 16 bytes that tell one secret from another, next to state and results.

A mark may be read by everybody. It is an HKDF-SHA256 expansion of the root key of one plan, under a
label of its own: it says nothing of the noise's keys, and marks of one secret under two plans have
nothing in common. Anyone who could guess the secret could try a guess at a mark; but a guess can be
tried at the releases themselves, and the secret is 32 random bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.key_ring import first_difference
from weir.dpcore.noise.prf import RootKey
from weir.dpcore.plan import Plan
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.sinks import place
from weir.transforms.sinks.held import twice
from weir.transforms.sinks.place import MARKS_FILE

Marks = Mapping[str, str]
"""First tick, as text -> mark in hex of the secret that keys the noise from there on."""


def identities(secrets: Sequence[tuple[int, SecretRef]], plan: Plan) -> dict[str, str] | None:
    """First tick -> what tells one secret from another and nothing more (a one-way function).

    None where the first secret cannot be read on this machine; later ones may be missing.
    """
    results: dict[str, str] = {}
    for tick, secret in secrets:
        try:
            value = secret.resolve()
        except ConfigError:
            if tick == 0:
                return None
            continue
        root = RootKey.derive(value, plan.name, bytes.fromhex(plan.digest))
        results[str(tick)] = root.identity.hex()
    return results


def whole(secrets: Sequence[tuple[int, SecretRef]], plan: Plan) -> dict[str, str] | None:
    """As ``identities``; None where any of the secrets cannot be read on this machine."""
    result = identities(secrets, plan)
    return result if result is not None and len(result) == len(secrets) else None


def differ(before: Marks, now: Marks, ticks: int) -> bool:
    """Whether the noise of any of the first ticks was keyed by another secret than it would be now.

    Later ticks may get another one: that is a rotation.
    """
    item, other = ({int(tick): mark for tick, mark in marks.items()} for marks in (before, now))
    first = first_difference(item, other)
    return first is not None and first < ticks


def read(folder: str, field: str) -> dict[str, str] | None:
    """The marks next to results; None where there are none.

    Raises:
      ConfigError: the file is not ours.
    """
    data = place.read(place.join(folder, MARKS_FILE))
    if data is None:
        return None
    result = place.json_in(data)
    if result is None or "0" not in result or not all(map(str.isdecimal, result)):
        raise ConfigError(field, folder, f"holds a {MARKS_FILE} that is not ours.")
    return result


def refuse_other(folder: str, field: str, now: Marks | None, plan: Plan) -> None:
    """Refuses to go on from releases that were made with another secret.

    Args:
      folder: of results. field: of the sink.
      now: marks of the secrets of this run; None where they cannot be read here.

    Raises:
      ConfigError: names ``secret``.
    """
    before = read(folder, field)
    published, retained = (place.ticks_in(item) for item in (folder, place.held(folder)))
    if before is None or now is None or not differ(before, now, max(published, retained)):
        return
    entry = place.entered_as(folder)
    remedy = (
        "Give that secret, or another folder, and count both."
        if published
        else f"Give that secret, or another folder; the ledger counts both (entry {entry})."
        if entry is not None
        else "Give that secret; or, as nothing is published yet and if nobody has seen "
        f"{place.held(folder)}, remove that and start again at no cost."
    )
    raise ConfigError(
        "secret",
        "(not shown)",
        f"is not the one that the releases in {folder} were made with, and releases with the noise "
        f"of two secrets are two looks at the same events: {twice(plan)}. {remedy}",
    )


def keep(folder: str, field: str, now: Marks | None) -> None:
    """Stores the marks of a run next to its results; call after ``refuse_other``.

    Not next to releases that have none: nobody knows with which secret they were made.
    """
    if now is None or (place.has_results(folder) and read(folder, field) is None):
        return
    text = json.dumps(now, indent=2, sort_keys=True) + "\n"
    place.replace(place.join(folder, MARKS_FILE), text.encode())
