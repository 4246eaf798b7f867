"""Distinct users of the last N ticks: how exact are they, and what do many users cost?

    python -m benchmarks.studies.active_users [--users 10000000]     # half a minute, 200 MB

First: the standard deviation of the worst tick per 1 / mu, for one key and a user who comes in m of
the S ticks of a period, against fresh noise on each tick's number. Nothing is drawn. Then: of so
many users a tenth come at each of 40 days, N = 28 in periods of 30: bytes in memory and stored of
a user, and seconds of this process to close a day: one that stores who came, one that also forgets
who is no longer active, and one that reads all again first, as after a start. Of 64 shards one is
filled, since all are alike; times are of all of them, one after the other. Without a runner, whose
own cost for each shard comes on top. Writes benchmarks/studies/results/active_users.csv and
active_users_cost.csv.

Run on 2026-11-26 on a machine that others used at the same time: times are upper bounds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.utils.timestamp import Timestamp

from benchmarks.harness import write_rows
from benchmarks.studies.cap_speed import CLOCK, LAYOUT, PLAN, Program, Row, batch_of, spread
from benchmarks.studies.cells import UserShard
from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.continual.active_users import ActiveUsers, key_units
from weir.dpcore.continual.rational import Rational
from weir.dpcore.noise.prf import KeyedNoise, RootKey
from weir.dpcore.users.unit import ContributionBounds, Periods, UserUnit
from weir.transforms.beam import heartbeat
from weir.transforms.beam.bound_users import CloseTicks, ToUsers
from weir.transforms.operators.user_cells import SpentCells, UserCaches
from weir.transforms.runtime.secret import SecretRef

RESULTS = Path(__file__).parent / "results"
CASES = ((30, 7, 4), (30, 7, 8), (30, 7, 30), (30, 28, 4), (30, 28, 30), (90, 7, 12),
         (90, 7, 90), (90, 28, 4), (90, 28, 90), (7, 7, 7), (7, 28, 7))  # fmt: skip
"""(S, N, m): ticks of a period and of a span, and ticks of them in which a user comes."""
FRESH = Rational((), ())
SPAN, PERIOD, DAYS, SHARDS = 28, 30, 40, 64


def errors() -> Iterator[dict[str, Any]]:
    """Worst standard deviations per 1 / mu."""
    for s, over, m in CASES:
        mechanism = ActiveUsers.calibrated(
            dimension=1,
            scales=(float(1 << 20),),
            sensitivity=1.0,
            overs=(over,),
            window=None,
            horizon=None,
            budget=PrivacyLoss("gdp", 1.0),
            pattern=Pattern(s, s, m, 1, 1, m, None, m),
            known_keys=1,
        )
        worst = mechanism.noise_scale * float(mechanism.form.noise_squares(None)) ** 0.5
        yield {
            "period": s, "span": over, "ticks": m, "buffers": len(mechanism.form.poles),
            "fresh": round(key_units(FRESH, over, m, s, 1) ** 0.5, 2),
            "active_users": round(worst, 2),
        }  # fmt: skip


def days(users: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """A shard's part of those who come, day by day."""
    rng = np.random.default_rng(1)
    for day in range(DAYS):
        who = np.flatnonzero(rng.random(users) < 0.1)
        yield day, batch_of(who, who, who * 0, day)


def measured(users: int) -> Iterator[Row]:
    """A shard of ``SHARDS`` with its part of so many users."""
    mine = users // SHARDS
    person = UserUnit(ContributionBounds(PERIOD, 1, 1), Periods(CLOCK, PERIOD * CLOCK.period))
    plan: Any = PLAN._replace(person=person, program=Program(reads_new=False, reads_gaps=SPAN))
    dofn, shard, layout = CloseTicks(plan, SHARDS, False), UserShard(), bytes.fromhex(LAYOUT)
    first = ToUsers(SecretRef.fresh(), plan, 1)
    first.setup()
    dofn.setup()
    took: list[float] = []
    for day, batch in days(mine):
        if day == DAYS - 1:
            dofn._shelves = UserCaches.of("another")
        for element in spread(first, batch):
            list(dofn.process(element, **shard.waits()))
        list(dofn.process((0, heartbeat.encode(day)), **shard.waits()))
        end, begun = Timestamp(micros=CLOCK.tick_start(day + 1)), time.process_time()
        for out in dofn.on_close(0, end, **shard.cells()):
            assert "@gap" in out.schema.names
        took.append((time.process_time() - begun) * SHARDS)
    assert dofn._shelves is not None
    logs = ((shard.users, shard.users_log), (shard.pairs, shard.pairs_log),
            (shard.seen, shard.seen_log))  # fmt: skip
    seen = SpentCells(0, SHARDS, layout, *logs, dofn._shelves, SPAN).seen
    stored = shard.seen.size + shard.seen_log.size
    forgot = [s for day, s in enumerate(took) if day > SPAN and (day + 1) % (SPAN // 4) == 0]
    plain = [s for day, s in enumerate(took[:-1]) if day > SPAN and s not in forgot]
    yield Row("in memory", users, seen.nbytes / mine, "bytes a user")
    yield Row("stored", users, stored / mine, "bytes a user")
    yield Row("close of a day", users, float(np.median(plain)), "s, all shards")
    yield Row("the same, forgetting", users, float(np.median(forgot)), "s, all shards")
    yield Row("the same, all read again", users, took[-1], "s, all shards")


def stepped() -> Row:
    """One key from day to day, noise and all."""
    mechanism = ActiveUsers.calibrated(
        dimension=1, scales=(float(1 << 20),), sensitivity=1.0, overs=(SPAN,), window=None,
        horizon=None, budget=PrivacyLoss("gdp", 0.25), known_keys=1,
        pattern=Pattern(PERIOD, PERIOD, PERIOD, 1, 1, PERIOD, None, PERIOD),
    )  # fmt: skip
    root, state = RootKey.derive(bytes(32), "study", bytes(32)), mechanism.init(1)
    leaves = np.full((1, 1, SPAN), 1 << 20, dtype=np.int64)
    begun = time.process_time()
    for tick in range(1000):
        state, _ = mechanism.step(state, leaves, KeyedNoise(root, 0, [b""], tick))
    return Row("step of a key", 0, (time.process_time() - begun) * 1e3, "microseconds a tick")


def main() -> None:
    """Prints and writes what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=10_000_000)
    users = parser.parse_args().users
    table = list(errors())
    for row in table:
        print(*(f"{name} {value}" for name, value in row.items()), sep="  ")
    rows = [*measured(users), stepped()]
    for row in rows:
        print(f"{row.what:28} {row.users:>12,} users {row.value:>10,.3f} {row.unit}")
    write_rows(RESULTS / "active_users.csv", table)
    write_rows(RESULTS / "active_users_cost.csv", [row._asdict() for row in rows])


if __name__ == "__main__":
    main()
