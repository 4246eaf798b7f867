"""A config file as a job: sections, placeholders, ``--set``, and its JSON Schema.

``job`` reads a file or text into a ``JobConfig``; ``sections`` has the sections that every job
may have. Sources, sinks and ledgers bring their own.
"""

__all__ = ["job", "sections"]
