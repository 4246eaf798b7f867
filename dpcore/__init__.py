"""Mathematics of private release: no Beam, no files, no clock.

A config (``plan_config``) becomes a ``plan``, whose program (``program``) bounds events, adds them
up, and steps with noise; ``simulate`` runs a plan over arrays. Each package below lists in
``__all__`` the modules that others may import; the rest of it may change without notice.
"""
