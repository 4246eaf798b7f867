"""A folder of releases compared with its receipts. Needs no secret, and reads no events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.dpcore.words import listing
from weir.pipelines.results.secret_marks import differ
from weir.transforms.runtime import fence
from weir.transforms.runtime.files import refusals
from weir.transforms.sinks import place, receipts
from weir.transforms.sinks.receipts import Damaged, Receipt

LATER = ("report.html", "report.png", "statement.html", "_estimates")
"""What commands make of the releases later: no receipt covers it."""
_WORKING = (fence.FOLDER, fence.DRAINED, fence.FAILED, place.HELD_FOLDER)


class FaultKind(IntEnum):
    """What is wrong with a folder: the exit code of ``weir verify``. The least stands first."""

    NO_RECEIPT = 10
    DAMAGED_RECEIPT = 11
    UNSIGNED = 12
    OTHER_KEY = 13
    FORGED = 14
    OTHER_PLAN = 15
    CHANGED = 16
    MISSING = 17
    EXTRA = 18
    ROWS_DIFFER = 19


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Attributes:
      kind: which. sentence: for people; names files, quotes no content.
    """

    kind: FaultKind
    sentence: str


@dataclass(frozen=True)
class Verification:
    """What was compared.

    Attributes:
      folder: where. release: its name. of: receipts.FOLDER or receipts.FILE; None: no receipt.
      files: how many files of releases the receipts name.
      signed_by: public key; None: not signed. checked: whether the key was given from outside.
      facts: what the newest receipt says of guarantee, ledger, plan and software.
      faults: in order of their codes. notes: what is not covered.
    """

    folder: str
    release: str
    of: str | None
    files: int
    signed_by: str | None
    checked: bool
    facts: Mapping[str, Any]
    faults: tuple[Fault, ...]
    notes: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0: nothing is wrong; else that of the first fault."""
        return int(self.faults[0].kind) if self.faults else 0

    def to_json(self) -> dict[str, Any]:
        """The fields of ``weir verify --json``."""
        return {
            "folder": self.folder,
            "release": self.release,
            "of": self.of,
            "files": self.files,
            "signed_by": self.signed_by,
            "key_checked": self.checked,
            "receipt": dict(self.facts),
            "faults": [
                {"code": int(item.kind), "fault": item.kind.name.lower(), "text": item.sentence}
                for item in self.faults
            ],
            "notes": list(self.notes),
        }


def check_folder(folder: str, public: str | None) -> Verification:
    """Compares a folder with its receipts.

    Args:
      folder: on a disk or in a bucket. public: key that must have signed them, 64 hex digits.

    Raises:
      ConfigError: it is no folder of releases.
    """
    with refusals("directory"):
        return _Check(folder, public).result()


class _Check:
    """One comparison. Faults are gathered: one does not hide another."""

    def __init__(self, folder: str, public: str | None) -> None:
        self._folder, self._public = folder, public
        self._names = {name for name in place.names(folder) if not name.startswith(".")}
        self._faults: list[Fault] = []
        self._notes: list[str] = []
        known = {place.PLAN_FILE, receipts.RECEIPT_FILE, receipts.RECEIPTS_FOLDER}
        if not (self._names & known or place.release_files(folder)):
            raise ConfigError(
                "directory",
                folder,
                "holds no releases. Give the folder that sink names in the config; topics, tables "
                "and the screen have no receipts.",
            )

    def result(self) -> Verification:
        """All that is wrong."""
        by_name, of = self._read()
        listed: dict[str, str] = {}
        for name, receipt in by_name.items():
            self._check_signature(name, receipt)
            listed |= receipt.files
        self._check_plan(by_name)
        if of is not None:
            self._check_files(by_name, listed, of)
        newest = list(by_name.values())[-1] if by_name else None
        keys = {
            None if receipt.signature is None else receipt.public_key
            for receipt in by_name.values()
        }
        order = sorted(self._faults, key=lambda fault: fault.kind)
        return Verification(
            self._folder,
            "" if newest is None else str(newest.body["release"]),
            of,
            sum(place.span_of(name) is not None for name in listed),
            keys.pop() if len(keys) == 1 else None,
            self._public is not None,
            {} if newest is None else newest.body,
            tuple(order),
            tuple(self._notes),
        )

    def _fault(self, kind: FaultKind, sentence: str) -> None:
        self._faults.append(Fault(kind, sentence))

    def _read(self) -> tuple[dict[str, Receipt], str | None]:
        """Receipts by the names of their files, and what they are of."""
        content = place.read(place.join(self._folder, receipts.RECEIPT_FILE))
        if content is not None:
            by_name = self._parsed({receipts.RECEIPT_FILE: content})
            return by_name, receipts.FOLDER if by_name else None
        inside = place.join(self._folder, receipts.RECEIPTS_FOLDER)
        names = [name for name in sorted(place.names(inside)) if not name.startswith(".")]
        if names and place.COMPLETE_FILE not in self._names:
            contents = {name: place.read(place.join(inside, name)) or b"" for name in names}
            return self._parsed(contents), receipts.FILE
        self._fault(FaultKind.NO_RECEIPT, self._absent())
        return {}, None

    def _absent(self) -> str:
        if place.ticks_in(place.held(self._folder)):
            return (
                f"{self._folder} holds its releases back, so it has no receipt: it gets one when "
                "they are published."
            )
        if place.COMPLETE_FILE in self._names:
            return (
                f"{self._folder} is complete and has no {receipts.RECEIPT_FILE}: it was removed, "
                "or an earlier version of Weir wrote the folder."
            )
        return (
            f"{self._folder} has no receipt: its run has not ended, or an earlier version of Weir "
            "wrote it."
        )

    def _parsed(self, contents: Mapping[str, bytes]) -> dict[str, Receipt]:
        by_name = {}
        for name, content in contents.items():
            try:
                receipt = receipts.parse(content)
                whole = name == receipts.RECEIPT_FILE
                if whole != (receipt.body["of"] == receipts.FOLDER):
                    raise Damaged("was put in the place of another one")
                if not whole and [f"{file}.json" for file in receipt.files] != [name]:
                    raise Damaged("is that of another file")
                by_name[name] = receipt
            except Damaged as error:
                self._fault(FaultKind.DAMAGED_RECEIPT, f"the receipt {name} {error}.")
        return by_name

    def _check_signature(self, name: str, receipt: Receipt) -> None:
        if receipt.signature is None or receipt.public_key is None:
            if self._public is not None:
                self._fault(
                    FaultKind.UNSIGNED,
                    f"the receipt {name} is not signed: anybody could have written it.",
                )
        elif not receipt.is_authentic:
            self._fault(
                FaultKind.FORGED,
                f"the receipt {name} was changed after it was signed: its signature does not fit.",
            )
        elif self._public not in (None, receipt.public_key):
            self._fault(
                FaultKind.OTHER_KEY,
                f"the receipt {name} was signed with another key: {receipt.public_key}.",
            )

    def _check_plan(self, by_name: Mapping[str, Receipt]) -> None:
        content = place.read(place.join(self._folder, place.PLAN_FILE))
        if content is None:
            self._fault(FaultKind.MISSING, f"{place.PLAN_FILE} is missing.")
            return
        try:
            facts: Mapping[str, str] = receipts.plan_facts(json.loads(content))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            facts = {}
        for name, receipt in by_name.items():
            stated = receipt.body["plan"]
            if not facts:
                self._fault(FaultKind.CHANGED, f"{place.PLAN_FILE} is no plan any more.")
                return
            if any(facts[field] != stated.get(field) for field in ("digest", "layout")):
                self._fault(
                    FaultKind.OTHER_PLAN,
                    f"{place.PLAN_FILE} is of plan {facts['digest'][:12]}, and the receipt {name} "
                    f"of plan {str(stated.get('digest'))[:12]}.",
                )
                return
            if facts["sha256"] != stated.get("sha256"):
                self._fault(
                    FaultKind.CHANGED, f"{place.PLAN_FILE} is not as the receipt {name} has it."
                )
                return

    def _check_files(
        self, by_name: Mapping[str, Receipt], listed: Mapping[str, str], of: str
    ) -> None:
        damaged = any(item.kind == FaultKind.DAMAGED_RECEIPT for item in self._faults)
        for name, digest in sorted(listed.items()):
            if not place.exists(place.join(self._folder, name)):
                if name != place.PLAN_FILE:  # has been said
                    self._fault(FaultKind.MISSING, f"{name} is missing.")
            elif receipts.digest_of(place.join(self._folder, name)) != digest:
                plan = any(place.PLAN_FILE in item.sentence for item in self._faults)
                if not (name == place.PLAN_FILE and plan):
                    self._fault(FaultKind.CHANGED, f"{name} was changed since its receipt.")
        later = sorted(self._names & set(LATER))
        if later:
            self._notes.append(f"No receipt covers {listing(later)}: made later, of the releases.")
        ours = {*LATER, *_WORKING, receipts.RECEIPT_FILE, receipts.RECEIPTS_FOLDER}
        if of == receipts.FILE:
            ours |= {place.PLAN_FILE, place.MARKS_FILE, place.COMPLETE_FILE}
            self._check_ranges(listed)
            self._check_marks(by_name)
        for name in sorted(self._names - set(listed) - ours):
            if not damaged:
                self._fault(FaultKind.EXTRA, _extra(name, of))

    def _check_ranges(self, listed: Mapping[str, str]) -> None:
        """Files of a stream: nothing is missing before the last one."""
        self._notes.append(
            "The stream goes on: nothing shows whether its newest files were removed together "
            "with their receipts."
        )
        for first, last in gaps(listed):
            self._fault(
                FaultKind.MISSING, f"files of ticks {first:,} to {last:,} are missing, and later "
                "ones are there."
            )  # fmt: skip

    def _check_marks(self, by_name: Mapping[str, Receipt]) -> None:
        """Marks of the secrets of a stream: later ticks may get another one, earlier ones not."""
        try:
            now = json.loads(place.read(place.join(self._folder, place.MARKS_FILE)) or b"null")
            changed = any(_marks_changed(receipt, now) for receipt in by_name.values())
        except (ValueError, AttributeError, TypeError, RecursionError):
            changed = True
        if changed:
            self._fault(
                FaultKind.CHANGED,
                f"{place.MARKS_FILE} has other secrets than receipts have for the same ticks.",
            )


def _extra(name: str, of: str) -> str:
    if of == receipts.FILE and place.span_of(name):
        return (
            f"{name} has no receipt: the job was stopped between the two (resuming it writes the "
            "receipt), or somebody else put it there."
        )
    return f"{name} is in no receipt: it was put there later."


def gaps(names: Sequence[str] | Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """(first, last tick) of files that are missing between others, part by part."""
    behind: dict[int, int] = {}
    for first, last, part in sorted(span for name in names if (span := place.span_of(name))):
        expected = behind.get(part, 0)
        if first > expected:
            yield expected, first - 1
        behind[part] = max(expected, last + 1)


def _marks_changed(receipt: Receipt, now: Mapping[str, str] | None) -> bool:
    """Whether the marks of the secrets are other ones than a receipt has, for its ticks."""
    stated = receipt.body["secret_marks"]
    ends = [span.last + 1 for name in receipt.files if (span := place.span_of(name))]
    if stated is None or now is None:
        return (stated is None) != (now is None)
    return differ(stated, now, max(ends, default=1))


__all__ = ["Fault", "FaultKind", "Verification", "check_folder"]
