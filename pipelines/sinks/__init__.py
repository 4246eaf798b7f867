"""Kinds of sinks for releases and for dead letters, and their registry.

``sink`` has the base class and the registry, ``folder`` the sinks that are folders of files,
``dead_letters`` where rejected records are listed. Other kinds have a file each.
"""

__all__ = ["dead_letters", "folder", "sink"]
