"""Pictures of Vega-Lite specifications: PNG, SVG and PDF files, by the extra ``weir-dp[png]``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from weir.dpcore.errors import ConfigError

ENDINGS = (".png", ".svg", ".pdf")
VEGA_LITE = "6.1"
"""Version that compiles the charts. From 6.4 on the tooltips of the nearest point read undefined:
they look for fields in the cell of the Voronoi diagram, which holds the point one level deeper."""


def is_installed() -> bool:
    """Whether the library that draws pictures is installed."""
    return importlib.util.find_spec("vl_convert") is not None


def check(path: Path, field: str = "--picture") -> None:
    """Refuses a file that no picture can be written to, before anything runs.

    Args:
      path: the file. field: what names it.

    Raises:
      ConfigError: its ending, a folder that is not there, or the extra is not installed.
    """
    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(field, str(path), f"must end in one of {', '.join(ENDINGS)}.")
    if not path.absolute().parent.is_dir():
        raise ConfigError(field, str(path), "lies in a folder that is not there; make it.")
    if not is_installed():
        raise ConfigError(
            field,
            str(path),
            "needs a library that draws. Install it: pip install 'weir-dp[png]'.",
        )


def save(spec: dict[str, Any], path: Path, scale: float = 2.0, field: str = "--picture") -> Path:
    """Draws a specification into a file. Returns its path.

    Args:
      spec: of Vega-Lite. path: a file that ``check`` accepts. scale: pixels a point, of a PNG.

    Raises:
      ConfigError: the file cannot be written, or as ``check``.
    """
    check(path, field)
    import vl_convert

    kind = path.suffix.lower()
    if kind == ".svg":
        drawn = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE).encode()
    elif kind == ".pdf":
        drawn = vl_convert.vegalite_to_pdf(spec, vl_version=VEGA_LITE)
    else:
        drawn = vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=scale)
    try:
        path.write_bytes(drawn)
    except OSError as error:
        raise ConfigError(field, str(path), f"cannot be written: {error.strerror}.") from None
    return path
