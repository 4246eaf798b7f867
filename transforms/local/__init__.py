"""The local engine: events of files and frames become releases in this process, without Beam.

``LocalEngine`` drives the operators over batches and keeps their state in memory; threads use the
other cores. ``refuse_full`` ends a run before memory does.
"""
