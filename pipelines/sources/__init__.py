"""The section ``source`` of a config: ``registry.SOURCES`` lists its kinds, one for each format of
files and one for Pub/Sub; ``source.Source`` is what a kind states.
"""
