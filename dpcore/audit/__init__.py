"""What an attacker proves about a plan: neighbours, laws of transcripts, lower bounds on epsilon.

``changes`` lists the changes of one unit that a mechanism moves most under, ``law`` gives the
exact likelihood ratio of a transcript, and ``distinguish`` learns one and turns the errors of
any distinguisher into a lower bound on epsilon or mu. ``replay`` compares two runs of a plan
under the same answers of all noise, and ``noise_size`` the size of the noise with what is declared.
"""

__all__ = ["changes", "distinguish", "law", "noise_size", "replay"]
