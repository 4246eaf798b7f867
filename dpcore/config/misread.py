"""Numbers that a tool of YAML 1.1 took for text: ``1e-6`` has no point, so it wrote ``'1e-6'``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weir.dpcore.config.section import is_misread


def misread(written: Any, read: Any, at: str = "") -> Iterator[str]:
    """Paths of texts that were read as numbers.

    Args:
      written: plain values of a config. read: the section that they became.
    """
    if isinstance(written, Mapping):
        for name, one in written.items():
            below = f"{at}.{name}" if at else str(name)
            yield from misread(one, _named(read, str(name)), below)
    elif isinstance(written, list | tuple) and isinstance(read, list | tuple):
        for place, (one, two) in enumerate(zip(written, read, strict=False)):
            yield from misread(one, two, f"{at}[{place}]")
    elif is_misread(written) and isinstance(read[0] if _many(read) else read, float):
        yield at


def _many(read: Any) -> bool:
    return isinstance(read, tuple) and len(read) > 0


def _named(section: Any, name: str) -> Any:
    if _many(section):  # edges, of {log: [low, high, bins]}
        return section
    if isinstance(section, Mapping):
        return section.get(name)
    return getattr(section, name, None) or getattr(section, f"{name}_", None)
