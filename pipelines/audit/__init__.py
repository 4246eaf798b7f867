"""``weir audit``: attacks a job from bytes to the sink, and proves lower bounds.

``attack`` runs all attacks of a job and draws them, ``audit`` has the job under audit, its
claims and the statistics. Inside, ``choice`` and ``search`` choose the changes, ``streams``
writes events, ``trial`` runs them, ``malformed`` and ``isolation`` try damaged records.
``replay`` compares what noise primitives are given with what they pay for; ``replayed`` is its
report.
"""

__all__ = ["attack", "audit", "replay", "replayed"]
