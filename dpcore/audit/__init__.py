"""What an attacker proves about a plan: neighbours, laws of transcripts, lower bounds on epsilon.

``changes`` lists the changes of one unit that a mechanism moves most under, ``law`` gives the
exact likelihood ratio of a transcript, and ``distinguish`` learns one and turns the errors of
any distinguisher into a lower bound on epsilon or mu.
"""

__all__ = ["changes", "distinguish", "law"]
