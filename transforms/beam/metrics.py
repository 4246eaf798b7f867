"""Counts of a process as metrics of the Beam job that it works for."""

from __future__ import annotations

from functools import cache

from apache_beam import metrics
from apache_beam.metrics.metric import Counter, Gauge

from weir.transforms.runtime import counters

NAMESPACE = "weir"


@cache
def _counter(name: str) -> Counter:
    return metrics.Metrics.counter(NAMESPACE, name)


@cache
def _gauge(name: str) -> Gauge:
    return metrics.Metrics.gauge(NAMESPACE, name)


class BeamMetrics(counters.Metrics):
    """Beam's counters and gauges in the namespace "weir"."""

    def add(self, name: str, n: int) -> None:
        _counter(name).inc(n)

    def show(self, name: str, value: int) -> None:
        _gauge(name).set(value)


counters.report_to(BeamMetrics())
