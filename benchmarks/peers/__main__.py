"""How do seven jobs compare with PipelineDP, OpenDP and diffprivlib at the same total guarantee?

Lines that a user writes, error off the truth, processor time of a draw; all in one run, but for
the first job, and OpenDP's other jobs of users, which were run later on a busy machine:

    python -m benchmarks.peers --peers PEERS/bin/python

``--peers`` is a Python in which pipeline-dp 0.3.1, opendp 0.16 and diffprivlib 0.6.6 are installed.
``cells`` has the jobs. Data are the same for all, and each has a fresh secret in every draw.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from benchmarks.peers.cells import CELLS, DRAWS, SHOPS, Data, data_of, error_of

HERE = Path(__file__).parent
RESULTS = HERE.parent / "results" / "peers.csv"
START = pd.Timestamp("2025-01-01", tz="UTC")
CLOCK = "clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-04-01T00:00:00Z}\n"
NAMED = ", ".join(f"k{i}" for i in range(SHOPS))
USERS = "privacy: {{epsilon: 1, delta: 1e-6, unit: user{0}, contributions: {{{1}}}}}\n"
ROWS = "privacy: {epsilon: 1, delta: 1e-6}\n"
LAPLACE = "mechanism: {noise: laplace}\n"
"""Named where users of the other libraries name it."""
CONFIGS = {
    "daily": "name: daily\nschema: {time: at, unit: user}\n"
    f"key: {{column: key, declared: [{NAMED}]}}\n{CLOCK}"
    + USERS.format(
        ", per: all, protect_for: all", "ticks: 40, keys: 4, events: 1, total: 40, order: hash"
    )
    + "aggregates: {users: {count: users, over: 1}}\n",
    "unknown": "name: unknown\nschema: {unit: user}\nkey: {column: key, discover: {min_users: 1}}\n"
    + USERS.format("", "keys: 10, events: 1")
    + "aggregates: {users: {count: users}}\n",
    "sum_mean": "name: sums\nschema: {unit: user}\n"
    f"key: {{column: key, declared: [{NAMED}]}}\n"
    + USERS.format("", "keys: 4, events: 5")
    + "aggregates: {sum: {sum: amount, clip: [0, 100]}, mean: {mean: amount, clip: [0, 100]}}\n",
    "quantiles": "name: quantiles\nschema: {unit: user}\n"
    + USERS.format("", "keys: 1, events: 5")
    + "aggregates: {q: {quantile: amount, at: [0.5, 0.95], edges: {linear: [0, 100, 128]}}}\n",
    "total": f"name: total\n{ROWS}{LAPLACE}aggregates: {{rows: {{count: events}}}}\n",
    "histogram": f"name: histogram\n{ROWS}{LAPLACE}"
    "aggregates: {h: {histogram: amount, edges: [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]}}\n",
    "weekly": f"name: weekly\nschema: {{time: at, unit: user}}\n{CLOCK}"
    + USERS.format(", per: all, protect_for: all", "ticks: 90, keys: 1, events: 1")
    + "aggregates: {users: {count: users, over: 7}}\n",
}
"""What a user of Weir writes for each job; with two lines of Python around it."""


def frame_of(data: Data) -> pd.DataFrame:
    """Events as a frame."""
    at = START + pd.to_timedelta(data.day, unit="D")
    users = np.char.add("u", data.user.astype(str))
    keys = np.char.add("k", data.key.astype(str))
    return pd.DataFrame({"at": at, "user": users, "key": keys, "amount": data.amount})


def ours(job: str, frame: pd.DataFrame) -> Any:
    """A release as ``error_of`` takes it."""
    import weir

    table = weir.release(frame, yaml.safe_load(CONFIGS[job])).to_pandas()
    if job == "unknown":
        return [int(key[1:]) for key in table["key"].unique()]
    if job == "daily":
        return [
            [float(row) for row in rows]
            for rows in table.pivot(index="tick", columns="key", values="value").to_numpy()
        ]
    if job == "sum_mean":
        return table[table["name"] == "mean"].sort_values("key")["value"].to_numpy()
    if job == "weekly":
        return table.sort_values("tick")["value"].to_numpy()
    values = table["value"].to_numpy()
    return values[0] if job == "total" else values


def measured(job: str, draws: int) -> dict[str, Any]:
    """Weir's errors, seconds of processor time and lines."""
    data = data_of(job)
    frame, errors, seconds = frame_of(data), [], []
    for _ in range(draws):
        began = time.process_time()
        released = ours(job, frame)
        seconds.append(time.process_time() - began)
        errors.append(error_of(job, data, released))
    return {"errors": errors, "seconds": seconds, "lines": CONFIGS[job].count("\n") + 2}


def of_peer(python: str, job: str, peer: str, draws: int) -> dict[str, Any]:
    """The same of another library, in a process of its own.

    Raises:
      RuntimeError: it failed; says how.
    """
    command = [python, "-W", "ignore", str(HERE / "others.py"), job, peer, str(draws)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{peer} failed at {job}: {done.stderr.strip().splitlines()[-1]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def row_of(job: str, who: str, found: dict[str, Any]) -> dict[str, Any]:
    """A row of the results: the mean of the errors, and the median time."""
    errors = np.asarray(found["errors"])
    spread = errors.std(ddof=1) / len(errors) ** 0.5 if len(errors) > 1 else float("nan")
    return {
        "job": job, "who": who, "error": f"{errors.mean():.4g}", "standard_error": f"{spread:.2g}",
        "seconds": f"{np.median(found['seconds']):.3g}", "lines": found["lines"],
        "draws": len(errors),
    }  # fmt: skip


def main() -> None:
    """Runs all jobs, prints a table and stores it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--peers", help="a Python with the other libraries; without it: Weir alone"
    )
    options.add_argument("--draws", type=int, default=DRAWS)
    options.add_argument("--jobs", nargs="*", default=list(CELLS))
    options.add_argument("--results", type=Path, default=RESULTS)
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for job in chosen.jobs:
        peers = CELLS[job].peers if chosen.peers else ()
        own = measured(job, chosen.draws)
        rows.append(row_of(job, "weir", own))
        print(rows[-1], flush=True)
        for peer in peers:
            found = of_peer(chosen.peers, job, peer, chosen.draws)
            rows.append(row_of(job, peer, found))
            ratio = np.mean(own["errors"]) / max(np.mean(found["errors"]), 1e-12)
            print(rows[-1], f"ratio {ratio:.3f}", flush=True)
    with chosen.results.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
