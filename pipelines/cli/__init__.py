"""The command line: options, and commands that import the rest when they run.

``main`` is the entry point. A module holds commands that belong together; ``base`` has what
they share: options, JSON output, logs and the manual.
"""

__all__ = ["main"]
