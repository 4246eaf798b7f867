"""Which mechanism serves a plan, with how much noise, and what users' periods cost together.

``terms`` is what an algorithm compiles under, ``noises`` says which noise can keep a guarantee,
``calibration`` sizes the noise of one sum, and ``alternatives`` prices all mechanisms and picks the
best; ``choice`` says why. ``user_periods`` has the privacy loss of a user over several periods, and
the price of other contribution bounds.
"""

__all__ = ["alternatives", "calibration", "choice", "noises", "terms", "user_periods"]
