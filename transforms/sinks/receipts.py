"""Receipts of a folder of releases: what was published, under which plan, signed where a key is.

A run over files writes one receipt, ``_receipt.json``, before its folder is marked as complete. A
stream writes one for each file, ``_receipts/FILE.json``, right after the file: both are made once
and never replaced, so that a kill leaves at most a file without its receipt, which the resumed job
writes. Several workers need no order among them. When the clock is over, ``_receipt.json`` takes
their place. A receipt has no time and no random bit: made again, it has the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from weir.transforms.runtime.files import open_raw
from weir.transforms.runtime.signing import Signer, is_signed
from weir.transforms.sinks import place

RECEIPT_FILE = "_receipt.json"
RECEIPTS_FOLDER = "_receipts"
"""Folder of the receipts of single files, while a stream runs."""
FORMAT = 1
FOLDER, FILE = "folder", "file"
"""What a receipt is of."""
_PREFIX = b"weir receipt\n"
_CHUNK = 1 << 20


class Damaged(ValueError):
    """A receipt that cannot be read as one; its text completes "the receipt ..."."""


@dataclass(frozen=True)
class Receipt:
    """A receipt as it was read.

    Attributes:
      body: what it says. signature: 128 hex digits; None: it is not signed.
    """

    body: Mapping[str, Any]
    signature: str | None

    @property
    def files(self) -> Mapping[str, str]:
        """Name -> SHA-256 in hex."""
        return dict(self.body["files"])

    @property
    def public_key(self) -> str | None:
        """Of the key that it says it was signed with."""
        return self.body["public_key"]  # type: ignore[no-any-return]

    @property
    def is_authentic(self) -> bool:
        """Whether it was signed with the key that it names, and not changed since."""
        if self.signature is None or self.public_key is None:
            return False
        return is_signed(_PREFIX + canonical(self.body), self.signature, self.public_key)


def canonical(value: Any) -> bytes:
    """JSON in one spelling: sorted names, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def plan_facts(plan: Mapping[str, Any]) -> dict[str, str]:
    """What a receipt says of a plan file. ``sha256`` is of its canonical JSON without the ledger's
    entry, which a resumed stream notes again."""
    lasting = {name: value for name, value in plan.items() if name != "ledger"}
    return {
        "digest": str(plan["digest"]),
        "layout": str(plan["layout"]),
        "sha256": hashlib.sha256(canonical(lasting)).hexdigest(),
    }


def sign(folder: str, of: str, files: Mapping[str, str], signer: Signer | None) -> bytes:
    """A receipt as the bytes of its file.

    Args:
      folder: of the releases, with its plan. of: FOLDER or FILE. files: name -> SHA-256.
      signer: None: it is not signed.

    Raises:
      ConfigError: the key cannot be read.
    """
    plan = _plan(folder)
    body = {
        "weir_receipt": FORMAT,
        "of": of,
        "release": plan["name"],
        "files": dict(files),
        "plan": plan_facts(plan),
        "guarantee": plan["guarantee"],
        "ledger": plan.get("ledger"),
        "secret_marks": json.loads(place.read(place.join(folder, place.MARKS_FILE)) or b"null"),
        "software": software(),
        "public_key": None if signer is None else signer.public(),
    }
    signature = None if signer is None else signer.sign(_PREFIX + canonical(body))
    return canonical({"receipt": body, "signature": signature}) + b"\n"


def _plan(folder: str) -> dict[str, Any]:
    """What the plan file of a folder holds; {} where there is none."""
    stored = json.loads(place.read(place.join(folder, place.PLAN_FILE)) or b"{}")
    return stored if isinstance(stored, dict) else {}


