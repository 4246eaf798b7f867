"""Formats of files and messages: CSV, NDJSON, JSON, Parquet, Arrow IPC and Avro, a file each.

``registry.FORMATS`` lists them by name; every command looks formats up there. ``format.Format`` is
what one states: how it is recognised, checked, split, read and written. ``lines.LineFormat`` is the
base of formats of lines; ``text`` reads texts, packed or not, and ``stored`` files and their parts.
A config that names a format must load fast, so these modules import decoders when they are used.
"""
