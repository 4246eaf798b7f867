"""Jobs as users of other libraries write them. Runs under a Python of its own, without Weir:

PEERS/bin/python benchmarks/peers/others.py JOB PEER DRAWS

OpenDP 0.16 numbers a user's groups from 1 and keeps the numbers below k: of k groups that are paid
for, k - 1 are kept. Its jobs pay for one more. Its random choice of groups (``keep="sample"``, the
default) fails with the polars that it requires ("multiple fields with name"), and it takes no such
expression from users. Its jobs choose a user's groups at random before, so that it drops none.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from cells import (  # noqa: E402  # imported by its place: this file runs without the project
    AMOUNT,
    BINS,
    CELLS,
    DAYS,
    DELTA,
    EPSILON,
    FEW,
    L0_DAILY,
    L0_FEW,
    L0_RARE,
    LINF,
    SHOPS,
    WEEK,
    Data,
    data_of,
    error_of,
)

Job = Callable[[Any], Any]
DAYS_AND_SHOPS = [(day, key) for day in range(DAYS) for key in range(SHOPS)]


def pipeline_dp_engine(rows: Any, params: Any, public: Any) -> dict[Any, Any]:
    """What every job of PipelineDP needs: 11 lines, counted with each."""
    import pipeline_dp

    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    result = engine.aggregate(rows, params, extractors, public_partitions=public)
    budget.compute_budgets()
    return dict(result)


def pipeline_dp_params(metrics: list[str], noise: str, most: int, each: int, **more: Any) -> Any:
    """Parameters by the names of their parts."""
    import pipeline_dp

    named = [getattr(pipeline_dp.Metrics, name) for name in metrics]
    return pipeline_dp.AggregateParams(
        metrics=named, noise_kind=getattr(pipeline_dp.NoiseKind, noise),
        max_partitions_contributed=most, max_contributions_per_partition=each, **more,
    )  # fmt: skip


def pipeline_dp_daily(rows: Any) -> Any:
    params = pipeline_dp_params(["PRIVACY_ID_COUNT"], "GAUSSIAN", L0_DAILY, 1)
    released = pipeline_dp_engine(rows, params, DAYS_AND_SHOPS)
    return [[released[day, key].privacy_id_count for key in range(SHOPS)] for day in range(DAYS)]


def pipeline_dp_unknown(rows: Any) -> Any:
    params = pipeline_dp_params(
        ["PRIVACY_ID_COUNT"], "GAUSSIAN", L0_RARE, 1, post_aggregation_thresholding=True
    )
    params.partition_selection_strategy = thresholding()
    return list(pipeline_dp_engine(rows, params, None))


def thresholding() -> Any:
    import pipeline_dp

    return pipeline_dp.PartitionSelectionStrategy.GAUSSIAN_THRESHOLDING


def pipeline_dp_sum_mean(rows: Any) -> Any:
    params = pipeline_dp_params(
        ["SUM", "MEAN"], "GAUSSIAN", L0_FEW, LINF, min_value=0.0, max_value=AMOUNT
    )
    released = pipeline_dp_engine(rows, params, list(range(FEW)))
    return [released[key].mean for key in range(FEW)]


def pipeline_dp_quantiles(rows: Any) -> Any:
    import pipeline_dp

    params = pipeline_dp_params([], "GAUSSIAN", 1, LINF, min_value=0.0, max_value=AMOUNT)
    params.metrics = [pipeline_dp.Metrics.PERCENTILE(50), pipeline_dp.Metrics.PERCENTILE(95)]
    (released,) = pipeline_dp_engine(rows, params, [0]).values()
    return [released.percentile_50, released.percentile_95]


def pipeline_dp_total(rows: Any) -> Any:
    params = pipeline_dp_params(["COUNT"], "LAPLACE", 1, 1)
    return pipeline_dp_engine(rows, params, [0])[0].count


def pipeline_dp_histogram(rows: Any) -> Any:
    params = pipeline_dp_params(["COUNT"], "LAPLACE", 1, 1)
    released = pipeline_dp_engine(rows, params, list(range(BINS)))
    return [released[place].count for place in range(BINS)]


def pipeline_dp_weekly(rows: Any) -> Any:
    params = pipeline_dp_params(["PRIVACY_ID_COUNT"], "GAUSSIAN", DAYS, 1)
    released = pipeline_dp_engine(rows, params, list(range(DAYS)))
    return [released[day].privacy_id_count for day in range(DAYS)]


def opendp_total(rows: Any) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    count = space >> dp.t.then_count()
    make = lambda scale: count >> dp.m.then_laplace(scale)  # noqa: E731  # as its pages write it
    scale = dp.binary_search_param(make, d_in=1, d_out=EPSILON)
    return make(scale)(rows)


def opendp_histogram(rows: Any) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    count = space >> dp.t.then_count_by_categories(list(range(BINS)), null_category=False)
    make = lambda scale: count >> dp.m.then_laplace(scale)  # noqa: E731  # as its pages write it
    scale = dp.binary_search_param(make, d_in=1, d_out=EPSILON)
    return make(scale)(rows)


@cache
def opendp_rho(delta: float) -> float:
    """The zero-concentrated loss whose conversion is (EPSILON, delta)."""
    import opendp.prelude as dp

    def is_within(rho: float) -> bool:
        space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
        gaussian = dp.m.make_gaussian(*space, scale=(2 * rho) ** -0.5)
        return bool(dp.c.make_zCDP_to_approxDP(gaussian).map(1.0).epsilon(delta) <= EPSILON)

    return float(-dp.binary_search(lambda rho: is_within(-rho), bounds=(-1.0, -1e-4)))


def opendp_query(rows: Any, by: str | None, most: int = 0, each: int = 1, found: float = 0) -> Any:
    """What every job of users needs; counted with each. found: delta of keys that are not named."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=pl.LazyFrame(rows), split_evenly_over=1,
        privacy_loss=dp.loss_of(rho=opendp_rho(DELTA - found), delta=found or None),
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user")),
        margins=[dp.polars.Margin(by=[by] if by else [], max_length=1_000_000)],
    )  # fmt: skip
    if by is None:
        return context.query().truncate_per_group(each)
    query = context.query().truncate_per_group(each, by=[by])
    return query.truncate_num_groups(most + 1, by=[by], keep="first").group_by(by)


