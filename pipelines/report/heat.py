"""Heat maps as inline SVG, and their scale of colours."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from numpy.typing import NDArray
from PIL import Image

from pipelines.report.svg import BOTTOM, RIGHT, TOP, WIDTH, Frame, TimeAxis, svg, text, time_labels

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COLOUR_MAP = "viridis"
_LEVELS = 255


@dataclass(frozen=True)
class HeatScale:
    """Colour by asinh(value / soft): even steps near 0, then even ratios, so a few rows hide none.

    Attributes:
      top: where the scale ends. soft: where it bends.
    """

    top: float
    soft: float

    @classmethod
    def of(cls, value: Floats, noise: float = 0.0) -> HeatScale:
        """Ends at the 99.8 % quantile; bends at the median, but above what noise alone shows."""
        fine = value[np.isfinite(value)]
        top = float(np.quantile(fine, 0.998)) if fine.size else 1.0
        top = top if top > 0 else 1.0
        middle = float(np.median(np.maximum(fine, 0.0))) if fine.size else 0.0
        return cls(top, min(max(middle, top / 1000, noise), top / 2))

    def share(self, value: Floats) -> Floats:
        """0 at 0 and below, 1 at the top and above, NaN where there is no value."""
        with np.errstate(invalid="ignore"):
            bent = np.arcsinh(np.clip(value, 0, self.top) / self.soft)
        return np.asarray(bent / np.arcsinh(self.top / self.soft))

    def value(self, share: float) -> float:
        """Inverse of ``share``."""
        return float(self.soft * np.sinh(share * np.arcsinh(self.top / self.soft)))

    def level(self, value: Floats) -> NDArray[np.uint8]:
        """0..254, and 255 where there is no value."""
        share = self.share(value)
        level = np.where(np.isfinite(share), np.round(share * (_LEVELS - 1)), _LEVELS)
        return level.astype(np.uint8)


def picture(level: NDArray[np.uint8]) -> str:
    """Levels (rows, columns) as a data URI of a PNG with a palette; 255 is transparent."""
    colours = (colormaps[COLOUR_MAP](np.linspace(0, 1, _LEVELS))[:, :3] * 255).round()
    image = Image.fromarray(level, mode="P")
    image.putpalette([*colours.astype(int).ravel().tolist(), 0, 0, 0])
    stream = io.BytesIO()
    image.save(stream, "PNG", optimize=True, transparency=_LEVELS)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()


def heat_chart(
    value: Floats,
    ticks: Ints,
    rows: Sequence[tuple[float, str]],
    axis: TimeAxis,
    row_height: float,
    label: str,
    side: float,
    noise: float = 0.0,
) -> tuple[str, Frame, HeatScale]:
    """Rows over time. value: (R, m); rows: (position in rows, label) of the marks at the left."""
    scale = HeatScale.of(value, noise)
    body = max(row_height * len(value), 60.0)
    frame = Frame(side, WIDTH - RIGHT, TOP, TOP + body, axis.first - 0.5, axis.last + 0.5, 0, 1)
    a, b = float(frame.x(ticks[0] - 0.5)), float(frame.x(ticks[-1] + 0.5))
    if len(ticks) > 1:
        a = float(frame.x(ticks[0] - (ticks[1] - ticks[0]) + 0.5))
    parts = [
        f'<image x="{max(a, side):.1f}" y="{TOP}" width="{b - max(a, side):.1f}" '
        f'height="{body:.1f}" preserveAspectRatio="none" class="heat" '
        f'href="{picture(scale.level(value))}"/>'
    ]
    for position, name in rows:
        y = TOP + position * body / len(value)
        parts.append(text(side - 7, y + 3.5, name, "tick", "end"))
    parts.append(time_labels(frame, axis))
    parts.append('<g class="hover"></g>')
    return svg("".join(parts), TOP + body + BOTTOM, label), frame, scale


def legend(scale: HeatScale, show: Callable[[float], str]) -> str:
    """A bar of colours with numbers under it."""
    level = np.arange(_LEVELS, dtype=np.uint8)[None, :]
    parts = [
        f'<image x="0" y="0" width="260" height="9" preserveAspectRatio="none" class="heat" '
        f'href="{picture(level)}"/>'
    ]
    for share in (0.0, 0.5, 1.0):
        value = scale.value(share)
        anchor = {0.0: "start", 1.0: "end"}.get(share, "middle")
        name = "0 or less" if share == 0 else show(value) + (" or more" if share == 1 else "")
        parts.append(text(260 * share, 22, name, "tick", anchor))
    return svg("".join(parts), 26, "colour scale", width=260)
