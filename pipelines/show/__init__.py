"""What commands print: a module for each page.

A page takes what a command found and writes to a console of rich; ``pipelines/terminal`` has
tables, headings and numbers, so that all pages look alike.
"""

__all__ = [
    "algorithms",
    "diff",
    "doctor",
    "export",
    "ledger",
    "plan",
    "rehearsal",
    "replay",
    "status",
    "summary",
    "top",
]