def opendp_chosen(rows: Any, by: str, most: int) -> Any:
    """At most so many groups of each user, chosen at random."""
    import polars as pl

    pairs = pl.DataFrame(rows).select("user", by).unique()
    return pairs.sample(fraction=1.0, shuffle=True).group_by("user").head(most)


def opendp_daily(rows: Any) -> Any:
    import opendp.prelude as dp
    import polars as pl

    query = opendp_query(opendp_chosen(rows, "cell", L0_DAILY), "cell", L0_DAILY).agg(dp.len())
    named = query.with_keys(pl.LazyFrame({"cell": range(DAYS * SHOPS)})).release().collect()
    return named.sort("cell")["len"].to_numpy().reshape(DAYS, SHOPS)


def opendp_unknown(rows: Any) -> Any:
    import opendp.prelude as dp

    chosen = opendp_chosen(rows, "key", L0_RARE)
    query = opendp_query(chosen, "key", L0_RARE, found=DELTA / 2).agg(dp.len())
    return query.release().collect()["key"].to_numpy()


def opendp_weekly(rows: Any) -> Any:
    import opendp.prelude as dp
    import polars as pl

    query = opendp_query(rows, "day", DAYS).agg(dp.len())
    named = query.with_keys(pl.LazyFrame({"day": range(DAYS)})).release().collect()
    return named.sort("day")["len"].to_numpy()