def parse(content: bytes) -> Receipt:
    """A receipt from the bytes of its file.

    Raises:
      Damaged: they are not those of a receipt.
    """
    try:
        stored = json.loads(content)
    except (ValueError, RecursionError):
        raise Damaged("is not whole JSON: it was cut or overwritten") from None
    body = stored.get("receipt") if isinstance(stored, dict) else None
    if not isinstance(body, dict) or "signature" not in stored:
        raise Damaged("is JSON, but no receipt")
    if body.get("weir_receipt") != FORMAT:
        raise Damaged(
            f"has format {body.get('weir_receipt')!r}, and this version of Weir reads {FORMAT}"
        )
    if canonical(stored) + b"\n" != content:
        raise Damaged("is not in the canonical spelling: it was edited")
    texts = [body.get("release"), body.get("of")]
    maps = [body.get("files"), body.get("plan"), body.get("guarantee"), body.get("software")]
    words = [*(body.get("files") or {}).items()] if isinstance(body.get("files"), dict) else []
    keys = [stored["signature"], body.get("public_key", 0)]
    if not (
        all(isinstance(text, str) for text in (*texts, *(word for pair in words for word in pair)))
        and all(isinstance(part, dict) for part in maps)
        and all(key is None or isinstance(key, str) for key in keys)
        and all(name in body for name in ("ledger", "secret_marks"))
    ):
        raise Damaged("lacks fields of a receipt")
    if any(key and key != key.lower() for key in keys):  # hexadecimal reads either case
        raise Damaged("is not in the canonical spelling: it was edited")
    return Receipt(body, stored["signature"])


def write_file(folder: str, name: str, digest: str, signer: Signer | None) -> None:
    """The receipt of one file of a stream, unless it is there; none in a folder without a plan."""
    path = place.join(place.join(folder, RECEIPTS_FOLDER), f"{name}.json")
    if not place.exists(path) and _plan(folder):
        place.put(path, sign(folder, FILE, {name: digest}, signer))


def written(folder: str) -> dict[str, Receipt]:
    """The receipts of single files, by the name of the file.

    Raises:
      Damaged: one of them is.
    """
    inside, results = place.join(folder, RECEIPTS_FOLDER), {}
    for name in sorted(place.names(inside)):
        content = place.read(place.join(inside, name))
        if not name.startswith(".") and content is not None:
            results[name.removesuffix(".json")] = parse(content)
    return results


def write_folder(folder: str, names: Sequence[str], signer: Signer | None) -> None:
    """The receipt of a whole folder, in place of those of its files; right before the folder is
    marked as complete.

    A file with a receipt keeps what that says: what was changed since then stays visible.

    Args:
      names: of all files of releases.
    """
    try:
        before = written(folder)
    except Damaged:
        before = {}
    digests = {
        name: before[name].files[name]
        if name in before and name in before[name].files
        else digest_of(place.join(folder, name))
        for name in names
    }
    for name in (place.PLAN_FILE, place.MARKS_FILE):
        if place.exists(place.join(folder, name)):
            digests[name] = digest_of(place.join(folder, name))
    digests[place.COMPLETE_FILE] = hashlib.sha256(b"").hexdigest()
    place.replace(place.join(folder, RECEIPT_FILE), sign(folder, FOLDER, digests, signer))
    place.remove(place.join(folder, RECEIPTS_FOLDER))


def digest_of(path: str) -> str:
    """SHA-256 of a file in hex, read in pieces. Raises OSError without one."""
    total = hashlib.sha256()
    with open_raw(path) as file:
        while piece := file.read(_CHUNK):
            total.update(piece)
    return total.hexdigest()


def software() -> dict[str, str]:
    """What computed the releases: their bits rest on it."""
    try:
        version = metadata.version("weir-dp")
    except metadata.PackageNotFoundError:
        version = "unknown"
    return {
        "weir": version,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }


__all__ = [
    "FILE",
    "FOLDER",
    "RECEIPTS_FOLDER",
    "RECEIPT_FILE",
    "Damaged",
    "Receipt",
    "canonical",
    "digest_of",
    "parse",
    "plan_facts",
    "sign",
    "write_file",
    "write_folder",
    "written",
]
