"""``weir verify``: what a receipt proves of a folder of releases, and what its events prove.

``folder`` compares a folder with its receipts and needs no secret. ``rederive`` computes its
releases again from the events; ``stored_job`` is the job for that. ``words`` says it in sentences.
"""

__all__ = ["folder", "rederive", "stored_job", "words"]
