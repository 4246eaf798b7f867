"""Private aggregates: counts, sums, means, variances and histograms as one joint continual sum."""

from dpcore.aggregates.program import Aggregates

__all__ = ["Aggregates"]
