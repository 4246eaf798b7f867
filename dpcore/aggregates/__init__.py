"""Private aggregates: counts, sums, means, variances and histograms as one joint continual sum."""

from weir.dpcore.aggregates.program import Aggregates

__all__ = ["Aggregates"]
