"""A picture of an audit: what the attack does against the curve that the claim allows."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from scipy.stats import norm

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.pipelines.audit.attack import Report
from weir.pipelines.audit.audit import Audit, PrivacyClaim

MOST = 6
"""Panels, at most."""


def allowed(claim: PrivacyClaim, alarms: Floats) -> Floats:
    """Largest share of hits that a claim allows at shares of alarms (m,): of mu-GDP, or of
    (epsilon, delta)-DP."""
    if claim.mu is not None and math.isfinite(claim.mu):
        return np.asarray(norm.sf(norm.isf(alarms) - claim.mu))
    if not math.isfinite(claim.epsilon):
        return np.ones_like(alarms)
    factor = math.exp(min(claim.epsilon, 700.0))
    first = factor * alarms + claim.delta
    second = 1 - (1 - claim.delta - alarms) / factor
    return np.clip(np.minimum(first, second), 0, 1)


def shown(report: Report) -> list[Audit]:
    """The audits of all releases first; a panel each."""
    whole = [one for one in report.audits if one.what.startswith("all releases")]
    rest = [one for one in report.audits if one not in whole]
    return [*whole, *rest][:MOST]


def draw(report: Report, file: Path) -> None:
    """Draws ROC curves into a PNG, SVG or PDF file.

    Raises:
      ConfigError: nothing to draw, or a file that cannot be written.
    """
    panels = shown(report)
    if not panels:
        raise ConfigError("--picture", str(file), "has nothing to show: no claim was attacked.")
    from matplotlib.figure import Figure

    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.2 * columns, 4.2 * rows), layout="constrained")
    grid = np.concatenate([np.logspace(-5, -1, 120), np.linspace(0.1, 1, 120)])
    for at, one in enumerate(panels):
        axes = figure.add_subplot(rows, columns, at + 1)
        axes.plot(grid, grid, color="0.8", lw=1)
        axes.plot(grid, allowed(one.claim, grid), color="#b03a2e", lw=1.5, label="claim allows")
        alarms, hits = one.curve
        axes.plot(alarms, hits, color="#1f4e79", lw=1.5, label="attack")
        axes.set(xlabel="false alarms", ylabel="hits", xlim=(0, 1), ylim=(0, 1))
        axes.set_title(
            f"{one.what}\nclaimed {one.claim.epsilon:.3g}, proven {one.proven:.3g}", fontsize=9
        )
        axes.set_aspect("equal")
        if at == 0:
            axes.legend(fontsize=8, frameon=False, loc="lower right")
    figure.suptitle(f"{report.name}: what an attacker finds, and what the claim allows")
    try:
        figure.savefig(file, dpi=120)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "give a file that ends in .png, .svg or .pdf"
        raise ConfigError("--picture", str(file), f"cannot be written: {why}.") from None