def opendp_sum_mean(rows: Any) -> Any:
    import opendp.prelude as dp
    import polars as pl

    total = pl.col("amount").dp.sum((0.0, AMOUNT))
    query = opendp_query(rows, "key", L0_FEW, LINF).agg(total, dp.len())
    released = query.with_keys(pl.LazyFrame({"key": range(FEW)})).release().collect().sort("key")
    return (released["amount"] / released["len"]).to_numpy()


def opendp_quantiles(rows: Any) -> Any:
    import opendp.prelude  # noqa: F401  # adds pl.Expr.dp
    import polars as pl

    places, amount = np.linspace(0, AMOUNT, 129).tolist(), pl.col("amount")
    both = [amount.dp.quantile(at, places).alias(str(at)) for at in (0.5, 0.95)]
    return opendp_query(rows, None, each=LINF).select(*both).release().collect().to_numpy()[0]


def diffprivlib_total(rows: Any) -> Any:
    from diffprivlib.tools import count_nonzero

    return count_nonzero(rows, epsilon=EPSILON)


def diffprivlib_histogram(rows: Any) -> Any:
    from diffprivlib.tools import histogram

    return histogram(rows, epsilon=EPSILON, bins=BINS, range=(0, AMOUNT))[0]


def rows_for(job: str, peer: str, data: Data) -> Any:
    """Events as the library takes them; making them is not timed."""
    place = np.minimum(data.amount * BINS / AMOUNT, BINS - 1).astype(int)
    if peer == "opendp" and CELLS[job].unit == "user":
        if job == "weekly":
            days = np.repeat(data.day, WEEK) + np.tile(np.arange(WEEK), len(data.day))
            return {"user": np.repeat(data.user, WEEK)[days < DAYS], "day": days[days < DAYS]}
        cell = data.day * SHOPS + data.key
        return {"user": data.user, "key": data.key, "cell": cell, "amount": data.amount}
    if peer == "opendp":
        return [str(user) for user in data.user] if job == "total" else place.tolist()
    if peer == "diffprivlib":
        return np.ones(len(data.user)) if job == "total" else data.amount
    users, keys = data.user.tolist(), data.key.tolist()
    if job == "daily":
        keys = list(zip(data.day.tolist(), keys, strict=True))
    if job in ("total", "histogram"):  # a row is its own unit
        users = list(range(len(users)))
        keys = place.tolist() if job == "histogram" else keys
    amounts = data.amount.tolist()
    if job == "weekly":
        days = [(user, day) for user, day in zip(users, data.day.tolist(), strict=True)]
        return [(u, d + after, 0) for u, d in days for after in range(WEEK) if d + after < DAYS]
    return list(zip(users, keys, amounts, strict=True))


def lines_of(*functions: Any) -> int:
    """Lines of code of functions, without their heads, docstrings and blanks."""
    total = 0
    for function in functions:
        body = inspect.getsource(function).splitlines()[1:]
        total += sum(bool(line.strip()) and not line.strip().startswith('"""') for line in body)
    return total


def main() -> None:
    """Prints errors, seconds and lines as JSON."""
    job, peer, draws = sys.argv[1], sys.argv[2], int(sys.argv[3])
    run: Job = globals()[f"{peer}_{job}"]
    data = data_of(job)
    rows = rows_for(job, peer, data)
    errors, seconds = [], []
    for _ in range(draws):
        began = time.process_time()
        released = run(rows)
        seconds.append(time.process_time() - began)
        errors.append(error_of(job, data, released))
    shared: list[Any] = [pipeline_dp_engine] if peer == "pipeline_dp" else []
    if peer == "opendp" and CELLS[job].unit == "user":
        chosen = [opendp_chosen] if job in ("daily", "unknown") else []
        shared = [opendp_rho.__wrapped__, opendp_query, *chosen]
    print(json.dumps({"errors": errors, "seconds": seconds, "lines": lines_of(run, *shared)}))


if __name__ == "__main__":
    main()
