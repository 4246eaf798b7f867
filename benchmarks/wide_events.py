"""What does a run of wide events cost: 100,000 features, from files to released models?

    python -m benchmarks.wide_events [--events 10000] [--size 100000] [--filled 1000]

Events with lists of ``filled`` numbers that are not 0, as a sparse pair of Parquet columns or as
JSON objects, through `weir run` of optimize.frank_wolfe with one window of all events. Seconds are
of the clock, memory is the largest resident size of the process and of its workers. Beside it, as
a bound: the same rows in memory through ``dpcore.models.optimize.fit``, with as many steps, in a
process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

START = 1_704_067_200_000_000
CONFIG = """\
name: wide
source: {source}
schema: {{time: {{column: t, format: epoch_us}}, id: id}}
clock: {{start: 2024-01-01T00:00:00Z, period: 1h, end: 2024-01-01T04:00:00Z}}
privacy: {{epsilon: 4, delta: 1e-6, protect_for: all, relation: replace_one}}
model:
  algorithm: optimize.frank_wolfe
  features: {features}
  target: y
  intercept: false
  ranges: {{{name}: [-1, 1], y: [-1, 1]}}
  set: {{l1_ball: 1}}
  block: {events}
secret: {{file: secret.key}}
sink: {{parquet: {out}}}
"""


def drawn(n: int, p: int, filled: int) -> tuple[Any, Any, Any]:
    """Places and signs (n, filled), and targets of ten of them."""
    rng = np.random.default_rng(0)
    step = p // filled
    at = np.arange(filled) * step + rng.integers(0, step, (n, filled))
    at[:, :10] = np.arange(10) * step
    value = rng.choice([-1.0, 1.0], (n, filled))
    y = value[:, :10] @ rng.choice([-0.1, 0.1], 10) + 0.05 * rng.standard_normal(n)
    return at, value, np.clip(y, -1, 1)


def write(folder: Path, n: int, p: int, filled: int) -> dict[str, Path]:
    """Both files and their configs."""
    at, value, y = drawn(n, p, filled)
    times, ids = START + np.arange(n) * (3 * 3_600_000_000 // n), [f"e{i}" for i in range(n)]
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * filled)
    places = pa.ListArray.from_arrays(offsets, pa.array(at.ravel().astype(np.int32)))
    numbers = pa.ListArray.from_arrays(offsets, pa.array(value.ravel()))
    table = pa.table({"t": times, "id": ids, "i": places, "v": numbers, "y": y})
    pq.write_table(table, folder / "events.parquet", row_group_size=1000)
    with (folder / "events.ndjson").open("wb") as file:
        for i in range(n):
            x = dict(zip(map(str, at[i].tolist()), value[i].tolist(), strict=True))
            record = {"t": int(times[i]), "id": ids[i], "y": float(y[i]), "x": x}
            file.write(orjson.dumps(record) + b"\n")
    (folder / "secret.key").write_bytes(bytes(range(32)))
    (folder / "secret.key").chmod(0o600)
    found = {}
    forms = {
        "parquet": ("v", f"{{indices: i, values: v, size: {p}, most: {filled}}}"),
        "ndjson": ("x", f"{{column: x, size: {p}, most: {filled}}}"),
    }
    for form, (name, features) in forms.items():
        found[form] = folder / f"{form}.yaml"
        source = f"{{{form}: events.{form}}}"
        text = CONFIG.format(source=source, features=features, name=name, events=n, out=form)
        found[form].write_text(text)
    return found


def bare(n: int, p: int, filled: int) -> None:
    """The fit alone, of rows in memory."""
    from scipy import sparse

    from weir.dpcore.models.optimize.fit import BatchPlan, fit

    at, value, y = drawn(n, p, filled)
    rows = np.repeat(np.arange(n), filled)
    x = sparse.csr_array((value.ravel(), (rows, at.ravel())), (n, p))
    plan = BatchPlan.of(
        n=n,
        features=p,
        set={"l1_ball": 1.0},
        feature_range=(-1, 1),
        target_range=(-1, 1),
        epsilon=4.0,
        delta=1e-6,
    )
    start = time.perf_counter()
    model = fit(x, y, plan, bytes(range(32)))
    took = time.perf_counter() - start
    told = set(model.sparse[0].tolist()) & set((np.arange(10) * (p // filled)).tolist())
    print(f"fit alone: {took:.1f} s, {plan.way.steps} steps, {len(told)} of 10 found")


def measured(words: list[str]) -> tuple[float, float, str]:
    """Seconds of a command, MiB of its largest process, and what it printed last."""
    code = (
        "import resource,subprocess,sys;"
        "done=subprocess.run(sys.argv[1:],capture_output=True,text=True);"
        "print((done.stdout+done.stderr)[-300:] if done.returncode else done.stdout[-300:]);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss/1024);"
        "sys.exit(done.returncode)"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    took = time.perf_counter() - start
    lines = done.stdout.strip().splitlines()
    if done.returncode:
        sys.exit(done.stdout)
    return took, float(lines[-1]), "\n".join(lines[:-1])


def main() -> None:
    """Prints a line a form."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--events", type=int, default=10_000)
    asked.add_argument("--size", type=int, default=100_000)
    asked.add_argument("--filled", type=int, default=1_000)
    asked.add_argument("--bare", action="store_true")
    given = asked.parse_args()
    n, p, filled = given.events, given.size, given.filled
    if given.bare:
        bare(n, p, filled)
        return
    print(f"{n:,} events of {p:,} features, {filled:,} of them not 0", flush=True)
    own = [sys.executable, "-m", "benchmarks.wide_events", "--bare"]
    numbers = ["--events", str(n), "--size", str(p), "--filled", str(filled)]
    took, most, said = measured([*own, *numbers])
    print(f"{said.strip()}; {took:.1f} s and {most:,.0f} MiB with making the rows", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for form, config in write(folder, n, p, filled).items():
            took, most, _ = measured([sys.executable, "-m", "weir", "run", str(config)])
            size = (folder / f"events.{form}").stat().st_size / 2**20
            table = pq.read_table(next((folder / form).glob("*.parquet")))
            theta = table.filter(pa.compute.equal(table["name"], "theta"))
            last = theta.filter(pa.compute.equal(theta["tick"], theta["tick"][-1]))
            places = {
                at
                for at, value in zip(
                    last["index"].to_pylist(), last["value"].to_pylist(), strict=True
                )
                if value
            }
            right = len(places & set((np.arange(10) * (p // filled)).tolist()))
            print(
                f"weir run, {form}: {size:,.0f} MiB of events in {took:.1f} s, {most:,.0f} MiB at "
                f"most; {len(places):,} coefficients released, {right} of 10 found",
                flush=True,
            )


if __name__ == "__main__":
    main()
