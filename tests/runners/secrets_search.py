"""Looks for a secret, in any form, wherever a run leaves something behind."""

from __future__ import annotations

import base64
import json
import mmap
from collections.abc import Iterable, Sequence
from pathlib import Path

from weir.pipelines.engines.flink import FlinkRest
from weir.pipelines.engines.processes import EngineFailed


def forms_of(secret: bytes) -> list[bytes]:
    """Raw, hex, and base64 of both alphabets, however the secret lies in a longer text."""
    found = [secret, secret.hex().encode(), secret.hex().upper().encode()]
    for shift in range(3):
        # The first and last letters depend on the neighbours; what is between them does not.
        text = base64.b64encode(b"\0" * shift + secret)
        inner = text[4 if shift else 0 : -4]
        found += [inner, inner.translate(bytes.maketrans(b"+/", b"-_"))]
    return list(dict.fromkeys(found))


def search(folders: Iterable[Path], wanted: Sequence[bytes]) -> list[Path]:
    """Files that hold any of the wanted bytes."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if not path.is_file() or path.is_symlink() or not path.stat().st_size:
                continue
            with (
                path.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            ):
                if any(content.find(form) >= 0 for form in wanted):
                    found.append(path)
    return found


def told_by(rest: FlinkRest, job: str) -> dict[str, bytes]:
    """Everything that Flink's REST, and so its page, tells of a job and of the cluster."""
    paths = [
        "/config",
        "/overview",
        "/jobs/overview",
        "/jobmanager/config",
        "/jobmanager/environment",
        "/jobmanager/logs",
        "/taskmanagers",
        *(
            f"/jobs/{job}{page}"
            for page in (
                "",
                "/accumulators?includeSerializedValue=true",
                "/checkpoints",
                "/checkpoints/config",
                "/config",
                "/exceptions",
                "/jobmanager/config",
                "/plan",
                "/metrics",
            )
        ),
    ]
    found: dict[str, bytes] = {}
    for path in paths:
        try:
            found[path] = json.dumps(rest.get(path)).encode()
        except EngineFailed:
            continue
    details = json.loads(found.get(f"/jobs/{job}", b"{}"))
    for vertex in details.get("vertices", []):
        for page in ("", "/accumulators", "/subtasks/accumulators", "/metrics"):
            path = f"/jobs/{job}/vertices/{vertex['id']}{page}"
            found[path] = json.dumps(rest.get(path)).encode()
    return found
