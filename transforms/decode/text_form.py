"""How a text of events is written."""

from __future__ import annotations

from typing import NamedTuple

from weir.transforms.decode.encoding import UTF_8
from weir.transforms.decode.lines import LINE_BYTES


class TextForm(NamedTuple):
    """How a text is written; all but ``line_bytes`` is for CSV.

    Attributes:
      delimiter: what stands between fields.
      line_bytes: longest line, in UTF-8.
      columns: names of the fields where there is no header, in order; None where there is one.
      encoding: from ``transforms.decode.encoding.check_encoding``.
      quoted_newlines: whether quoted fields may hold newlines.
    """

    delimiter: str = ","
    line_bytes: int = LINE_BYTES
    columns: tuple[str, ...] | None = None
    encoding: str = UTF_8
    quoted_newlines: bool = False
